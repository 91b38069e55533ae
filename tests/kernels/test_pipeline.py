"""Public calls on the CUDA backend, from single steps to whole jobs: CuPy's arrays support all of their operations."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpulsh
from gpulsh import BitSignatures, Fingerprints, Shingling
from gpulsh.arrays import Tokens
from gpulsh.backends.cuda import CudaBackend, Shared
from gpulsh.backends.cuda.memory import LANES
from gpulsh.index import admission, collection
from gpulsh.index.snapshot import MetSets
from gpulsh.io.format import STRICT, Rules
from gpulsh.io.formats.parquet import Parquet
from tests.kernels.cuts import DEFAULT_CUT, assert_decisions, on_host, texts
from tests.kernels.device_arrays import DeviceModule, counted_transfers
from tests.kernels.host import HostLauncher
from tests.support.files import write_rows
from tests.support.rows import random_table
from tests.support.texts import KEYS, SECRETS, pages

pytestmark = pytest.mark.kernels
BACKENDS: tuple[Any, Any] = ("cuda", "reference")


def both(call: Any, *given: Any) -> None:
    """`call` on the device; its arrays equal the reference's."""
    for found, wanted in zip(*(arrays_of(call(*given, backend=name)) for name in BACKENDS), strict=True):
        assert not isinstance(found, np.ndarray) and found.dtype == wanted.dtype
        np.testing.assert_array_equal(on_host(found), wanted)


def arrays_of(result: Any) -> list[Any]:
    names = ("ids", "values", "weight", "offset")
    return [getattr(result, name) for name in names if hasattr(result, name)] or [result]


# --- decisions

CROWD = [f"{'the same words again and once more ' * 3} {number % 3}" for number in range(270)]
PAGE = " ".join(f"word{i}" for i in range(20))
NEAR_EQUAL_PAGES = [f"{PAGE} own{i * i % 7} own{i % 9}" for i in range(270)]
KEYED = {"key": [number % 23 or None for number in range(33)]}


@DEFAULT_CUT
@pytest.mark.parametrize(
    ("documents", "options"),
    [
        ([*texts(30), *CROWD], {"resolve": "components"}),
        ([*texts(30), *CROWD], {"verify": "signature"}),
        ([*texts(30), *CROWD], {"threshold": 0.5}),
        (NEAR_EQUAL_PAGES, {"num_perm": 16, "bands": 8}),
        (texts(30), {"key_only": True, **KEYED}),
        (texts(30), {"measure": "containment", "threshold": 0.5, "drop_contained_only": False, **KEYED}),
    ],
)
def test_no_decision_depends_on_backend_or_secret(
    selected: CudaBackend, documents: list[Any], options: dict[str, Any]
) -> None:
    wanted = gpulsh.deduplicate(documents, backend="reference", secret=SECRETS[0], **options)
    found = gpulsh.deduplicate(documents, backend="cuda", secret=SECRETS[-1], **options)
    assert not wanted.keep.all() and bool(wanted.funnel.key_copies) == ("key" in options)
    assert_decisions(found, wanted)
    assert {**found.funnel, "seconds": None} == {**wanted.funnel, "seconds": None}


