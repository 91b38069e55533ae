"""Every public object has a one-line repr, a table for a notebook, and an answer to ==."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpulsh
from gpulsh import BitSignatures, Fingerprints, Signatures, WeightedFingerprints
from tests.kernels.device_arrays import DeviceArray
from tests.support.html import Html
from tests.support.texts import batch_of

TEXTS = ["one two three four five six", "ONE two, three four five six!", "something else", None]
ON: Any = {"backend": "reference"}
LINE = abs(np.arange(3.0)[:, None] - np.arange(3.0))


def fingerprints() -> Fingerprints:
    return gpulsh.shingle(TEXTS, **ON)


def index() -> gpulsh.Index:
    found = gpulsh.Index(threshold=0.5, **ON)
    found.insert(["<b>", "b", "c", "d"], TEXTS)
    return found


def bits() -> BitSignatures:
    return gpulsh.SimHash()(fingerprints(), **ON)


def tables() -> Any:
    return gpulsh.HammingTables().build(bits(), **ON)


ARRAYS: dict[str, Callable[[], Any]] = {
    "TextBatch(2 rows, values=uint8[3], offset=int64[3])": lambda: batch_of([b"ab", b"c"]).slice(0, 2),
    "Fingerprints(4 rows, values=uint64[5], offset=int64[5])": fingerprints,
    "WeightedFingerprints(4 rows, values=uint64[5], weight=float64[5], offset=int64[5])": (
        lambda: gpulsh.weigh(TEXTS, **ON)
    ),
    "Signatures(4 rows, values=uint32[4, 16])": lambda: gpulsh.MinHash(num_perm=16)(fingerprints(), **ON),
    "PackedSignatures(4 rows, values=uint64[4, 2])": lambda: gpulsh.BBit().from_texts(TEXTS, **ON),
    "Samples(4 rows, values=uint64[5], offset=int64[5])": lambda: gpulsh.BottomS()(fingerprints(), **ON),
    "BitSignatures(4 rows, values=uint64[4, 1])": bits,
    "BandDigests(4 rows, values=uint64[4, 4])": lambda: gpulsh.BitSampling(bands=4, rows=8)(bits(), **ON),
    "Neighbours(4 rows, ids=int64[6], offset=int64[5])": lambda: tables().query(bits(), **ON),
    "BuiltTables(search=HammingTables(bits=64, distance=3, tables='auto'), words=uint64[4, 1])": tables,
    "EarthMover(distances=float64[3, 3], num_trees=32, seed=1)": lambda: gpulsh.EarthMover(LINE),
    "Decision(documents=4, kept=3, dropped=1, pairs=1)": lambda: gpulsh.deduplicate(TEXTS, **ON),
    "Matches(2 rows, positions=int64[2], keys=object[2], similarity=float64[2])": lambda: index().query(TEXTS[:1]),
    "Pairs(1 row, first=object[1], second=object[1], similarity=float64[1])": lambda: index().pairs(),
}


@pytest.mark.parametrize("line", ARRAYS)
def test_arrays_have_one_line_and_a_table(line: str) -> None:
    one, other = ARRAYS[line](), ARRAYS[line]()
    assert repr(one) == line
    assert one == other
    assert one != fingerprints().slice(0, 1) and one != 5 and one is not None
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    html = Html(one._repr_html_())
    assert html.texts[0].startswith(type(one).__name__) and "b" not in dict(html.tags)  # a tag in a key


def test_equal_rows_of_different_slices_are_equal() -> None:
    whole = fingerprints()
    assert whole.slice(1, 3) == Fingerprints(whole.values[2:5].copy(), np.array([0, 2, 3]))
    assert whole.slice(0, 2) != whole.slice(1, 3)
    weights = np.array([1.0, 2.0])
    rows = [WeightedFingerprints(np.arange(2, dtype=np.uint64), weights + more, np.array([0, 2])) for more in (0, 1)]
    assert rows[0] != rows[1]
    values = np.arange(6, dtype=np.uint32).reshape(2, 3)
    assert Signatures(values) == Signatures(values.copy()) != Signatures(values[:1])
    assert Signatures(values.astype(np.uint64)) != BitSignatures(values.astype(np.uint64))


def test_device_arrays_print_and_compare() -> None:
    here = fingerprints()
    there = here.moved(DeviceArray)
    assert repr(there) == "Fingerprints(4 rows, values=uint64[5] of tests, offset=int64[5] of tests)"  # as of CuPy's
    assert there == here == here.moved(DeviceArray) and there._repr_html_().count("…") == 0
    decided = gpulsh.deduplicate(TEXTS, **ON)
    names = "keep", "duplicate_of", "similarity", "cluster"
    moved = replace(decided, **{name: DeviceArray(getattr(decided, name)) for name in names})
    assert moved == decided and repr(moved) == repr(decided) and moved._repr_html_() == decided._repr_html_()
    assert Html(decided._repr_html_()).texts[-4:] == ["1", "0", "1.0000", "0"]


def test_results_have_one_line_and_a_table() -> None:
    decided = gpulsh.deduplicate(TEXTS, **ON)
    for found, line in (
        (gpulsh.SCurve(bands=42, rows=3), "SCurve(bands=42, rows=3)"),
        (decided.funnel, "Funnel(documents=4, "),
        (gpulsh.study(TEXTS[:2] * 9, **ON), "BandingStudy(18 of 18 documents, 153 pairs of 0.8 or more, "),
        (gpulsh.compare(TEXTS, ["md5"], **ON), "Comparison(4 of 4 documents, 1 pair with a Jaccard "),
    ):
        assert repr(found).startswith(line) and "\n" not in repr(found) and len(repr(found)) < 200
        assert found == found and found != decided and len(Html(found._repr_html_()).texts) > 5
    assert decided == gpulsh.deduplicate(TEXTS, backend="cpu") != gpulsh.deduplicate(TEXTS[:3], **ON)
    options: dict[str, Any] = {"verify": "none", **ON}  # whose similarities are NaN
    assert gpulsh.deduplicate(TEXTS, **options) == gpulsh.deduplicate(TEXTS, verify="none", backend="cpu")


def test_file_results_have_one_line_and_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a b"}\n{"text": "A b!"}\n')
    found = gpulsh.deduplicate_files(tmp_path / "a.jsonl", tmp_path / "out", **ON)
    assert repr(found) == f"FilesResult({str(tmp_path / 'out')!r}, documents=2, kept=1, dropped=1)"
    assert "exact copies" in Html(found._repr_html_()).texts
