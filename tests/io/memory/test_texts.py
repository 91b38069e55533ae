"""Texts in memory: every accepted kind gives the same bytes, in batches of bounded size; others are refused."""

from __future__ import annotations

import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.dataset import InMemoryDataset

import gpulsh
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.cpu import texts as compiled
from gpulsh.errors import DamagedInputError, GpulshError, InputError, InputTypeError, ParameterError
from gpulsh.index.keys import checked_keys
from gpulsh.io.arrow import rows as arrow
from gpulsh.io.memory import strings as memory
from gpulsh.io.memory import texts as opening
from gpulsh.io.memory.tables import table_texts
from gpulsh.io.memory.texts import open_texts
from gpulsh.io.normal_form import Form, normal_form
from gpulsh.io.rows import normalized
from tests.support.texts import documents_of

TEXTS = ["a", "é" * 10, None, "x" * 40, "", "w" * 5, "日本語のテキスト", None, "exactly 12 b"]
WANTED = [(text or "").encode() for text in TEXTS]
RAW = [None if text is None else text.encode() for text in TEXTS]


class Series:
    """The part of cuDF's Series that the library uses: this machine may have no GPU."""

    __module__ = "cudf.core.series"

    def __init__(self, array: pa.Array) -> None:
        self._array = array
        self.ndim = 1
        self.dtype = "object" if pa.types.is_string(array.type) else str(array.type)

    def to_arrow(self) -> pa.Array:
        return self._array


def null_rows_with_bytes() -> pa.Array:
    """An array whose null rows cover bytes."""
    found = pa.array(["hidden" if text is None else text for text in TEXTS])
    return pa.Array.from_buffers(pa.string(), len(TEXTS), [pa.array(TEXTS).buffers()[0], *found.buffers()[1:]])


def masked(kind: Any) -> np.ndarray:
    return np.ma.array(np.array([text or "" for text in TEXTS], kind), mask=[text is None for text in TEXTS])


KINDS: dict[str, Callable[[], Any]] = {
    "list": lambda: list(TEXTS),
    "tuple": lambda: tuple(TEXTS),
    "numpy object": lambda: np.array(TEXTS, object),
    "numpy variable-width": lambda: np.array(TEXTS, np.dtypes.StringDType(na_object=None)),
    "numpy masked": lambda: masked("U40"),
    "numpy masked object": lambda: masked(object),
    "numpy masked variable-width": lambda: masked(np.dtypes.StringDType()),
    "arrow string": lambda: pa.array(TEXTS),
    "arrow nulls over bytes": null_rows_with_bytes,
    "arrow large_string": lambda: pa.array(TEXTS, pa.large_string()),
    "arrow string_view": lambda: pa.array(TEXTS, pa.string_view()),
    "arrow binary_view": lambda: pa.array(RAW, pa.binary_view()),
    "arrow view chunks": lambda: pa.chunked_array([TEXTS[:2], [], TEXTS[2:]], pa.string_view()),
    "arrow binary": lambda: pa.array(RAW, pa.binary()),
    "arrow large_binary": lambda: pa.array(RAW, pa.large_binary()),
    "arrow dictionary": lambda: pa.array(TEXTS).dictionary_encode(),
    "arrow dictionary with a null word": lambda: pa.DictionaryArray.from_arrays([*range(7), None, 8], TEXTS),
    "arrow slice": lambda: pa.array(["before", *TEXTS, "after"])[1:-1],
    "arrow view slice": lambda: pa.array(["before" * 9, *TEXTS, "after"], pa.string_view())[1:-1],
    "arrow dictionary slice": lambda: pa.array(["before", *TEXTS, "after"]).dictionary_encode()[1:-1],
    "arrow runs": lambda: pc.run_end_encode(pa.array(TEXTS)),
    "arrow runs slice": lambda: pc.run_end_encode(pa.array(["before", "before", *TEXTS, "after"]))[2:-1],
    "arrow chunks of runs": lambda: pa.chunked_array(map(pc.run_end_encode, map(pa.array, (TEXTS[:2], TEXTS[2:])))),
    "arrow chunks": lambda: pa.chunked_array([TEXTS[:2], [], TEXTS[2:]], pa.string()),
    "pandas string": lambda: pd.Series(TEXTS, index=range(100, 109)),
    "pandas object": lambda: pd.Series(TEXTS, dtype=object, index=list("ihgfedcba")),
    "pandas string[python]": lambda: pd.Series(TEXTS, dtype="string[python]"),
    "pandas category": lambda: pd.Series(TEXTS, dtype="category"),
    "pandas array": lambda: pd.array(TEXTS, dtype="string"),
    "pandas index": lambda: pd.Index(TEXTS, dtype=object),
    "pandas arrow": lambda: pd.Series(TEXTS, dtype=pd.ArrowDtype(pa.string())),
    "polars": lambda: pl.Series(TEXTS),
    "polars categorical": lambda: pl.Series(TEXTS, dtype=pl.Categorical),
    "polars object": lambda: pl.Series(TEXTS, dtype=pl.Object),
    "cudf": lambda: Series(pa.array(TEXTS)),
}


