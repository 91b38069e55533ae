"""scikit-learn's transformer and datatrove's filters: they pass those libraries' checks and give the same results."""

from __future__ import annotations

import doctest
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh

TEXTS = ["one two three four five six", "One, two; three four five six!", "something else altogether, said twice"]
EVERY = [
    gpulsh.MinHash(num_perm=64),
    gpulsh.OnePermutation(num_perm=64),
    gpulsh.MinHash(num_perm=64, family="affine61"),
    gpulsh.SimHash(bits=128),
]


@pytest.fixture(scope="module")
def vectorizer() -> type:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from gpulsh.compat.sklearn import SketchVectorizer

    return SketchVectorizer


def test_without_scikit_learn_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gpulsh.compat.sklearn", raising=False)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(ImportError, match=r"^gpulsh\.compat\.sklearn needs scikit-learn: pip install scikit-learn$"):
        import_module("gpulsh.compat.sklearn")


def test_the_vectorizer_docstring_examples_hold(vectorizer: type) -> None:
    failed, tried = doctest.testmod(sys.modules[vectorizer.__module__])
    assert (failed, tried) == (0, 2)


@pytest.mark.filterwarnings("ignore:Can't test estimator")
def test_the_vectorizer_passes_scikit_learns_estimator_checks(vectorizer: type) -> None:
    from sklearn.utils.estimator_checks import check_estimator

    checks = check_estimator(vectorizer(backend="cpu"), on_fail="raise")
    assert checks and {row["status"] for row in checks} <= {"passed", "skipped"}


@pytest.mark.parametrize("sketch", EVERY)
def test_the_share_of_different_columns_is_the_estimated_distance(vectorizer: type, sketch: gpulsh.MinHash) -> None:
    from sklearn.base import clone

    made = clone(vectorizer(sketch, shingling="char:4", backend="cpu")).fit(TEXTS)
    rows = made.transform(TEXTS)
    sketched = sketch.from_texts(TEXTS, shingling="char:4", backend="cpu")
    estimated = sketch.estimate(sketched, [[0, 1], [0, 2]], backend="cpu")
    apart = (rows[[0, 0]] != rows[[1, 2]]).mean(axis=1)
    assert np.allclose(estimated, np.cos(np.pi * apart) if isinstance(sketch, gpulsh.SimHash) else 1 - apart)
    assert estimated[0] > estimated[1]
    assert list(made.get_feature_names_out()[:2]) == ["sketchvectorizer0", "sketchvectorizer1"]
    assert len(made.get_feature_names_out()) == rows.shape[1]
    frame = made.set_output(transform="pandas").fit_transform(pd.Series(TEXTS, index=[7, 8, 9]))
    assert (frame.to_numpy() == rows).all() and list(frame.columns) == list(made.get_feature_names_out())


def test_a_banding_gives_its_digests_and_must_fit_the_sketch(vectorizer: type) -> None:
    banding = gpulsh.Banding(bands=32, rows=4)
    rows = vectorizer(banding=banding, backend="cpu").fit_transform(TEXTS)
    assert (rows == banding(gpulsh.MinHash().from_texts(TEXTS, backend="cpu"), backend="cpu").values).all()
    with pytest.raises(gpulsh.ParameterError, match="signatures is of type BitSignatures"):
        vectorizer(gpulsh.SimHash(), banding=banding).fit(TEXTS)
    with pytest.raises(gpulsh.ParameterError, match="banding is of type HammingTables; give an object of Banding or"):
        vectorizer(gpulsh.SimHash(), banding=gpulsh.HammingTables(distance=3)).fit(TEXTS)


@pytest.mark.parametrize(
    ("sketch", "message"),
    [("minhash:64", "sketch is 'minhash:64'"), (gpulsh.SimHash(weights="idf"), "weights is 'idf'")],
)
def test_sketches_that_need_the_corpus_are_refused(vectorizer: type, sketch: object, message: str) -> None:
    with pytest.raises(gpulsh.ParameterError, match=f"^{message}.*; give "):
        vectorizer(sketch).fit(TEXTS)


# --- datatrove's filters keep what `deduplicate` keeps

PAGES = [" ".join(f"w{page}x{place}" for place in range(40)) for page in range(5)]
COPIED_PAGES = [*PAGES, *(f"{page} and more" for page in PAGES[:3]), PAGES[4].upper()]
KEPT = ["d0", "d1", "d2", "d3", "d4"]


@pytest.fixture(scope="module")
def blocks() -> Any:
    pytest.importorskip("datatrove", reason="datatrove is not installed")
    return import_module("gpulsh.compat.datatrove")


@pytest.fixture
def documents(blocks: Any) -> Callable[[], list[Any]]:
    return lambda: [blocks.Document(text, f"d{number}") for number, text in enumerate(COPIED_PAGES)]


class Collector:
    def __init__(self) -> None:
        self.documents: list[Any] = []

    def __enter__(self) -> Collector:
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
def test_the_filter_keeps_the_documents_that_deduplicate_keeps(
    blocks: Any, documents: Callable[[], list[Any]], batch_size: int
) -> None:
    dropped = Collector()
    step = blocks.NearDuplicateFilter(dropped, batch_size, threshold=0.8, shingling="word:3", backend="cpu")
    assert [document.id for document in step(iter(documents()))] == KEPT
    result = gpulsh.deduplicate(COPIED_PAGES, threshold=0.8, shingling="word:3", backend="cpu")
    for document in dropped.documents:
        row = int(document.id[1:])
        assert document.metadata["duplicate_of"] == f"d{result.duplicate_of[row]}"
        assert document.metadata["similarity"] == pytest.approx(result.similarity[row])
        assert document.metadata["filter_reason"] == "near_duplicate"
    assert step.stats["dropped_near_duplicate"].total == len(dropped.documents) == len(COPIED_PAGES) - len(KEPT)


def test_the_filter_uses_an_earlier_index(blocks: Any, documents: Callable[[], list[Any]], tmp_path: Path) -> None:
    def kept(chosen: slice) -> list[str]:
        step = blocks.NearDuplicateFilter(index=tmp_path / "known", threshold=0.7, backend="cpu")
        return [document.id for document in step(iter(documents()[chosen]))]

    assert kept(slice(3)) == KEPT[:3]
    assert kept(slice(3, None)) == KEPT[3:]
    with gpulsh.Index.open(tmp_path / "known") as known:
        assert len(known) == len(COPIED_PAGES) and known.dropped() == len(COPIED_PAGES) - len(KEPT)


def test_the_filter_refuses_wrong_parameters(blocks: Any) -> None:
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