@DEFAULT_CUT
@pytest.mark.parametrize("threshold", [0.5, 0.8])
def test_bitmaps_rule_out_pairs_of_large_buckets(
    selected: CudaBackend, threshold: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpulsh.lsh.collisions.SMALL_BUCKET", 20)
    monkeypatch.setattr("gpulsh.decide.large_buckets.Bitmaps.cost", lambda *given: -(1 << 40))
    options: dict[str, Any] = {"shingling": Shingling(size=2), "num_perm": 6, "bands": 6, "rows": 1}
    wanted = gpulsh.deduplicate(pages(60, 4), backend="reference", threshold=threshold, **options)
    found = gpulsh.deduplicate(pages(60, 4), backend="cuda", threshold=threshold, **options)
    assert wanted.funnel.crowded > 30 and not wanted.keep.all()
    assert_decisions(found, wanted)
    assert found.funnel.candidates == wanted.funnel.candidates


@DEFAULT_CUT
@pytest.mark.parametrize(("memory", "times"), [("1GiB", 1), ("512MiB", 2)])  # the smaller budget holds nothing
def test_texts_of_files_are_decoded_once(
    selected: CudaBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: str, times: int
) -> None:
    """They stay in memory until the candidates are copied and the kept ones are written."""
    file = write_rows(tmp_path / "pages.parquet", texts(60), group=16)
    read: list[int] = []
    read_rows = Parquet.read

    def reading(self: Any, file: Any, columns: Any, wanted: Any = None, rules: Rules = STRICT) -> Any:
        read.extend(() if rules.part is None else [rules.part.number])
        return read_rows(self, file, columns, wanted, rules)

    monkeypatch.setattr(Parquet, "read", reading)
    found = gpulsh.deduplicate_files(file, tmp_path / "out", backend="cuda", memory=memory)
    assert found.funnel["verified"] and sorted(read) == sorted(times * [*set(read)])


@DEFAULT_CUT
@pytest.mark.parametrize(("crowded", "evidence", "held"), [(64, "index", 0), (2, "source", 1 << 28)])
def test_an_index_on_cuda_decides_as_the_reference(
    selected: CudaBackend, crowded: int, evidence: Any, held: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(admission, "LARGE_BUCKET", crowded)
    monkeypatch.setattr(collection, "MetSets", lambda _: MetSets(held))
    documents = texts(40)
    how: dict[str, Any] = {"read": lambda keys: [documents[key] for key in keys]} if evidence == "source" else {}
    wanted = gpulsh.deduplicate(documents, backend="reference", threshold=0.5)
    index = gpulsh.Index(backend="cuda", threshold=0.5, evidence=evidence, **how)
    first = index.add(range(20), documents[:20])
    index.save(tmp_path / "i")
    second = index.add(range(20, len(documents)), documents[20:])
    assert [*first.duplicate_of.tolist(), *second.duplicate_of.tolist()] == wanted.duplicate_of.tolist()
    assert not wanted.keep.all()
    index.save()
    other = gpulsh.Index.open(tmp_path / "i", backend="reference", **how)
    for one, same in zip(vars(index.query(documents)).values(), vars(other.query(documents)).values(), strict=True):
        np.testing.assert_array_equal(one, same)
    index.close()


# --- passages and benchmark items

REPEATS = [
    "one two three four five six seven eight",
    "Zero. One two, three; four! five?\nzero nine\nx",
    None,
    "",
    "漢字かな交じり文 漢字かな交じり文 e\u0301te\u0301 one two three four",
    "ha ha ha ha ha ha ha ha",
    "two three four five six + C++ one two three four",
]
ITEMS = ["one two three four five six", "four five", None, "漢字 仮名 one two"]
TEXTS = ["", "x one two three four y four five z", "漢字 仮名, one. two", None, "Two three four: five six!"]


@pytest.mark.parametrize("unit", ["word", "char"])
@pytest.mark.parametrize("keep", ["first", "minimal", "none"])
def test_passages_and_cuts_equal_the_reference(selected: CudaBackend, unit: Any, keep: Any) -> None:
    for size, form in ((1, None), (3, "NFC")):
        options: dict[str, Any] = {"tokens": size, "keep": keep, "unit": unit, "normalize": form}

        def cut(backend: Any) -> tuple[pa.Table, Any]:
            found = gpulsh.passages(REPEATS, **options, whole_lines=size > 1, backend=backend)  # noqa: B023
            return found, gpulsh.cut(REPEATS, found, min_left=2, backend=backend)

        assert cut("cuda") == cut("reference") and cut("cuda")[0].num_rows > 0


@pytest.mark.parametrize("most", [None, 1])
def test_contamination_equals_the_reference(
    selected: CudaBackend, most: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpulsh.repeats.benchmark.BATCH_BYTES", 1)
    options: dict[str, Any] = {"tokens": 4, "coverage": 0.5, "ignore_common": most, "normalize": "NFC"}
    with counted_transfers() as crossed:
        found, wanted = (gpulsh.contamination(TEXTS, ITEMS, **options, backend=name) for name in BACKENDS)  # type: ignore[arg-type]
    flags = [one for one in crossed if one.dtype == np.bool_ and one.to_host is False]
    assert len(flags) <= LANES < len(TEXTS), "each batch brought the index to the device again"
    assert found.equals(wanted) and found["item"].to_pylist() == [0, 1, 3, 0, 1]
    assert not gpulsh.contamination(TEXTS, [], backend="cuda").num_rows


@pytest.mark.parametrize("measure", ["jaccard", "containment"])
def test_stretches_equal_the_reference(selected: CudaBackend, measure: Any) -> None:
    def found(backend: Any) -> list[Any]:
        index = gpulsh.Index(shingling="word:2", measure=measure, backend=backend)
        index.insert(list(range(5)), TEXTS)
        return list(index.find("four five six: one two three 漢字 仮名"))

    assert found("cuda") == found("reference") != []


@pytest.mark.usefixtures("kernels_built")
def test_tokens_of_windows_are_copied_once_for_both_hashes() -> None:
    launcher = HostLauncher()
    ops = CudaBackend(Shared(DeviceModule(), launcher))
    values = np.random.default_rng(1).integers(0, 2**64, 100, np.uint64)
    tokens = Tokens(values, np.array([0, 60, 100])).moved(ops.asarray)
    public, secret = ops.window_hashes(tokens, *map(ops.asarray, (np.array([3, 70]), np.array([9, 4]))), 20, KEYS)
    assert launcher.launches["gather"] == 1 and len(public) == len(secret) == 13


# --- single steps


@DEFAULT_CUT
def test_steps_on_sets_equal_the_reference(selected: CudaBackend) -> None:
    documents, pairs = texts(30), np.random.default_rng(1).integers(0, 33, (60, 2))
    sets = [range(40), range(20, 60), [], ["a"] * 0, range(60, 64)]
    both(gpulsh.shingle, documents)
    both(gpulsh.fingerprint, sets)
    rows = gpulsh.shingle(documents, backend="reference")
    minhash, banding = gpulsh.MinHash(num_perm=32, seed=2), gpulsh.Banding(bands=16, rows=2)
    signatures = minhash(rows, backend="reference")
    both(minhash, rows)
    both(banding, signatures)
    both(gpulsh.candidate_pairs, banding(signatures, backend="reference"))
    for call, sketches in ((gpulsh.jaccard, rows), (gpulsh.jaccard, signatures), (gpulsh.containment, rows)):
        both(call, sketches, pairs)
    for sketch in (gpulsh.BottomS(size=9), gpulsh.ModM(modulus=3), *(gpulsh.BBit(bits=b, num_perm=70) for b in (1, 8))):
        both(sketch.from_texts, documents)
        for some in (pairs, [[3, 4]]):  # scattered rows, and neighbours
            both(sketch.estimate, sketch.from_texts(documents, backend="reference"), some)
    found, wanted = (gpulsh.fingerprint(sets, backend=name) for name in BACKENDS)
    np.testing.assert_array_equal(minhash.epsilon(found, backend="cuda"), minhash.epsilon(wanted, backend="reference"))
    both(gpulsh.minima, sets, np.arange(128).reshape(64, 2))
    plain = Fingerprints(selected.asarray(np.arange(8, dtype=np.uint64)), selected.asarray(np.array([0, 4, 8])))
    with pytest.raises(gpulsh.ParameterError, match=r"gpulsh.fingerprint\(sets\)"):
        minhash(plain, backend="cuda")


@DEFAULT_CUT
def test_steps_on_weighted_rows_equal_the_reference(selected: CudaBackend) -> None:
    documents, pairs = ["a b a b c", "b c d", None, "a a a"], [[0, 1], [0, 3], [0, 2]]
    shingling, sketch = Shingling(size=1), gpulsh.WeightedMinHash(num_perm=16)
    dense = np.array([[1.0, 0.0, 2.5], [0.0, 0.0, 0.0], [3.0, 1.0, 2.5]])
    mover = gpulsh.EarthMover(abs(np.arange(3)[:, None] - np.arange(3.0)), num_trees=5)
    masses = np.array([[0.5, 0.5, 0], [0, 0.25, 0.75]])
    both(partial(gpulsh.weigh, shingling=shingling), documents, "idf")
    wanted = gpulsh.weigh(documents, "idf", shingling=shingling, backend="reference")
    both(gpulsh.jaccard, wanted, pairs)
    both(gpulsh.cosine, wanted, pairs)
    for call in (sketch, gpulsh.KleinbergTardos(num_perm=9)):
        both(call, dense)
    both(sketch, wanted)
    both(sketch.estimate, sketch(wanted, backend="reference"), pairs)
    labels = mover(masses, backend="reference")
    for call in (partial(mover, masses), partial(mover.estimate, labels, [[0, 1], [0, 0]])):
        np.testing.assert_array_equal(*(on_host(call(backend=name)) for name in BACKENDS))


# --- bits


@DEFAULT_CUT
def test_steps_on_bit_signatures_equal_the_reference(selected: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, pairs = random_table([40, 0, 33, 41, 90, 1], universe=64), [[0, 2], [1, 1], [3, 4]]
    documents = ["one two three four", None, "two three four five", "one two three four two three four"] * 3
    for weights in ("set", "count", "idf"):
        sketch = gpulsh.SimHash(bits=128, weights=weights)  # type: ignore[arg-type]
        both(sketch, rows)
        both(sketch.from_texts, documents)
        signatures = sketch(rows, backend="reference")
        both(gpulsh.hamming, signatures, pairs)
        estimates = [on_host(sketch.estimate(signatures, pairs, backend=name)) for name in BACKENDS]
        np.testing.assert_allclose(*estimates)
    both(gpulsh.cosine, rows, pairs)
    vectors = np.random.default_rng(1).normal(size=(9, 13))
    vectors[4] = 0
    both(gpulsh.Hyperplanes(bits=128), vectors)
    monkeypatch.setattr("gpulsh.sketch.hyperplanes.AT_ONCE", 700)
    monkeypatch.setattr("gpulsh.sketch.hyperplanes.ROWS", 2)
    both(gpulsh.Hyperplanes(bits=128), vectors.astype(np.float32))
    both(gpulsh.Hyperplanes(), vectors[:0])
    with pytest.raises(gpulsh.ParameterError, match="row 3"):
        gpulsh.Hyperplanes()(np.array([[0.0], [1], [2], [np.inf]]), backend="cuda")


@DEFAULT_CUT
@pytest.mark.parametrize(("width", "distance"), [(1, 3), (2, 2), (1, 0)])
def test_hamming_tables_equal_the_reference(
    selected: CudaBackend, monkeypatch: pytest.MonkeyPatch, width: int, distance: int
) -> None:
    monkeypatch.setattr("gpulsh.lsh.hamming_tables.AT_ONCE", 300)
    monkeypatch.setattr("gpulsh.lsh.banding.BITS_AT_ONCE", 50)
    words = np.random.default_rng(2).integers(0, 2**64, (120, width), np.uint64)
    words[60:] = words[:60] ^ (np.uint64(1) << np.random.default_rng(3).integers(0, 64, (60, width), np.uint64))
    words[7:9] = 0
    signatures, asked = BitSignatures(words), BitSignatures(words[50:])
    search = gpulsh.HammingTables(bits=64 * width, distance=distance)
    both(search.pairs, signatures)
    both(search.pairs, BitSignatures(words[:0]))
    for where in BACKENDS:
        both(search.build(signatures, backend=where).query, asked)
    pieces = [on_host(piece) for piece in search.pieces(signatures, backend="cuda")]
    assert sorted(np.concatenate(pieces).tolist()) == search.pairs(signatures, backend="cpu").tolist()
    both(gpulsh.BitSampling(bands=5, rows=3), BitSignatures(words[:20]))
    few = gpulsh.Signatures(np.random.default_rng(1).integers(0, 2, (30, 8)).astype(np.uint32))
    both(gpulsh.Supershingles(groups=4, of=2, agree=2), few)