def read(texts: Any, max_bytes: int = 20) -> list[bytes]:
    return [document for batch in texts.batches(max_bytes) for document in documents_of(batch)]


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_read_alike(kind: str) -> None:
    chosen = open_texts(KINDS[kind]()).choose(np.array([1, 2, 3, 6, 8]))  # before the first pass
    assert chosen.sizes.tolist() == [len(WANTED[place]) for place in (1, 2, 3, 6, 8)]
    assert documents_of(chosen.take(np.array([4, 0, 0, 1]))) == [WANTED[8], WANTED[1], WANTED[1], b""]
    assert documents_of(chosen.take(np.array([], np.int64))) == []
    texts = open_texts(KINDS[kind]())
    assert len(texts) == len(TEXTS)
    for max_bytes in (1, 30, 200, 1 << 20):
        batches = [documents_of(batch) for batch in texts.batches(max_bytes)]
        assert [document for batch in batches for document in batch] == WANTED
        assert texts.nulls() == 2 and texts.null_rows().tolist() == [text is None for text in TEXTS]
        assert all(len(batch) == 1 or sum(map(len, batch)) <= max_bytes for batch in batches)


WAYS: dict[str, dict[str, Any]] = {
    "by Arrow": {},
    "beyond its offsets": {"NARROW": 20},
    "by a kernel": {"NARROW": 20},
    "before pyarrow could cast views": {"_texts_of_views": lambda *_: None},
}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("arrow") or kind == "polars"])
@pytest.mark.parametrize("way", WAYS)
def test_chosen_texts_are_gathered_alike_by_every_path(kind: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in WAYS[way].items():
        monkeypatch.setattr(arrow, name, value)
    texts = open_texts(KINDS[kind](), CpuBackend(1) if way == "by a kernel" else None)
    assert [read(texts, max_bytes) for max_bytes in (1, 30, 1 << 20)] == [WANTED] * 3
    chosen = texts.choose(np.arange(len(TEXTS)))
    for places in ([8, 0, 3, 3, 2, 1], [0, 3, 5, 7, 8], [6, 6], [2, 4, 2, 7], [0, 1, 3], [2], []):
        batch = chosen.take(np.array(places, np.int64))
        assert documents_of(batch) == [WANTED[place] for place in places]
        assert batch.offset.dtype == np.int64 and len(batch.values) >= batch.offset[-1]


def test_choosing_rows_takes_no_pass_over_all_of_them_for_each_chunk() -> None:
    texts = open_texts(pa.chunked_array([[text, text] for text in "abc" * 100]))
    with mock.patch.object(np, "flatnonzero", wraps=np.flatnonzero) as passes:
        chosen = texts.choose(np.arange(1, 600, 3))
    assert passes.call_count < 10  # it was 200
    assert b"".join(documents_of(chosen.take(np.arange(200)))) == b"ac" * 100


def test_other_threads_run_while_texts_are_gathered() -> None:
    """A thread of pure Python would otherwise wait until all texts are joined."""
    count = 2_000_000
    offset = pa.py_buffer(np.arange(count + 1, dtype=np.int64) * 60)
    array = pa.Array.from_buffers(pa.large_string(), count, [None, offset, pa.py_buffer(b"x" * 60 * count)])
    chosen, places = open_texts(array).choose(np.arange(0, count, 2)), np.arange(count // 2)
    chosen.take(places[:2000])  # loads Arrow's kernels
    done = threading.Event()
    woken: list[float] = []

    def wake() -> None:
        while not done.wait(1e-4):
            woken.append(time.perf_counter())

    other = threading.Thread(target=wake)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # no thread waits for the interpreter's lock
    try:
        other.start()
        began = time.perf_counter()
        chosen.take(places)
        ended = time.perf_counter()
    finally:
        sys.setswitchinterval(before)
        done.set()
        other.join()
    inside = [began, *(at for at in woken if began < at < ended), ended]
    assert max(later - earlier for earlier, later in pairwise(inside)) < (ended - began) / 2


NULLS = [None, float("nan"), np.float32("nan"), pd.NA, pa.NA, pa.scalar(None, pa.string())]


@pytest.mark.parametrize(
    ("given", "wanted", "nulls"),
    [
        *((nothing, [], 0) for nothing in ([], (), np.array([], object), pa.array([], pa.string()))),
        (pl.Series([], dtype=pl.String), [], 0),
        (np.ma.array(["one", "zwölf", ""]), ["one", "zwölf", ""], 0),  # without a mask
        ([*NULLS, "text"], [""] * 6 + ["text"], 6),
        *((pd.Series([None] * 2, dtype=floats), [""] * 2, 2) for floats in ("float64", "Float64", "double[pyarrow]")),
        (["a\ud800z", "plain"], ["a\ufffdz", "plain"], 0),
        (pd.Series(["a\ud800z", "plain"], dtype="string[python]"), ["a\ufffdz", "plain"], 0),
    ],
)
def test_odd_kinds_of_texts_are_read(given: Any, wanted: list[str], nulls: int) -> None:
    texts = open_texts(given)
    assert (read(texts, 100), texts.nulls()) == ([text.encode() for text in wanted], nulls)
    assert wanted or list(texts.batches(10)) == []


strings = st.one_of(st.text(max_size=12), st.text("ab \0", max_size=12), st.none(), st.just(float("nan")))
surrogates = st.text(st.characters(categories=["Cs", "Lu"]), max_size=3)


def without_surrogates(text: str) -> str:
    return "".join("\ufffd" if 0xD800 <= ord(character) < 0xE000 else character for character in text)


@pytest.mark.parametrize("threads", [1, 3])
@given(st.lists(st.one_of(strings, surrogates), max_size=30), st.integers(1, 7), st.integers(1, 60), st.data())
def test_strings_become_utf8(threads: int, held: list[Any], group: int, most: int, data: st.DataObject) -> None:
    wanted = [without_surrogates(text).encode() if isinstance(text, str) else b"" for text in held]
    with (
        mock.patch.object(memory, "MANY", 1),
        mock.patch.object(memory, "GROUP", group),
        mock.patch.object(compiled, "CHUNK_BYTES", 5),
    ):
        texts = memory.string_rows(held, threads)
        batches = [documents_of(batch) for batch in texts.slices(most)]
        which = data.draw(st.lists(st.integers(0, len(held) - 1)) if held else st.just([]))
        found = documents_of(texts.gather(np.array(which, np.int64)))
    assert [text for batch in batches for text in batch] == wanted
    assert all(len(batch) == 1 or sum(map(len, batch)) <= most for batch in batches)
    assert texts.nulls() == sum(not isinstance(text, str) for text in held)
    assert texts.lengths().tolist() == list(map(len, wanted))
    assert found == [wanted[place] for place in which]


def test_encoding_caches_nothing_in_strings_and_leaks_nothing() -> None:
    """Some calls make CPython keep a string's UTF-8 as long as the string lives."""
    held = [f"é{'x' * 100}{number}" for number in range(200)]
    sizes, references = list(map(sys.getsizeof, held)), list(map(sys.getrefcount, held))
    rows = memory.string_rows(held)
    list(rows.slices(1 << 20))  # compiles
    before = sys.getallocatedblocks()
    for _ in range(50):
        list(rows.slices(3000))
    assert sys.getallocatedblocks() - before < 2000
    assert list(map(sys.getsizeof, held)) == sizes and list(map(sys.getrefcount, held)) == references


class Claimed:
    """An Arrow array whose owner claims another type."""

    def __init__(self, array: pa.Array, kind: pa.DataType) -> None:
        self._array, self._kind = array, kind

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._kind.__arrow_c_schema__(), self._array.__arrow_c_array__()[1]


def test_invalid_utf8_is_read_and_run_ends_are_checked() -> None:
    views = open_texts(pa.array([b"\xff\xfe no UTF-8 at all"], pa.binary_view()))
    assert read(views, 100) == [b"\xff\xfe no UTF-8 at all"]
    ends = np.array([1, 3, 4], np.int32)
    runs = pa.RunEndEncodedArray.from_arrays(pa.array(ends), pa.array([b"a", b"caf\xe9", b"b"]))
    strings = Claimed(runs, pa.run_end_encoded(pa.int32(), pa.string()))
    assert read(open_texts(strings), 100) == [b"a", b"caf\xe9", b"caf\xe9", b"b"]
    ends[:] = 1, 0, 4
    with pytest.raises(DamagedInputError, match="is damaged"):
        open_texts(strings)


def test_arrow_text_is_not_copied() -> None:
    array = pa.array(["some", "text"], pa.large_string())
    (batch,) = open_texts(array).batches(100)
    assert batch.values.ctypes.data == array.buffers()[2].address
    assert batch.offset.ctypes.data == array.buffers()[1].address


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a", None] * 3000 + [7], r"texts\[6000\] is 7 \(int\)"),
        (["a", float("nan")] * 70 + [7], r"texts\[140\] is 7 \(int\)"),
        (np.array([["a"]]), "array of 2 dimensions"),
        (iter(["a", 3]), "item 1 of texts: texts is of type int"),
        (iter([["a"], ["b", 3]]), r"item 1 of texts: texts\[1\]"),
        (iter([b"a"]), "item 0 of texts: texts is one bytes"),
        (pl.LazyFrame({"a": ["x"]}), "give one of its columns; gpulsh.deduplicate also takes a table"),
        ("one text", "texts is one str; give a list"),
        (b"bytes", "texts is one bytes; give a list"),
        *((kind, f"texts is the class {kind.__name__}; give a list") for kind in (pd.DataFrame, pa.Array, pl.Series)),
        ([1, 2], r"texts\[0\] is 1 \(int\)"),
        (["a", None, 1.5], r"texts\[2\] is 1.5 \(float\)"),
        (["a", True], r"texts\[1\] is True \(bool\)"),
        (["a", b"b"], r"texts\[1\] is bytes; give str or None"),
        (["a"] * 5000 + [["b"]], r"texts\[5000\] is \['b'\] \(list\)"),
        (np.array([1, 2]), "array of int64"),
        (np.array([b"a"]), "array of bytes"),
        (pa.array([1]), "Arrow type int64"),
        (pa.array([["a"]]), "Arrow type list"),
        *((table({"a": ["x"]}), "give one of its columns") for table in (pa.table, pd.DataFrame, pl.DataFrame)),
        (pd.Series([1]), "Series of int64"),
        (pd.Series([None, 1.5]), "Series of float64"),
        (pd.MultiIndex.from_tuples([("a", "b")]), "a MultiIndex of object; give one of strings"),
        (pl.Series([1]), "Arrow type int64"),
        (Series(pa.array([1])), "cuDF Series of int64"),
        ({"a"}, "of type set"),
        (7, "of type int"),
    ],
)
def test_other_types_than_text_are_refused(texts: Any, message: str) -> None:
    with pytest.raises(InputTypeError, match=message):
        list(open_texts(texts).batches(1 << 20))


