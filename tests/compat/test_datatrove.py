"""datatrove's filters keep what `deduplicate` keeps, whatever the batches, and say what a dropped document is like."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh

PAGES = [" ".join(f"w{page}x{place}" for place in range(40)) for page in range(5)]
TEXTS = [*PAGES, *(f"{page} and more" for page in PAGES[:3]), PAGES[4].upper()]
KEPT = ["d0", "d1", "d2", "d3", "d4"]


@pytest.fixture(scope="module")
def blocks() -> Any:
    pytest.importorskip("datatrove", reason="datatrove is not installed")
    return import_module("gpulsh.compat.datatrove")


@pytest.fixture
def documents(blocks: Any) -> Callable[[], list[Any]]:
    return lambda: [blocks.Document(text, f"d{number}") for number, text in enumerate(TEXTS)]


class Written:
    """Stands in for a writer."""

    def __init__(self) -> None:
        self.documents: list[Any] = []

    def __enter__(self) -> Written:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write(self, document: Any, rank: int) -> None:
        self.documents.append(document)


def test_without_datatrove_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gpulsh.compat.datatrove", raising=False)
    monkeypatch.setitem(sys.modules, "datatrove.data", None)
    with pytest.raises(
        ImportError, match=r'^gpulsh\.compat\.datatrove needs datatrove: pip install "datatrove\[io,processing\]"$'
    ):
        import_module("gpulsh.compat.datatrove")


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_a_stream_keeps_what_deduplicate_keeps(
    blocks: Any, documents: Callable[[], list[Any]], batch_size: int
) -> None:
    dropped = Written()
    step = blocks.NearDuplicateFilter(dropped, batch_size, threshold=0.8, shingling="word:3", backend="cpu")
    assert [document.id for document in step(iter(documents()))] == KEPT
    result = gpulsh.deduplicate(TEXTS, threshold=0.8, shingling="word:3", backend="cpu")
    for document in dropped.documents:
        row = int(document.id[1:])
        assert document.metadata["duplicate_of"] == f"d{result.duplicate_of[row]}"
        assert document.metadata["similarity"] == pytest.approx(result.similarity[row])
        assert document.metadata["filter_reason"] == "near_duplicate"
    assert step.stats["dropped_near_duplicate"].total == len(dropped.documents) == len(TEXTS) - len(KEPT)


def test_an_index_knows_what_earlier_pipelines_kept(
    blocks: Any, documents: Callable[[], list[Any]], tmp_path: Path
) -> None:
    def kept(chosen: slice) -> list[str]:
        step = blocks.NearDuplicateFilter(index=tmp_path / "known", threshold=0.7, backend="cpu")
        return [document.id for document in step(iter(documents()[chosen]))]

    assert kept(slice(3)) == KEPT[:3]
    assert kept(slice(3, None)) == KEPT[3:]
    with gpulsh.Index.open(tmp_path / "known") as known:
        assert len(known) == len(TEXTS) and known.dropped() == len(TEXTS) - len(KEPT)


def test_parameters_are_refused_where_they_are_given(blocks: Any) -> None:
    with pytest.raises(gpulsh.ParameterError, match="threshold is 2"):
        blocks.NearDuplicateFilter(threshold=2)
    with pytest.raises(gpulsh.ParameterError, match=r"the pipeline has 2 tasks.*ListedDuplicateFilter"):
        list(blocks.NearDuplicateFilter()(iter([]), rank=1, world_size=2))


@pytest.mark.parametrize("made", [str, int])
def test_listed_documents_are_dropped(blocks: Any, tmp_path: Path, made: type) -> None:
    pq.write_table(pa.table({"id": [made(5), made(8)]}), tmp_path / "duplicates.parquet")
    step = blocks.ListedDuplicateFilter(tmp_path / "duplicates.parquet")
    given = [blocks.Document("text", made(number)) for number in range(10)]
    assert [int(document.id) for document in step(iter(given), rank=1, world_size=2)] == [0, 1, 2, 3, 4, 6, 7, 9]


def test_a_list_without_ids_is_refused(blocks: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([None, None], pa.string())}), tmp_path / "duplicates.parquet")
    with pytest.raises(gpulsh.ParameterError, match="without an id; give its run an id_column"):
        blocks.ListedDuplicateFilter(tmp_path / "duplicates.parquet").filter(blocks.Document("text", "d0"))
