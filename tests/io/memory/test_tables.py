"""Tables in memory, and texts that come a batch at a time: what is found is what a list of the same texts gives."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpulsh
from gpulsh.errors import GpulshError, InputError, InputTypeError
from gpulsh.io.memory import texts as memory
from gpulsh.io.memory.tables import column_of
from gpulsh.io.memory.texts import open_texts

TEXTS = ["one two three", None, "four", "One, two, three!", "", None, "five"]
ROWS = [{"text": text, "meta": {"body": text, "n": row}, "a.b": text} for row, text in enumerate(TEXTS)]


def dataset() -> Any:
    return pytest.importorskip("datasets", reason="datasets is not installed").Dataset.from_list(ROWS)


TABLES: dict[str, Callable[[], Any]] = {
    "arrow": lambda: pa.Table.from_pylist(ROWS),
    "arrow batch": lambda: pa.RecordBatch.from_pylist(ROWS),
    "pandas": lambda: pd.DataFrame(ROWS, index=range(50, 57)),
    "polars": lambda: pl.DataFrame(ROWS),
    "polars, later": lambda: pl.LazyFrame([{**row, "late": 1} for row in ROWS]),
    "datasets": dataset,
    "datasets, chosen": lambda: dataset().select([6, *range(7)]).select(range(1, 8)),
    "datasets, streamed": lambda: dataset().to_iterable_dataset(),
}


def read(texts: object, max_bytes: int = 20) -> tuple[list[bytes], int]:
    opened = open_texts(texts)
    found = [
        bytes(batch.values[start:stop])
        for batch in opened.batches(max_bytes)
        for start, stop in zip(batch.offset[:-1].tolist(), batch.offset[1:].tolist(), strict=True)
    ]
    assert len(opened) == len(found)
    return found, opened.nulls()


WANTED = [(text or "").encode() for text in TEXTS]


@pytest.mark.parametrize("kind", TABLES)
def test_columns_of_tables(kind: str) -> None:
    table = TABLES[kind]()
    for column in ("text", "column:text", "meta.body", "column:a.b"):
        assert read(column_of(table, column)) == (WANTED, 2)
    joined = [text if text is None else f"{text}\n{text}" for text in TEXTS]
    assert read(column_of(table, "text,meta.body")) == ([(text or "").encode() for text in joined], 2)
    if kind != "datasets, streamed":
        with pytest.raises(InputTypeError, match=r"has no column 'body'; its columns are: text, meta, a\.b"):
            column_of(table, "title,body".removeprefix("title,"))
    with pytest.raises(InputError, match=r"'meta\.n' is .*, not text"):
        read(column_of(table, "meta.n"))


def test_a_table_is_filtered_as_it_came() -> None:
    for kind in ("arrow", "pandas", "polars", "polars, later"):
        table = TABLES[kind]()
        result = gpulsh.deduplicate(table, text_column="text", shingling="word:1", backend="reference")
        kept = result.filter(table)
        assert type(kept) is type(table)
        kept = kept.collect() if hasattr(kept, "collect") else kept
        assert len(kept) == 6 and result.duplicate_of.tolist() == [0, 1, 2, 0, 4, 5, 6]
    with pytest.raises(pl.exceptions.PolarsError):
        result.filter(pl.LazyFrame(ROWS[:3])).collect()


def test_what_datasets_gives() -> None:
    given = dataset()
    for column in (given["text"], given["meta"]["body"], given.to_iterable_dataset()["text"]):
        assert read(column) == (WANTED, 2)
    result = gpulsh.deduplicate(given, text_column="text", shingling="word:1", backend="reference")
    assert result.filter(given)["text"][:] == [TEXTS[row] for row in (0, 1, 2, 4, 5, 6)]
    import datasets

    for wrong, told in ((given, "text_column='text'"), (datasets.DatasetDict(train=given), "one of its splits")):
        with pytest.raises(InputTypeError, match=told):
            gpulsh.deduplicate(wrong, backend="reference")
    with pytest.raises(InputTypeError, match="one of its splits"):
        gpulsh.deduplicate(datasets.DatasetDict(train=given), text_column="text", backend="reference")


def batches() -> Iterator[object]:
    yield TEXTS[0]
    yield None
    yield np.array(TEXTS[2:3], object)
    yield []
    yield pa.array(TEXTS[3:5])
    yield TEXTS[5:]


@pytest.mark.parametrize("group", [1, 2, 4096])
def test_iterators_of_texts_and_of_batches(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "GROUP", group)
    for given in (iter(TEXTS), (text for text in TEXTS), batches(), map(list, [TEXTS]), iter([])):
        wanted = (WANTED, 2) if (count := getattr(given, "__length_hint__", lambda: 7)()) else ([], 0)
        assert read(given) == wanted, count
    result = gpulsh.deduplicate(batches(), shingling="word:1", keep="longest", backend="reference")
    assert result.duplicate_of.tolist() == [3, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "table",
    [
        pa.table([TEXTS, TEXTS], names=["t", "t"]),
        pd.DataFrame(list(zip(TEXTS, TEXTS, strict=True)), columns=["t", "t"]),
    ],
)
def test_two_columns_of_a_name(table: Any) -> None:
    with pytest.raises(InputTypeError, match=r"text_column is 't', and texts, a .*, has 2 columns 't'; rename"):
        gpulsh.deduplicate(table, text_column="t", backend="reference")


def test_what_is_none_of_these() -> None:
    for given, told in (
        (iter(["a", 3]), "item 1 of texts: texts is of type int"),
        (iter([["a"], ["b", 3]]), r"item 1 of texts: texts\[1\]"),
        (iter([b"a"]), "item 0 of texts: texts is one bytes"),
        (pl.LazyFrame(ROWS), "name its column, as in gpulsh.deduplicate"),
    ):
        with pytest.raises(InputTypeError, match=told):
            gpulsh.deduplicate(given, backend="reference")
    with pytest.raises(GpulshError, match="text_column is 'text', and texts, a list, has no columns; leave it out"):
        gpulsh.deduplicate(TEXTS, text_column="text", backend="reference")