def test_functions_without_text_column_do_not_suggest_another_function() -> None:
    table = pa.table({"text": ["a"]})
    for call in (gpulsh.passages, gpulsh.shingle, gpulsh.Index().query):
        with pytest.raises(InputTypeError, match="give one of its columns") as error:
            call(table)
        assert "call gpulsh.deduplicate" not in str(error.value)
        with pytest.raises(InputTypeError, match="functions for files, such as"):
            call("a.jsonl")


def test_text_column_of_a_list_is_refused() -> None:
    with pytest.raises(GpulshError, match="text_column is 'text', and texts, a list, has no columns; leave it out"):
        gpulsh.deduplicate(["a"], text_column="text", backend="reference")
    with pytest.raises(InputTypeError, match=r"InMemoryDataset, has .* or give a table of pyarrow, pandas"):
        gpulsh.deduplicate(InMemoryDataset(pa.table({"text": ["a"]})), text_column="text", backend="reference")


def test_normalization_replaces_invalid_bytes_first() -> None:
    (batch,) = open_texts(pa.array([b"plain", "e\u0301".encode(), b"\xff\xef\xac\x81", b""], pa.binary())).batches(1000)
    assert documents_of(normalized(batch, "NFC")) == [b"plain", "é".encode(), "\ufffd\ufb01".encode(), b""]
    assert documents_of(normalized(batch, "NFKC"))[2] == "\ufffdfi".encode()
    ascii_only = batch.slice(0, 1)
    assert normalized(ascii_only, "NFC") is ascii_only


