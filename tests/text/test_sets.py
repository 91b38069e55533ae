"""Fingerprints of sets of any items, weighted fingerprints, and Nutch's signatures, by their definitions."""

from collections import Counter
from hashlib import md5
from math import log, sqrt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh import Shingling, WeightedFingerprints
from gpulsh.backends.protocol import GOLDEN, LENGTH, STREAM_ITEM
from gpulsh.backends.reference.hashing import key, mix64
from gpulsh.errors import ParameterError
from gpulsh.text import sets as module
from tests.support.rows import lists_of, weighted_of
from tests.support.texts import every_backend


def hashed(item: int | str | bytes) -> int:
    if isinstance(item, int):
        return mix64(item * GOLDEN + STREAM_ITEM)
    content = item.encode() if isinstance(item, str) else item
    total = sum(key(STREAM_ITEM, place) * byte for place, byte in enumerate(content))
    return mix64(total + (len(content) + 1) * LENGTH)


integers, texts, pieces = st.integers(-(1 << 63), (1 << 64) - 1), st.text(max_size=20), st.binary(max_size=20)


def sets_of(items: Any) -> Any:
    return st.lists(st.none() | st.lists(items, max_size=6), max_size=5)


@every_backend
@given(sets=st.sampled_from([integers, texts, pieces]).flatmap(sets_of))
def test_fingerprints_of_items_follow_the_definition(backend: Any, sets: list[list[Any] | None]) -> None:
    found = gpulsh.fingerprint(sets, backend=backend)
    assert lists_of(found) == [sorted({hashed(item) for item in one or ()}) for one in sets]


def test_fingerprints_of_items_are_pinned() -> None:
    """Users store these bits: other bits need a line in CHANGELOG.md under Signatures."""
    pinned = {
        0: "a66247182649bf6e",
        -1: "75561c132540634d",
        "": "3ebfc17e22b13337",
        "item": "b6ff54fd7f9b235a",
        b"\xff": "6c47800e123316e5",
    }
    for item, wanted in pinned.items():
        assert f"{int(gpulsh.fingerprint([[item]], backend='cpu').values[0]):016x}" == wanted


def test_many_long_items_are_hashed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BYTES_AT_ONCE", 50)
    sets = [[f"{'item ' * (i % 30)}{i}"] for i in range(100)]
    assert lists_of(gpulsh.fingerprint(sets, backend="cpu")) == [[hashed(one)] for (one,) in sets]


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.list_(kind) for kind in (pa.int8(), pa.uint64(), pa.string(), pa.large_binary(), pa.string_view())),
        *(pa.large_list(pa.int32()), pa.list_view(pa.int64()), pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    ],
    ids=str,
)
def test_arrow_lists_equal_python_lists(kind: pa.DataType) -> None:
    number = pa.types.is_integer(kind.value_type)
    rows = [[1, 2, 2], None, [], [3], [4, 1]] if number else [["a", "bc", "a"], None, [], [""], ["漢"]]
    array = pa.array(rows, kind)
    wanted = gpulsh.fingerprint(rows, backend="cpu")
    assert gpulsh.fingerprint(array, backend="cpu") == wanted
    assert gpulsh.fingerprint(pa.chunked_array([array[:2], array[2:]]), backend="cpu") == wanted
    assert gpulsh.fingerprint(array[1:4], backend="cpu") == gpulsh.fingerprint(rows[1:4], backend="cpu")


