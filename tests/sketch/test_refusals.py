"""Wrong parameters of sketches, shinglings, searches and the main job: an error names them before any work."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import gpulsh
import gpulsh.compat
from gpulsh import BitSignatures, HammingTables, ParameterError, Shingling, Signatures, SimHash
from gpulsh.arrays import Fingerprints, PackedSignatures, SketchResult
from gpulsh.sketch.named import parse_sketch

CPU: Any = {"backend": "cpu"}
BITS = BitSignatures(np.zeros((2, 1), np.uint64))
LINE = abs(np.arange(3.0)[:, None] - np.arange(3.0))
ARRAY = np.zeros((2, 2), np.uint32)
UNION = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([0])])  # a type that NumPy lacks


def run(**given: Any) -> Callable[[], Any]:
    return lambda: gpulsh.deduplicate(["a"], **{**CPU, **given})


def estimated(sketch: Any, sketched: Any, pairs: Any = ((0, 0),)) -> Callable[[], Any]:
    return lambda: sketch.estimate(sketched, pairs, **CPU)


def called(call: Any, *given: Any) -> Callable[[], Any]:
    return lambda: call(*given, **CPU)


def deviation(sketch: Any, value: Any, size: Any = None) -> Callable[[], Any]:
    return lambda: sketch.standard_deviation(value, size)


def made_weighted(values: list[int], weight: list[float], offset: list[int]) -> Callable[[], Any]:
    return lambda: gpulsh.WeightedFingerprints(np.array(values, np.uint64), np.array(weight), np.array(offset))


MOVER = gpulsh.EarthMover(LINE)
SET_SKETCHES = [gpulsh.MinHash(), gpulsh.OnePermutation(), gpulsh.FastSimilarity(), gpulsh.CMinHash()]
SKETCHES: list[tuple[Callable[[], Any], str]] = [
    *((partial(kind, num_perm=0), "num_perm is 0") for kind in (gpulsh.BBit, gpulsh.MinHash, gpulsh.WeightedMinHash)),
    *((partial(kind, seed=-1), "seed is -1") for kind in (gpulsh.ModM, SimHash, gpulsh.KleinbergTardos, gpulsh.BBit)),
    (partial(gpulsh.WeightedMinHash, seed="a"), "seed is 'a'"),
    (partial(gpulsh.MinHash, family="one_permutation"), "family is"),
    *((partial(gpulsh.BBit, bits=bits), f"bits is {bits}; give one of 1, 2, 4, 8, 16, 32") for bits in (3, 64)),
    *((partial(SimHash, bits=bits), f"bits is {bits}; give a multiple of 64") for bits in (63, 100, 64.0, 448, True)),
    (partial(SimHash, weights="tf"), "weights is 'tf'"),
    (partial(gpulsh.BottomS, size=0), "size is 0"),
    (partial(gpulsh.ModM, modulus=0), "modulus is 0"),
    (called(gpulsh.BBit(num_perm=64), Signatures(np.zeros((1, 128), np.uint32))), "num_perm is 64"),
    (estimated(gpulsh.BBit(), PackedSignatures(np.zeros((1, 3), np.uint64))), "3 words a row"),
    (estimated(SimHash(bits=128), BITS), "bits is 128 and the signatures have 64"),
    (estimated(gpulsh.BottomS(), [1]), "samples is of type list"),
    (estimated(gpulsh.MinHash(), ARRAY), "signatures is of type ndarray"),
    (called(SimHash(), [[1]]), "fingerprints is of type list"),
    (called(gpulsh.BottomS(), ["a"]), "fingerprints is of type list"),
    (called(gpulsh.WeightedMinHash(), gpulsh.shingle(["a"], **CPU)), "rows is of type Fingerprints"),
    (lambda: gpulsh.WeightedMinHash().from_texts(["a"], "tf", **CPU), "weights is 'tf'"),  # type: ignore[arg-type]
    (called(gpulsh.minima, [[5]], [[1], [2]]), "elements from 5 to 5; functions has 2, numbered from 0"),
    (called(gpulsh.minima, [[-1]], [[1], [2]]), "elements from -1 to -1"),
    (called(gpulsh.minima, [[0]], [1, 2]), "shape .2,.; give integers of shape"),
    (called(gpulsh.minima, [[0]], [[1], [2, 3]]), "functions is not an array"),
    (called(gpulsh.minima, [[0]], [[2**32 - 1]]), "give values from 0 to 4294967294"),
    (deviation(gpulsh.ModM(), 0.5), "size is not given"),
    *((deviation(sketch, 1.5), "value is 1.5") for sketch in (gpulsh.BottomS(), gpulsh.BBit(), SimHash())),
    *((deviation(sketch, 0.5, 0), "size, the number") for sketch in (gpulsh.BBit(), SimHash(), MOVER)),
    *((deviation(sketch, wrong), "give ") for sketch in SET_SKETCHES for wrong in (1.5, "half", [0.1, 0.2])),
    *((deviation(sketch, 0.5, wrong), "give ") for sketch in SET_SKETCHES for wrong in (0, 1.5, "many")),
    (called(gpulsh.hamming, BITS, [[0, 2]]), "pairs holds rows from 0 to 2"),
    (called(gpulsh.hamming, BITS, [[0.5, 1]]), "pairs is an array of float64"),
    (called(gpulsh.hamming, BITS, [0, 1]), "pairs is an array"),
    (called(gpulsh.hamming, BITS, UNION), "pairs is not an array: .*; give integers of shape"),
    (run(threshold=UNION), "threshold is of type UnionArray; give a number"),
    (called(gpulsh.hamming, BITS, np.ndarray), "pairs is the class ndarray; give integers of shape"),
    (called(gpulsh.hamming, BITS.values, [[0, 1]]), "bit_signatures is of type ndarray"),
    (lambda: BitSignatures(np.zeros((2, 1), np.int64)), "BitSignatures.values is a 2-dimensional array of int64"),
    (lambda: BitSignatures(pl.Series([Decimal("0.5")])), "BitSignatures.values is of type Series of Decimal"),
    *((partial(parse_sketch, text), "sketch is") for text in ("", "minhush", "minhash:", "minhash:x")),
    *((partial(parse_sketch, text), "sketch is") for text in ("one_permutation:-1", "minhash:1e3")),
]
VECTORS = [[[1.0, np.nan]], [[1.0], [-np.inf]], [[1j]], [["a"]], [[1.0], [1.0, 2.0]], [1.0, 2.0], 3]
METRICS = [
    *([[0, 1], [2, 0]], [[1, 1], [1, 0]], [[0, 1, 5], [1, 0, 1], [5, 1, 0]], [[0, -1], [-1, 0]]),
    *([[0, np.nan], [np.nan, 0]], [[0, 1]], [], "metric", [[0, 1.7e308], [1.7e308, 0]]),
    *([["0", "1"], ["1", "0"]], np.ma.array([[0, 1], [1, 0]], mask=[[0, 1], [1, 0]])),
]
LABELS = np.zeros((1, 32), np.int64)
EARTH_MOVER: list[tuple[Callable[[], Any], str]] = [
    *((partial(gpulsh.EarthMover, one), "distances ") for one in METRICS),
    (called(MOVER, [[1.0, 0, 0], [0.5, 0.4, 0]]), "row 1 of distributions sums to 0.9"),
    (called(MOVER, [[0.0, 0, 0]]), "row 0 of distributions sums to 0"),
    (called(MOVER, [[0.5, 0.5]]), "distances are of 3 points"),
    (called(MOVER, [[1.5, -0.5, 0]]), "distributions holds numbers below 0"),
    (called(MOVER, [1.0, 0, 0]), "distributions has shape"),
    (called(MOVER, [["a", "b", "c"]]), "distributions is an array of <U1"),
    (estimated(MOVER, LABELS, [[0, 1]]), "pairs holds rows"),
    (estimated(MOVER, LABELS[:0]), "pairs holds rows"),
    *((estimated(MOVER, labels), "labels ") for labels in (LABELS * 1.0, LABELS + 3, LABELS - 1, LABELS[:, :0])),
    (deviation(MOVER, 3), "value is 3"),
    (deviation(MOVER, None), "value is None"),
]
SEARCHES: list[tuple[Callable[[], Any], str]] = [
    *((partial(HammingTables, bits=bits), f"bits is {bits}") for bits in (32, 100)),
    *((made_weighted(values, [1.0, 1.0], [0, 2]), "values does not ascend") for values in ([2, 1], [1, 1])),
    (made_weighted([1, 2], [1.0], [0, 2]), "2 values and 1 weights"),
    *((made_weighted([1], [w], [0, 1]), "weights that are not above 0") for w in (0.0, -1.0, np.nan, np.inf)),
    (made_weighted([1], [1.0], [0, 2]), "offset does not ascend"),
    (partial(HammingTables, distance=64), "distance is 64"),
    (partial(HammingTables, bits=4096, distance=2000), "distance is 2000 of 4096 bits"),
    *(
        (partial(HammingTables, tables=tables), "tables is .*; give 'auto', 4 or 10")
        for tables in (5, "many", [4], None, 4.0)
    ),
    (partial(HammingTables, distance=0, tables=True), "tables is True"),
    *((partial(HammingTables().design, count), "count is") for count in (-1, "many", 1.5)),
    (called(HammingTables().pairs, BitSignatures(np.zeros((3, 2), np.uint64))), "bits is 64"),
    (partial(gpulsh.BitSampling, bands=0, rows=1), "bands is 0"),
    (partial(gpulsh.BitSampling, bands=1, rows=0), "rows is 0"),
    (called(gpulsh.BitSampling(bands=1, rows=1), np.zeros((1, 1), np.uint64)), "bit_signatures is of type"),
    (partial(gpulsh.Supershingles, groups=0), "groups is 0"),
    (partial(gpulsh.Supershingles, agree=7), "agree is 7"),
    (partial(gpulsh.Supershingles, groups=40, agree=20), "agree is 20 of 40 groups"),
    (called(gpulsh.Supershingles(), Signatures(np.zeros((2, 80), np.uint32))), "the signatures have 80 values"),
]
TEXT: list[tuple[Callable[[], Any], str]] = [
    *((partial(Shingling, **{name: 1}), f"{name} is 1") for name in ("symbols", "labels", "anchor", "hash")),
    (partial(Shingling, hash=np.array(["mix64", "rabin"])), "hash is array"),
    *((partial(Shingling, stop=stop), "a word of stop is 5") for stop in (5, [5])),
    (partial(Shingling, stop=b"de"), "a word of stop is of type bytes"),
    (partial(Shingling, stem=5), "stem is 5"),
    (partial(Shingling, unit="char", stop=["a"]), "unit is 'char'"),
    (partial(Shingling, unit="char", anchor="stopwords"), "unit is 'char'"),
    *((partial(Shingling, language="de", **given), "language is 'de'") for given in ({}, {"stop": ["a"]})),  # type: ignore[arg-type]
    (partial(gpulsh.Folding, case="no"), "case is 'no'"),
    (lambda: Shingling.parse(5), "shingling is 5"),  # type: ignore[arg-type]
    (run(shingling=5), "shingling is 5; give .* a str such as 'word:5'"),
    *((partial(Shingling, unit=unit), "unit") for unit in ("line", 5)),
    *((partial(Shingling, size=size), "size is .*; give an integer from 1 to 64") for size in (0, 65, 5.0)),
    *((run(shingling=text), "shingling is .*SIZE from 1") for text in ("word", "words", "word:0", "word:٣")),
    (partial(gpulsh.Folding, form="NFD"), "form"),
    *((partial(Shingling.parse, text), "--shingle|shingling is") for text in ("word:5+", "word:5+symbol")),
    (lambda: Shingling.parse("word:5+symbols+symbols"), "shingling is"),
    (lambda: Shingling.parse("word+symbols:5"), "shingling is"),
    (lambda: gpulsh.weigh(["a"], "tfidf"), "weights is 'tfidf'"),  # type: ignore[arg-type]
    *((partial(gpulsh.text_profiles, ["a"], min_token_len=n), "min_token_len is") for n in (-1, 2.0)),
    *((partial(gpulsh.text_profiles, ["a"], quant_rate=q), "quant_rate is") for q in (1.5, np.nan, "1")),
]
STEPS: list[tuple[Callable[[], Any], str]] = [
    *(
        (partial(gpulsh.Banding, bands=bands, rows=rows), name)
        for bands, rows, name in ((0, 4, "bands"), (4, "4", "rows"))
    ),
    (partial(gpulsh.SCurve, bands=None, rows=1), "bands"),
    *((called(gpulsh.MinHash(), other), "give") for other in (np.zeros(3, np.uint64), ["text"])),
    (called(gpulsh.Banding(bands=2, rows=2), [[1, 2, 3, 4]]), "give"),
    (called(gpulsh.Banding(bands=43, rows=3), Signatures(np.zeros((2, 128), np.uint32))), "43 \\* 3 = 129"),
    (called(gpulsh.candidate_pairs, [[1, 2]]), "give"),
    (called(gpulsh.jaccard, [[1, 2]], [[0, 0]]), "give"),
    *(
        (called(call, Fingerprints(np.arange(3, dtype=np.uint64), np.array([0, 2, 3])), pairs), "pairs")
        for call in (gpulsh.jaccard, gpulsh.containment)
        for pairs in ([[0, 5]], [[-1, 2]], [0, 1], [[0, 1, 2]], [[0.0, 1.0]], "ab")
    ),
]
JOBS: list[tuple[Callable[[], Any], str]] = [
    *((run(threshold=value), "threshold") for value in (1.0000001, np.nan, "0.8", None)),
    (run(threshold=0), r"threshold is 0.*above 0 and at most 1"),
    (run(threshold=0.02), "num_perm is 128.*give num_perm="),
    *((run(num_perm=value), "num_perm") for value in (0, 128.0, True, 70000)),
    *((run(seed=value), "seed") for value in (-1, 2**64)),
    *((run(**{name: value}), name) for name, value in (("bands", 0), ("rows", 129), ("threads", 0), ("verify", "yes"))),
    *((run(**{name: value}), name) for name, value in (("verify", True), ("resolve", "first"), ("backend", "gpu"))),
    *((run(**{name: value}), name) for name, value in (("priority", [1, 2]), ("shingling", 5), ("folding", "NFC"))),
    (run(bands=40, rows=4), "bands"),
    *(
        (run(sketch="minhsh"), "sketch is 'minhsh'"),
        (run(sketch="minhash:0"), "sketch is 'minhash:0'; give 1 to 65536 values"),
    ),
    (run(sketch="minhash:64", num_perm=32), "num_perm is 32"),
    (run(also="minhash"), "also is 'minhash'; give simhash"),
    *((run(**{name: "simhash:64:3"}, distance=4), "distance") for name in ("sketch", "also")),
    (run(measure="cosine"), "measure is 'cosine'"),
    (run(drop_contained_only=False), "drop_contained_only=False is given, and measure is 'jaccard'"),
    (run(measure="containment", verify="signature"), "measure is 'containment'"),
    (run(measure="containment", also=SimHash()), "also is given with measure 'containment'"),
    (run(also=gpulsh.MinHash(), distance=3), "also is of type MinHash"),
    *(
        (call, "distance is 3 and no sketch has bits; give sketch=SimHash()")
        for call in (run(distance=3), partial(gpulsh.Index, distance=3))
    ),
    (run(sketch=SimHash(), distance=64), "distance is 64"),
    (run(also="simhash:64:99"), "also is 'simhash:64:99'; give a distance from 0 to 63"),
    (run(also="simhash:0:0"), "also is 'simhash:0:0'; give a multiple of 64 bits, at most 384"),
    (run(sketch="simhash:99"), "sketch is 'simhash:99'; give a multiple of 64 bits, at most 384"),
    (run(sketch=SimHash(weights="idf")), "weights is 'idf'"),
    *((run(sketch=SimHash(), **given), "a sketch of bits") for given in ({"verify": "signature"}, {"rows": 4})),
    (run(sketch=SimHash(), num_perm=64), "num_perm is 64"),
    (run(sketch=SimHash(seed=2), seed=3), "seed is 3"),
    (run(sketch=["minhash"]), "sketch is of type list"),
    (run(sketch=SimHash), "sketch is the class SimHash; give an object, such as gpulsh.SimHash()"),
    (run(also=SimHash), "also is the class SimHash; give an object"),
    (run(sketch=gpulsh.OnePermutation(num_perm=64), num_perm=32), "num_perm is 32 and the sketch has 64"),
    (run(sketch=gpulsh.OnePermutation(seed=4), seed=5), "seed is 5 and the sketch has 4"),
]


@pytest.mark.parametrize(("call", "message"), [*SKETCHES, *EARTH_MOVER, *SEARCHES, *TEXT, *STEPS, *JOBS])
def test_a_parameter_out_of_range_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message) as caught:
        call()
    assert isinstance(caught.value, ValueError) and "\n" not in str(caught.value)


@pytest.mark.parametrize("vectors", VECTORS, ids=str)
def test_wrong_vectors_are_refused(vectors: Any) -> None:
    for kind in (gpulsh.Hyperplanes, gpulsh.WeightedMinHash, gpulsh.KleinbergTardos):
        with pytest.raises(ParameterError, match="vectors "):
            kind()(vectors, **CPU)
    for kind in (gpulsh.WeightedMinHash, gpulsh.KleinbergTardos):
        with pytest.raises(ParameterError, match="numbers below 0"):
            kind()([[1.0, -1.0]], **CPU)


@pytest.mark.parametrize("sketch", [gpulsh.Hyperplanes(), gpulsh.WeightedMinHash(), gpulsh.KleinbergTardos()])
def test_masked_vectors_are_refused(sketch: Any) -> None:
    rows = np.array([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(ParameterError, match="vectors has masked values; fill them"):
        sketch(np.ma.array(rows, mask=[[0, 1], [0, 0]]), backend="cpu")
    sketched = sketch(rows, **CPU)
    assert sketch(np.ma.array(rows), **CPU) == sketched and sketched.maker == sketch


@pytest.mark.parametrize(
    "given",
    [
        *({"stop": "xx"}, {"stem": "klingon"}, {"stem": "snowball", "language": "xx"}),
        {"anchor": "stopwords", "language": "xx"},
    ],
)
def test_unknown_languages_are_refused(given: dict[str, Any]) -> None:
    pytest.importorskip("stopwordsiso", reason="the extra text is not installed")
    pytest.importorskip("snowballstemmer", reason="the extra text is not installed")
    with pytest.raises(ParameterError, match="there is no st"):
        Shingling(**given)


def test_one_text_in_place_of_a_list_is_refused() -> None:
    for call in (gpulsh.md5_signatures, gpulsh.text_profiles, gpulsh.weigh):
        with pytest.raises(gpulsh.InputTypeError):
            call("one text")
    with pytest.raises(gpulsh.InputTypeError, match="the numbers of elements"):
        gpulsh.minima([["a"]], [[1], [2]], **CPU)


# --- results of another sketch; any sketch may estimate from stored arrays

TEXTS = ["one two three four five six", "ONE two, three four five six!"]
OWN_AND_OTHER = [
    (gpulsh.MinHash(), gpulsh.FastSimilarity()),
    (gpulsh.OnePermutation(), gpulsh.OnePermutation(seed=2)),
    (gpulsh.CMinHash(num_perm=64), gpulsh.CMinHash()),
    (gpulsh.WeightedMinHash(), gpulsh.MinHash()),
    (gpulsh.BBit(bits=2, num_perm=64), gpulsh.BBit(bits=1, num_perm=128)),  # in as many words
    (gpulsh.BottomS(), gpulsh.ModM()),
    (gpulsh.SimHash(), gpulsh.Hyperplanes()),
    (gpulsh.SimHash(weights="count"), gpulsh.SimHash()),
]


@pytest.mark.parametrize(("own", "other"), OWN_AND_OTHER, ids=lambda sketch: type(sketch).__name__)
def test_signatures_of_another_sketch_are_refused(own: Any, other: Any) -> None:
    sketched = own.from_texts(TEXTS, **CPU)
    assert isinstance(sketched, SketchResult) and sketched.maker == own and "maker" not in repr(sketched)
    with pytest.raises(ParameterError, match=r"were made by \w+\(.*\) and not by \w+\(.*\)"):
        other.estimate(sketched, [[0, 1]], **CPU)
    stored = replace(sketched, maker=None)
    assert stored == sketched
    assert own.estimate(stored, [[0, 1]], **CPU) == own.estimate(sketched, [[0, 1]], **CPU)
    other.estimate(stored, [[0, 1]], **CPU)
    if not isinstance(own, gpulsh.BBit):
        weighted = isinstance(own, gpulsh.WeightedMinHash)
        assert own((gpulsh.weigh if weighted else gpulsh.shingle)(TEXTS, **CPU), **CPU).maker == own


# --- plain numbers are refused, because sketches would take them for equal; mixed ones never are

ASKED = "give gpulsh.fingerprint"
UPPER = [gpulsh.MinHash(), gpulsh.MinHash(family="xor"), gpulsh.MinHash(family="tabulation"), gpulsh.FastSimilarity()]
LOWER = [gpulsh.OnePermutation(), gpulsh.FastSimilarity()]
WHOLE = [gpulsh.MinHash(family="affine61"), gpulsh.MinHash(family="multiply_shift"), gpulsh.CMinHash()]


def rows(values: Any, sets: int = 2) -> Fingerprints:
    array = np.array(values, np.uint64)
    return Fingerprints(array, np.linspace(0, len(array), sets + 1).astype(np.int64))


PLAIN: dict[str, Any] = {
    "two sets": np.arange(200),
    "of 36 bits": np.arange(0, 1 << 36, 1 << 26),
    "negative": np.arange(-1, -200, -1).astype(np.uint64),
    "hashes of 32 bits": np.random.default_rng(1).integers(0, 1 << 32, 5000),
    "one number each": np.array([7, 8]),
    "one number": np.array([7, 7]),
}


@pytest.mark.parametrize("name", PLAIN)
def test_unmixed_numbers_are_refused(name: str) -> None:
    for sketch in UPPER:
        with pytest.raises(ParameterError, match=f"upper 32 bits of fingerprints repeat.*{ASKED}"):
            sketch(rows(PLAIN[name]), **CPU)
    for sketch in LOWER:
        with pytest.raises(ParameterError, match=f"(upper|lower) 32 bits of fingerprints repeat.*{ASKED}"):
            sketch(rows(PLAIN[name].astype(np.uint64) << np.uint64(48)), **CPU)


@pytest.mark.parametrize("sketch", WHOLE, ids=repr)
def test_sketches_of_all_bits_take_unmixed_numbers(sketch: Any) -> None:
    for shift in (0, 32):
        found = sketch.estimate(sketch(rows(np.arange(200) << shift), **CPU), [[0, 1]], **CPU)
        assert found[0] < 0.1


@pytest.mark.parametrize("sketch", [*UPPER, gpulsh.OnePermutation()], ids=repr)
def test_mixed_values_are_taken(sketch: Any) -> None:
    """Few and many values, repeats, 48-bit hashes at either end, empty sets, a value with many zero bits."""
    generator = np.random.default_rng(1)
    for count in (0, 1, 2, 3, 4, 5, 1000, 3000):
        values = generator.integers(0, 1 << 64, count, np.uint64)
        for shift in (np.uint64(0), np.uint64(16)):
            sketch(rows(np.tile(values >> shift, 3)), **CPU)
            sketch(rows(np.tile(values << shift, 3)), **CPU)
    sketch(rows([1 << 40 | 1 << 17]), **CPU)
    sketch(gpulsh.fingerprint([range(5), [1], [], ["a"] * 0], **CPU), **CPU)
    sketch(gpulsh.shingle(["a a a a a a a a a", "a", "", None], shingling="word:1", **CPU), **CPU)


def test_the_check_begins_at_the_first_offset() -> None:
    """It skips the values before that offset."""
    mixed = np.random.default_rng(1).integers(0, 1 << 64, 100, np.uint64)
    both = np.concatenate([np.arange(100, dtype=np.uint64), mixed])
    gpulsh.MinHash()(Fingerprints(both, np.array([100, 200])), **CPU)
    with pytest.raises(ParameterError, match=ASKED):
        gpulsh.MinHash()(Fingerprints(both, np.array([0, 100])), **CPU)


def test_numpy_strings_and_integers_are_converted() -> None:
    assert str(Shingling(stop=np.array(["b", "a"])).json_fields()) == str(Shingling(stop=["a", "b"]).json_fields())
    bits, tables, words = np.array([8, 16, 64])
    assert str(gpulsh.BBit(bits=bits)) == str(gpulsh.BBit(bits=8))
    assert str(HammingTables(tables=tables)) == str(HammingTables(tables=16))
    compat = gpulsh.compat.NemoMinHash
    assert compat(bits=words).functions == compat(bits=64).functions