# --- normal forms: those of `unicodedata`, whatever marks a text has, and in linear time ---


FORMS: list[Form] = ["NFC", "NFKC", "NFD", "NFKD"]


@cache
def marks() -> list[str]:
    """All characters that normalization may move."""
    return [c for c in map(chr, range(0x110000)) if unicodedata.combining(unicodedata.normalize("NFKD", c)[0])]


@given(st.data(), st.sampled_from(FORMS), st.sampled_from([1, 2, 3, 8]))
def test_normal_forms_equal_unicodedata(data: st.DataObject, form: Form, long: int) -> None:
    letters = st.sampled_from("aeqé가ㅏ한カガ\u1161\u0958xﬁ") | st.characters(exclude_categories=["Cs"])
    text = data.draw(st.text(st.sampled_from(marks()) | letters, max_size=40))
    assert normal_form(text, form, long) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", [255, 256, 257, 511, 512, 600])
def test_normal_forms_of_long_runs_of_marks(form: Form, length: int) -> None:
    run = ("\u0344\u0323\u0f73\u0301" * length)[:length]
    for text in (run, f"e{run}", f"é{run}é{run}", f"x{run} {run[:9]}a{run}"):
        assert normal_form(text, form) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("run", ["\u0301\u0323" * 20_000, "\u0301" * 20_000 + "\u0323" * 20_000, "\u0f73" * 40_000])