def test_sets_may_be_of_every_type() -> None:
    wanted = gpulsh.fingerprint([[1, 2], [3], []], backend="cpu")
    for rows in (
        [{2, 1}, (3, 3), range(0)],
        (np.array(row) for row in ([1, 2], [3], np.empty(0, np.int64))),
        pa.array([[1, 2], [3, 3], None], pa.list_(pa.int8(), 2)),
        [[np.uint8(1), 2], frozenset([3]), None],
        [[np.uint8(1), np.int64(2)], [np.uint64(3)], ()],
    ):
        assert gpulsh.fingerprint(rows, backend="cpu") == wanted
    pl = pytest.importorskip("polars")
    assert gpulsh.fingerprint(pl.Series([[1, 2], [3], []]), backend="cpu") == wanted
    assert len(gpulsh.fingerprint([], backend="cpu")) == 0
    assert len(gpulsh.fingerprint(pa.chunked_array([], pa.list_(pa.int8())), backend="cpu")) == 0
    assert gpulsh.fingerprint(pa.nulls(3), backend="cpu") == gpulsh.fingerprint([None] * 3, backend="cpu")
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"]))
    assert gpulsh.fingerprint(pa.ListArray.from_arrays(pa.array([0, 3]), runs), backend="cpu") == gpulsh.fingerprint(
        [["a", "b"]], backend="cpu"
    )
    wide = [[np.uint64(1 << 63), np.int64(-1)]]
    assert gpulsh.fingerprint(wide, backend="cpu") == gpulsh.fingerprint([[1 << 63, -1]], backend="cpu")


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ("abc", "sets is of type str; give a list of sets"),
        (5, "sets is of type int"),
        (pa.Array, "sets is the class Array; give a list of sets"),
        (["abc"], "set 0 is 'abc'; give a list or set of items, or texts to gpulsh.shingle"),
        ([[1], 7], "set 1 is 7"),
        ([[1], [2, "a"]], "item that is not valid"),
        ([["a"], [1]], "item that is not valid"),
        ([[1], [None]], "1 null item;"),
        ([[True]], "items of Arrow type bool"),
        ([[1, True]], "sets holds True among integers"),
        ([[1 << 63, True, -1]], "sets holds True among integers"),
        ([[1, np.True_]], "items of type bool"),
        ([np.array(["2026-01-01"], "M8[ns]")], "items of Arrow type timestamp"),
        ([np.array(["2026-01-01"], "M8[D]")], "item that is not valid"),
        ([[1.5]], "items of Arrow type double"),
        ([[1, 1.5]], "items of Arrow type double"),
        ([[1], [], [1 << 64]], "^sets holds 18446744073709551616 among integers; give integers from .* - 1$"),
        ([[1 << 63], ["a"]], "sets holds 'a' among integers"),
        ([["\ud800"]], "item that is not valid"),
        ({(1, 2), (3,)}, "sets is of type set; give a list"),
        (pa.array([1]), "sets is of Arrow type int64"),
        (pa.array([[1.5]]), "sets holds items of Arrow type double"),
        (pa.array([[1, None]]), "sets holds 1 null item;"),
        (pa.table({"a": [[1]]}), "sets is of Arrow type struct"),
    ],
)
def test_wrong_sets_are_refused(sets: Any, message: str) -> None:
    with pytest.raises(gpulsh.InputTypeError, match=message):
        gpulsh.fingerprint(sets, backend="cpu")


@pytest.mark.parametrize("kind", [gpulsh.MinHash, gpulsh.OnePermutation, gpulsh.FastSimilarity, gpulsh.CMinHash])
def test_sets_of_integers_are_estimated_without_bias(kind: Any) -> None:
    """Sketches alone could not tell apart customers numbered from 0."""
    sketch = kind(num_perm=512)
    rows = gpulsh.fingerprint([range(100), range(100, 200), range(50, 150)], backend="cpu")
    found = sketch.estimate(sketch(rows, backend="cpu"), [[0, 1], [0, 2]], backend="cpu")
    assert found == pytest.approx([0, 1 / 3], abs=5 * sketch.standard_deviation(1 / 3))


# --- weighted fingerprints of texts, against dictionaries

WORDS = Shingling(size=1)


def as_dictionaries(rows: WeightedFingerprints) -> list[dict[int, float]]:
    cuts = zip(rows.offset[:-1].tolist(), rows.offset[1:].tolist(), strict=True)
    return [dict(zip(rows.values[i:j].tolist(), rows.weight[i:j].tolist(), strict=True)) for i, j in cuts]


