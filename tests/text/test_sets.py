"""Fingerprints of sets of any items: their definition, what is taken, and what MinHash makes of them."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh.backends.protocol import GOLDEN, LENGTH, STREAM_ITEM
from gpulsh.backends.reference.hashing import key, mix64
from gpulsh.text import sets as module
from tests.support.rows import lists_of

every_backend = pytest.mark.parametrize("backend", ["reference", "cpu"])


def hashed(item: int | str | bytes) -> int:
    """By Python integers, as the docstring says."""
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
def test_items_are_mixed_as_the_docstring_says(backend: Any, sets: list[list[Any] | None]) -> None:
    found = gpulsh.fingerprint(sets, backend=backend)
    assert lists_of(found) == [sorted({hashed(item) for item in one or ()}) for one in sets]


def test_scheme() -> None:
    """These bits are on disks: others have to stand in CHANGELOG.md under Signatures."""
    pinned = {
        0: "a66247182649bf6e",
        -1: "75561c132540634d",
        "": "3ebfc17e22b13337",
        "item": "b6ff54fd7f9b235a",
        b"\xff": "6c47800e123316e5",
    }
    for item, wanted in pinned.items():
        assert f"{int(gpulsh.fingerprint([[item]], backend='cpu').values[0]):016x}" == wanted


def test_long_items_and_many(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_arrow_lists(kind: pa.DataType) -> None:
    number = pa.types.is_integer(kind.value_type)
    rows = [[1, 2, 2], None, [], [3], [4, 1]] if number else [["a", "bc", "a"], None, [], [""], ["漢"]]
    array = pa.array(rows, kind)
    wanted = gpulsh.fingerprint(rows, backend="cpu")
    assert gpulsh.fingerprint(array, backend="cpu") == wanted
    assert gpulsh.fingerprint(pa.chunked_array([array[:2], array[2:]]), backend="cpu") == wanted
    assert gpulsh.fingerprint(array[1:4], backend="cpu") == gpulsh.fingerprint(rows[1:4], backend="cpu")


def test_rows_of_every_kind() -> None:
    wanted = gpulsh.fingerprint([[1, 2], [3], []], backend="cpu")
    for rows in (
        [{2, 1}, (3, 3), range(0)],
        (np.array(row) for row in ([1, 2], [3], np.empty(0, np.int64))),
        pa.array([[1, 2], [3, 3], None], pa.list_(pa.int8(), 2)),
        [[np.uint8(1), 2], frozenset([3]), None],
    ):
        assert gpulsh.fingerprint(rows, backend="cpu") == wanted
    pl = pytest.importorskip("polars")
    assert gpulsh.fingerprint(pl.Series([[1, 2], [3], []]), backend="cpu") == wanted
    assert len(gpulsh.fingerprint([], backend="cpu")) == 0
    assert len(gpulsh.fingerprint(pa.chunked_array([], pa.list_(pa.int8())), backend="cpu")) == 0


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ("abc", "sets is of type str; give a list of sets"),
        (5, "sets is of type int"),
        (["abc"], "set 0 is 'abc'; give a list or set of items, or texts to gpulsh.shingle"),
        ([[1], 7], "set 1 is 7"),
        ([[1], [2, "a"]], "item that is not valid"),
        ([["a"], [1]], "item that is not valid"),
        ([[1], [None]], "1 null items"),
        ([[True]], "items of Arrow type bool"),
        ([[1.5]], "items of Arrow type double"),
        ([[1, 1.5]], "items of Arrow type double"),
        ([[1], [], [1 << 64]], "sets holds 18446744073709551616"),
        ([[1 << 63], ["a"]], "sets holds 'a' among integers"),
        ([["\ud800"]], "item that is not valid"),
        (pa.array([1]), "sets is of Arrow type int64"),
        (pa.array([[1.5]]), "sets holds items of Arrow type double"),
        (pa.array([[1, None]]), "sets holds 1 null items"),
        (pa.table({"a": [[1]]}), "sets is of Arrow type struct"),
    ],
)
def test_what_is_refused(sets: Any, said: str) -> None:
    with pytest.raises(gpulsh.InputTypeError, match=said):
        gpulsh.fingerprint(sets, backend="cpu")


@pytest.mark.parametrize("kind", [gpulsh.MinHash, gpulsh.OnePermutation, gpulsh.FastSimilarity, gpulsh.CMinHash])
def test_estimates_of_plain_sets(kind: Any) -> None:
    """Customers numbered from 0 on, whose numbers sketches by themselves would not tell apart."""
    sketch = kind(num_perm=512)
    rows = gpulsh.fingerprint([range(100), range(100, 200), range(50, 150)], backend="cpu")
    found = sketch.estimate(sketch(rows, backend="cpu"), [[0, 1], [0, 2]], backend="cpu")
    assert found == pytest.approx([0, 1 / 3], abs=5 * sketch.standard_deviation(1 / 3))