def test_a_page_of_marks_takes_linear_time(run: str) -> None:
    """It took minutes, and 16 times as long for four times as many marks."""
    began = time.process_time()
    gpulsh.shingle([f"e{run * 4}"], folding=gpulsh.Folding(form="NFKC"), backend="cpu")
    gpulsh.passages([f"e{run * 4} x"] * 2, tokens=1, normalize="NFC", backend="cpu")
    assert time.process_time() - began < 8


# --- tables, and texts in batches, give the results of a list of the same texts ---


ROWS_OF_TEXT = ["one two three", None, "four", "One, two, three!", "", None, "five"]
ROWS = [{"text": text, "meta": {"body": text, "n": row}, "a.b": text} for row, text in enumerate(ROWS_OF_TEXT)]


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
    "datasets, filtered": lambda: dataset().to_iterable_dataset().filter(lambda row: True),
    "datasets, of unknown types": lambda: dataset().to_iterable_dataset().map(dict),
    "duckdb": lambda: pytest.importorskip("duckdb", reason="duckdb is not installed").from_arrow(TABLES["arrow"]()),
}


BYTES = [(text or "").encode() for text in ROWS_OF_TEXT]


def read_all(texts: object) -> tuple[list[bytes], int]:
    """The documents, and the number of null ones."""
    opened = open_texts(texts)
    found = read(opened)
    assert len(opened) == len(found)
    return found, opened.nulls()


@pytest.mark.parametrize("kind", TABLES)
def test_text_columns_of_tables_are_read(kind: str) -> None:
    table = TABLES[kind]()
    for column in ("text", "column:text", "meta.body", "column:a.b"):
        assert read_all(table_texts(table, column)) == (BYTES, 2)
    joined = [text if text is None else f"{text}\n{text}" for text in ROWS_OF_TEXT]
    assert read_all(table_texts(table, "text,meta.body")) == ([(text or "").encode() for text in joined], 2)
    with pytest.raises(InputTypeError, match=r"has no column 'body'; its columns are: text, meta, a\.b"):
        read_all(table_texts(TABLES[kind](), "body"))
    with pytest.raises(InputError, match=r"'meta\.n' is .*, not text"):
        read_all(table_texts(table, "meta.n"))


def test_a_reader_gives_its_text_column_once() -> None:
    """With the name, the error said that a reader has no columns; without it, that a name is needed."""
    table = pa.Table.from_pylist(ROWS)
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as file:
        file.write_table(table)
    for reader in (table.to_reader(3), pa.ipc.open_stream(stream.getvalue())):
        assert read_all(table_texts(reader, "meta.body")) == (BYTES, 2)
    for kind, reader, option in (
        ("RecordBatchReader", table.select(["text"]).to_reader(), "key"),
        ("IterableDataset", TABLES["datasets, streamed"](), "source_column"),
    ):
        given: dict[str, Any] = {"text_column": "text", option: "text", "backend": "reference"}
        with pytest.raises(InputTypeError, match=f"{option} is 'text', and the {kind} is read once; give "):
            gpulsh.deduplicate(reader, **given)