@every_backend
@given(
    texts=st.lists(st.none() | st.lists(st.sampled_from("abcd"), max_size=8).map(" ".join), max_size=6),
    weights=st.sampled_from(["count", "idf"]),
    shingling=st.sampled_from([WORDS, Shingling(unit="char", size=2)]),
)
def test_weights_and_similarities_follow_their_definitions(
    backend: Any, texts: list[str | None], weights: Any, shingling: Shingling
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.text.documents.BATCH_BYTES", 10)
        rows = gpulsh.weigh(texts, weights, shingling=shingling, backend=backend)
    counts = [Counter(row) for row in lists_of(gpulsh.shingle(texts, shingling=shingling, backend=backend))]
    having = Counter(x for count in counts for x in count)
    rarity = {x: log((len(texts) + 1) / having[x]) if weights == "idf" else 1.0 for x in having}
    wanted = [{x: count[x] * rarity[x] for x in count} for count in counts]
    assert as_dictionaries(rows) == wanted

    pairs = np.array([(i, j) for i in range(len(texts)) for j in range(len(texts))], np.int64).reshape(-1, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.lsh.similarity.AT_ONCE", 5)
        jaccards, cosines = (call(rows, pairs, backend=backend) for call in (gpulsh.jaccard, gpulsh.cosine))
    assert jaccards.dtype == cosines.dtype == np.float64
    for (i, j), jaccard, cosine in zip(pairs.tolist(), jaccards, cosines, strict=True):
        one, other, both = wanted[i], wanted[j], sorted(wanted[i].keys() | wanted[j].keys())
        assert jaccard == pytest.approx(
            sum(min(one.get(x, 0.0), other.get(x, 0.0)) for x in both)
            / (sum(max(one.get(x, 0.0), other.get(x, 0.0)) for x in both) or 1.0),
            rel=0 if weights == "count" else 1e-12,
        )
        lengths = sqrt(sum(w * w for w in one.values()) * sum(w * w for w in other.values()))
        assert cosine == pytest.approx(sum(w * other.get(x, 0.0) for x, w in one.items()) / (lengths or 1.0), rel=1e-12)


def test_weights_are_summed_in_the_order_of_fingerprints() -> None:
    generator = np.random.default_rng(1)
    values = np.sort(generator.choice(300, (2, 200)), axis=1)
    sets = [np.unique(row).astype(np.uint64) for row in values]
    weights = [generator.random(len(row)) * 10.0 ** generator.integers(-9, 9, len(row)) for row in sets]
    offset = np.cumsum([0, *map(len, sets)])
    rows = WeightedFingerprints(np.concatenate(sets), np.concatenate(weights), offset)
    low = high = 0.0
    one, other = as_dictionaries(rows)
    for x in range(300):
        low += min(one.get(x, 0.0), other.get(x, 0.0))
        high += max(one.get(x, 0.0), other.get(x, 0.0))
    assert gpulsh.jaccard(rows, [[0, 1], [1, 0]], backend="cpu").tolist() == [low / high] * 2


def test_the_cosine_of_extreme_weights_is_exact() -> None:
    weight, values = np.array([1e-300, 2e-300, 1e300, 2e300, 1e300]), np.array([1, 2, 1, 2, 3], np.uint64)
    rows = WeightedFingerprints(values, weight, np.array([0, 2, 4, 5]))
    assert gpulsh.cosine(rows, [[0, 1], [0, 2]], backend="cpu").tolist() == [1, 0]


@every_backend
def test_sums_of_weights_do_not_overflow(backend: Any) -> None:
    """They gave NaN, or 0."""
    rows = weighted_of([{1: 1e308, 2: 1e308}, {1: 1.5e308}, {1: 1e308, 3: 5e-324}, {3: 5e-324}])
    found = gpulsh.jaccard(rows, [[0, 0], [0, 1], [0, 2], [2, 3], [3, 3], [1, 3]], backend=backend)
    assert found == pytest.approx([1, 0.4, 0.5, 0, 1, 0])


def test_weighted_rows_check_their_arrays() -> None:
    values, weight = np.array([9, 3, 3, 5, 1], np.uint64), np.array([0, 1.0, 1, 2, 0])
    rows = WeightedFingerprints(values, weight, np.array([1, 2, 2, 4]))
    assert len(rows) == 3  # the ends of rows may descend, and values in no row are not read
    with pytest.raises(ParameterError, match="weight is a 1-dimensional array of int64"):
        WeightedFingerprints(np.array([1], np.uint64), np.array([1]), np.array([0, 1]))


# --- Nutch's signatures: digests worked out by hand


def digest(profile: str) -> bytes:
    return md5(profile.encode()).digest()


def profile_of(text: str | None, **options: Any) -> bytes:
    (row,) = gpulsh.text_profiles([text], **options)
    return bytes(row)


def test_md5_signatures_are_those_of_the_bytes() -> None:
    texts = ["", "a", "Straße 漢字", None]
    found = gpulsh.md5_signatures(texts)
    assert (found.dtype, found.shape) == (np.uint8, (4, 16))
    assert [bytes(row) for row in found] == [digest(text or "") for text in texts]
    assert (gpulsh.md5_signatures(pa.array(texts)) == found).all()
    assert gpulsh.md5_signatures([]).shape == gpulsh.text_profiles([]).shape == (0, 16)


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        ("one word each here", "each 1\nhere 1\none 1\nword 1"),  # no token twice: QUANT is 1
        ("The cat and the dog: THE end", "the 2"),  # QUANT is 2, what is there once is dropped
        ("aaa bbb aaa bbb bbb ccc ccc ccc ccc", "ccc 4\naaa 2\nbbb 2"),  # 3 is rounded down to 2; ties ascend
        ("is it so, is it so, is it long long", "long 2"),  # "is" and "it" are too short
        ("x1y x1y x_y_z", "x1y 2"),  # the underscore is no letter
        ("İİİ iii ΣΑΣ σας", "iii 2"),  # letters by themselves: no combining dot, no final sigma
        ("a²b a²b abc abc x\U00010400yyy", "abc 2"),  # neither category No nor beyond U+FFFF
        ("٣٤٥ ٣٤٥", "٣٤٥ 2"),  # digits of any script
        ("ＡＢＣ ａｂｃ", "ａｂｃ 2"),
        # TextProfileSignature.calculate ends in MD5Hash.digest(newText.toString()), however short that is.
        *((text, "") for text in ("", "a b c", "!!!", "?", None)),
    ],
)
def test_text_profiles_equal_those_of_nutch(text: str | None, profile: str) -> None:
    assert profile_of(text) == digest(profile)


def test_text_profiles_take_length_and_rate() -> None:
    assert profile_of("is it is it", min_token_len=1) == digest("is 2\nit 2")
    assert profile_of("a a", min_token_len=0) == digest("a 2")
    often = " ".join(["often"] * 10 + ["rather"] * 7 + ["seldom"] * 4)
    assert profile_of(often, quant_rate=0.5) == digest("often 10\nrather 5")
    assert profile_of(often, quant_rate=np.float32(0.5)) == profile_of(often, quant_rate=0.5)
    assert profile_of(often, quant_rate=np.int64(1)) == profile_of(
        often, quant_rate=1.0
    )  # it was refused, and True taken
    with pytest.raises(gpulsh.ParameterError, match="quant_rate is True; give a number from 0 to 1"):
        profile_of(often, quant_rate=True)
    assert profile_of(often, quant_rate=0.25) == digest("often 9\nrather 6\nseldom 3")  # 2.5 is rounded up
    # 350 * float32(0.01) is 3.5 in float32, though 0.01f is less than 0.01.
    assert profile_of("word " * 350 + "other " * 7) == digest("word 348\nother 4")


@given(st.lists(st.sampled_from(["alpha", "beta", "Gamma", "it", "7th"]), max_size=30), st.randoms())
def test_order_and_punctuation_do_not_matter(words: list[str], random: Any) -> None:
    shuffled = words[:]
    random.shuffle(shuffled)
    one, other = " ".join(["frequent", "frequent", *words]), "; ".join([*shuffled, "FREQUENT, frequent"])
    assert profile_of(one) == profile_of(other)