def test_filter_returns_the_type_of_the_table() -> None:
    for kind in ("arrow", "pandas", "polars", "polars, later"):
        table = TABLES[kind]()
        result = gpulsh.deduplicate(table, text_column="text", shingling="word:1", backend="reference")
        kept = result.filter(table)
        assert type(kept) is type(table)
        kept = kept.collect() if hasattr(kept, "collect") else kept
        assert len(kept) == 6 and result.duplicate_of.tolist() == [0, 1, 2, 0, 4, 5, 6]
    with pytest.raises(pl.exceptions.PolarsError):
        result.filter(pl.LazyFrame(ROWS[:3])).collect()


def test_a_lazy_frame_is_collected_once() -> None:
    """Each time, its rows may have another order: a key belonged to another text."""
    frames: list[pl.DataFrame] = []
    lazy = pl.LazyFrame(ROWS).map_batches(lambda frame: frames.append(frame) or frame)
    names: dict[str, Any] = {"text_column": "meta.body", "key": "text", "source_column": "column:a.b"}
    assert gpulsh.deduplicate(lazy, **names, shingling="word:1", backend="reference").duplicate_of[3] == 0
    assert len(frames) == 1
    with pytest.raises(InputTypeError, match="key is 'txt', and texts, a LazyFrame, has no column 'txt'"):
        gpulsh.deduplicate(lazy, text_column="text", key="txt", backend="reference")


def test_data_sets_and_their_columns_are_read() -> None:
    texts = dataset()
    for column in (texts["text"], texts["meta"]["body"], texts.to_iterable_dataset()["text"]):
        assert read_all(column) == (BYTES, 2)
    result = gpulsh.deduplicate(texts, text_column="text", shingling="word:1", backend="reference")
    kept = [ROWS_OF_TEXT[row] for row in (0, 1, 2, 4, 5, 6)]
    assert result.filter(texts)["text"][:] == kept
    number = texts["meta"]["n"]
    with mock.patch.object(type(number), "__iter__", side_effect=AssertionError("read row by row")):
        assert read_all(texts["meta"]["body"]) == (BYTES, 2) and checked_keys(number)[1] == "integer"
        order = gpulsh.deduplicate(texts["text"], priority=number, key=number, backend="reference")
        assert order.duplicates(ids=number)["id"].to_pylist() == [0]
        assert result.filter(texts["text"]) == kept
    with pytest.raises(ParameterError, match="key is a column of struct"):
        gpulsh.deduplicate(texts["text"], key=texts, backend="reference")
    import datasets

    splits, one_of = datasets.DatasetDict(train=texts), "one of its splits"
    for wrong, column, why in ((texts, None, "text_column='text'"), (splits, None, one_of), (splits, "text", one_of)):
        with pytest.raises(InputTypeError, match=why):
            gpulsh.deduplicate(wrong, text_column=column, backend="reference")


def batches() -> Iterator[object]:
    yield from (ROWS_OF_TEXT[0], None, np.array(ROWS_OF_TEXT[2:3], object), [])
    yield from (pa.array(ROWS_OF_TEXT[3:5]), ROWS_OF_TEXT[5:])


@pytest.mark.parametrize("group", [1, 2, 4096])
def test_iterators_of_texts_or_batches_are_read(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "GROUP", group)
    for texts in (iter(ROWS_OF_TEXT), (text for text in ROWS_OF_TEXT), batches(), map(list, [ROWS_OF_TEXT]), iter([])):
        wanted = (BYTES, 2) if (count := getattr(texts, "__length_hint__", lambda: 7)()) else ([], 0)
        assert read_all(texts) == wanted, count
    result = gpulsh.deduplicate(batches(), shingling="word:1", keep="longest", backend="reference")
    assert result.duplicate_of.tolist() == [3, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("table", [pa.table([["a"]] * 2, names=["t", "t"]), pd.DataFrame([["a"] * 2], columns=[*"tt"])])
def test_two_columns_of_equal_name_are_refused(table: Any) -> None:
    with pytest.raises(InputTypeError, match=r"text_column is 't', and texts, a .*, has 2 columns 't'; rename"):
        gpulsh.deduplicate(table, text_column="t", backend="reference")
