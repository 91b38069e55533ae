"""Files without passages: texts are those of `gpulsh.cut`, and all else is unchanged."""

import bz2
import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.errors import ChangedInputError, InputError, OutputError, ParameterError
from gpulsh.io.columns import Columns
from gpulsh.io.file import File
from gpulsh.io.format import Cuts
from gpulsh.run.passages.cut import NEEDED_COLUMNS, _read_passages, passages_by_file
from tests.support.files import documents, read_rows, read_table, record, write_rows
from tests.support.runs import tree
from tests.support.traced import at_most

SHARED = "one two three four five six seven"
TEXTS = [
    f'First, {SHARED}; é 漢字 "quoted"\\ {"own " * 9}',
    f"{SHARED}",
    f"Others: {SHARED}, {SHARED.upper()}\tand \U0001f642 an end of some more own words",
    "nothing repeats here",
    None,
]
OPTIONS: dict[str, Any] = {"backend": "reference"}


def left(texts: list[str | None] = TEXTS) -> tuple[list[str | None], list[tuple[int, int]]]:
    """The texts left, and the dropped rows with the tokens left of each."""
    found = gpulsh.cut(texts, gpulsh.passages(texts, tokens=5, **OPTIONS), min_left=5, **OPTIONS)
    assert found.keep.tolist() == [row != 1 for row in range(len(texts))]
    return found.texts.filter(pa.array(found.keep)).to_pylist(), [(1, int(found.tokens[1]))]


def mark(inputs: Any, out: Path, **options: Any) -> Path:
    return gpulsh.passages_files(inputs, out, **{"tokens": 5, **OPTIONS, **options}).passages


def passages_and_cut(inputs: Any, out: Path, format: Any = None, **options: Any) -> Path:
    """Find passages and cut them; returns the folder of the texts left."""
    passages = mark(inputs, out / "marks", **options)
    cut = gpulsh.cut_files(inputs, out / "cut", passages=passages, min_left=5, format=format, **OPTIONS)
    rows = pq.read_table(out / "cut" / "short.parquet").to_pylist()
    assert [(row["row"], row["tokens"]) for row in rows] == left()[1]
    return cut.data


def texts_of(kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(TEXTS, pa.string()).dictionary_encode().cast(kind)
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(pa.array(TEXTS, kind.value_type))
    return pa.array(TEXTS, pa.string()).cast(kind)


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.string(), pa.large_string(), pa.binary(), pa.string_view(), pa.binary_view()),
        *(pa.dictionary(pa.int32(), kind) for kind in (pa.string(), pa.binary(), pa.string_view())),
        pa.run_end_encoded(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_cut_files_keep_columns_of_parquet_and_arrow(tmp_path: Path, kind: pa.DataType) -> None:
    table = pa.table({"a": range(5), "text": texts_of(kind), "b": [[1], [], None] + [[2]] * 2})
    for name in ("x.parquet", "y.arrow"):
        if name == "x.parquet" and re.search("values=string_view|run_end", str(kind)):  # Arrow cannot write it there
            continue
        data = passages_and_cut(write_rows(tmp_path / name, table, 2), tmp_path / name[0])
        found = read_table(data / name)
        kept = pa.concat_tables([table.slice(0, 1), table.slice(2)])
        plain = kind
        if name == "y.arrow" and pa.types.is_dictionary(kind):  # a file has one for all batches
            plain = pa.large_binary() if kind.value_type == pa.binary() else pa.large_string()
        schema = table.schema.set(1, pa.field("text", plain))
        assert found.schema.equals(schema) and found.drop(["text"]).equals(kept.drop(["text"]))
        texts = found["text"].to_pylist()
        assert [text.decode() if isinstance(text, bytes) else text for text in texts] == left()[0]


@pytest.mark.parametrize(
    ("name", "format"), [("a.arrows", None), ("a.arrows", "parquet"), ("a.parquet", None), ("a.parquet", "jsonl")]
)
def test_a_cut_may_exceed_the_codes_of_a_dictionary(name: str, format: Any, tmp_path: Path) -> None:
    """Codes of 8 bits have 128 texts; a cut adds the empty one."""
    own = [" ".join(f"{word}{number}" for word in "abcdefg") for number in range(128)]
    texts = pa.array([*own, own[0]]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
    path = write_rows(tmp_path / name, pa.table({"text": texts}))
    how: Any = {"tokens": 5, "cut": True, "min_left": 0, "format": format, **OPTIONS}
    data = gpulsh.passages_files(path, tmp_path / "out", **how).data
    assert [row["text"] for row in read_rows(data / f"a.{format or name[2:]}")] == [*own, ""]


def test_large_texts_are_cut_without_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a run that drops documents writes them: Arrow copies such statistics several times."""
    monkeypatch.setattr("gpulsh.run.passages.cut.LARGE_TEXT", 1000)
    for name, text in (("a.parquet", "a" * 1000), ("b.parquet", "a")):
        path = write_rows(tmp_path / name, pa.table({"text": [text, SHARED, SHARED], "id": [1, 2, 3]}))
        data = gpulsh.passages_files(path, tmp_path / name[0], tokens=5, cut=True, **OPTIONS).data
        group = pq.ParquetFile(data / name).metadata.row_group(0)
        assert [group.column(place).is_stats_set for place in range(2)] == [name == "b.parquet", True]


@pytest.mark.parametrize("several", [2, 100])
def test_files_cut_together_are_cut_as_each_alone(
    several: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in/b").mkdir(parents=True)
    for place, text in enumerate(filter(None, TEXTS)):
        (tmp_path / f"in/{'b/' * (place % 2)}{place}.txt").write_text(text)
    passages = mark(tmp_path / "in", tmp_path / "marks")
    found = []
    for files in (1, several):
        monkeypatch.setattr("gpulsh.run.stages.write.RUN_FILES", files)
        out = tmp_path / f"cut{files}"
        report = gpulsh.cut_files(tmp_path / "in", out, passages=passages, min_left=5, **OPTIONS).report
        found.append((tree(out / "data"), pq.read_table(out / "short.parquet").to_pylist(), report["passages"]))
    alone, together = found
    assert together == alone and [(row["file"][-5:], row["tokens"]) for row in alone[1]] == [("1.txt", 0)]


def test_json_lines_keep_all_other_bytes(tmp_path: Path) -> None:
    lines = [
        b'{"n": 1.50, "meta": {"t": "other"}, "meta" : {"x":"\\u00e9", "t"  :%s , "t2": [1 , 2]} ,"z":1e3}\n'
        % json.dumps(text).encode()
        for text in TEXTS
    ]
    lines[2] = b"\n" + lines[2].removesuffix(b"\n") + b"\r\n"
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + b"".join(lines)))
    data = passages_and_cut(path, tmp_path / "out", text_column="meta.t")
    kept, expected = left()[0], []
    for line, text in zip([lines[0], lines[2].removeprefix(b"\n")], kept[:2], strict=True):
        before, behind = line.split(b'"t"  :')
        value = json.dumps(text, ensure_ascii=False).encode()
        expected.append(before + b'"t"  :' + value + behind[behind.index(b' , "t2"') :])
        assert expected[-1] != line
    content = gzip.decompress((data / path.name).read_bytes())
    assert content == b"\xef\xbb\xbf" + b"".join([*expected, *lines[3:]])


def test_a_lone_surrogate_is_one_replacement(tmp_path: Path) -> None:
    """In memory, in short and long records of JSON, and in the output of a cut."""
    long = "a\udfff\ud800z " * 200
    given = [f"\ud83d {SHARED}", long, f"{long} other \udc00 {SHARED} \udcff of it"]
    whole = [re.sub("[\ud800-\udfff]", "\ufffd", text) for text in given]
    for options in ({"tokens": 5}, {"bytes": 20}):
        spans = gpulsh.passages(given, **options, **OPTIONS)
        assert len(spans) and spans.equals(gpulsh.passages(whole, **options, **OPTIONS))
        cut = gpulsh.cut(given, spans, min_left=0, **OPTIONS).texts
        assert cut.equals(gpulsh.cut(whole, spans, min_left=0, **OPTIONS).texts)
        write_rows(tmp_path / "a.jsonl", given)
        how: dict[str, Any] = {"cut": True, "min_left": 0, **options, **OPTIONS}
        found = gpulsh.passages_files(tmp_path / "a.jsonl", tmp_path / next(iter(options)), **how)
        table = pq.read_table(found.passages)
        assert all(table[name].to_pylist() == spans[name].to_pylist() for name in ("row", "start", "stop"))
        written = [row["text"] for row in read_rows(found.data / "a.jsonl")]
        assert [re.sub("[\ud800-\udfff]", "\ufffd", text) for text in written] == cut.to_pylist()


def test_a_number_of_thousands_of_digits_stays(tmp_path: Path) -> None:
    lines = [f'{{"n": {"7" * 5000}, "text": {json.dumps(text)}}}\n' for text in TEXTS]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    found = (passages_and_cut(tmp_path / "a.jsonl", tmp_path) / "a.jsonl").read_text().splitlines()
    assert [line[:5010] for line in found] == [line[:5010] for line in lines if line != lines[1]]


def test_csv_keeps_all_other_bytes(tmp_path: Path) -> None:
    def table(rows: list[int], texts: list[str | None]) -> bytes:
        quoted = ["" if text is None else '"' + text.replace('"', '""') + '"' for text in texts]
        lines = [f"{n},{text},z{n}\r\n" for n, text in zip(rows, quoted, strict=True)]
        return "".join(["n,text,m\n", *lines]).encode()

    (tmp_path / "a.csv").write_bytes(table([*range(5)], TEXTS))
    data = passages_and_cut(tmp_path / "a.csv", tmp_path / "a")
    assert (data / "a.csv").read_bytes() == table([0, 2, 3, 4], left()[0])


def test_other_formats_are_cut(tmp_path: Path) -> None:
    """JSON arrays, plain text of one document a file or a line, and WARC, which a cut writes in another format."""
    array = write_rows(tmp_path / "b.json", TEXTS)
    assert [row["text"] for row in read_rows(passages_and_cut(array, tmp_path / "b") / "b.json")] == left()[0]
    data = passages_and_cut(array, tmp_path / "c", format="parquet")
    assert pq.read_table(data / "b.parquet")["text"].to_pylist() == left()[0]

    texts: list[Any] = [text.replace("漢字", "").replace("\U0001f642", "") for text in TEXTS if text]
    (tmp_path / "in").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / "in" / f"{number}.txt.bz2").write_bytes(bz2.compress(text.encode("latin-1")))
    passages = mark(tmp_path / "in", tmp_path / "d", encoding="latin-1")
    data = gpulsh.cut_files(tmp_path / "in", tmp_path / "d cut", passages=passages, min_left=5, **OPTIONS).data
    assert [bz2.decompress(path.read_bytes()).decode("latin-1") for path in sorted(data.iterdir())] == left(texts)[0]
    (tmp_path / "lines.txt").write_text("\n".join(texts))
    passages = mark(tmp_path / "lines.txt", tmp_path / "e", lines=True)
    data = gpulsh.cut_files(tmp_path / "lines.txt", tmp_path / "e cut", passages=passages, min_left=5, **OPTIONS).data
    assert (data / "lines.txt").read_text().split("\n") == left(texts)[0]

    path = tmp_path / "a.warc.wet.gz"
    path.write_bytes(gzip.compress(b"".join(record(n, (text or "").encode()) for n, text in enumerate(TEXTS))))
    data = passages_and_cut(path, tmp_path / "f", format="jsonl")
    assert [row["text"] for file in data.iterdir() for row in read_rows(file)] == [text or "" for text in left()[0]]
    with pytest.raises(ParameterError, match="WARC, whose records are never changed"):
        gpulsh.cut_files(path, tmp_path / "x", passages=tmp_path / "f/marks/passages.parquet", **OPTIONS)


def test_lines_without_passages_keep_bytes_that_their_encoding_lacks(tmp_path: Path) -> None:
    lines = [b"own \x81 \xe9 line\r\n", f"{SHARED}\n".encode(), f"{SHARED} more\n".encode()]
    (tmp_path / "a.txt").write_bytes(b"".join(lines))
    passages = mark(tmp_path / "a.txt", tmp_path / "marks", lines=True, encoding="cp1252")
    cut = gpulsh.cut_files(tmp_path / "a.txt", tmp_path / "cut", passages=passages, min_left=1, **OPTIONS)
    assert (cut.data / "a.txt").read_bytes() == b"".join(lines[:2]) + b" more\n"


def test_a_column_that_parquet_lacks_is_refused(tmp_path: Path) -> None:
    table = pa.table({"text": TEXTS, "i": pa.nulls(len(TEXTS), pa.month_day_nano_interval())})
    passages = mark(write_rows(tmp_path / "a.arrow", table), tmp_path / "marks")
    with pytest.raises(InputError, match="'i' is month_day_nano_interval, which Parquet cannot hold"):
        gpulsh.cut_files(tmp_path / "a.arrow", tmp_path / "cut", passages=passages, format="parquet", **OPTIONS)


def test_cut_in_one_run_equals_two_runs(tmp_path: Path) -> None:
    path = Path(write_rows(tmp_path / "a.jsonl", TEXTS))
    given: dict[str, Any] = {"tokens": 5, "cut": True, "min_left": 5, **OPTIONS}
    both = gpulsh.passages_files(path, tmp_path / "both", **given)
    data = passages_and_cut(path, tmp_path / "apart")
    assert (both.output / "data/a.jsonl").read_bytes() == (data / "a.jsonl").read_bytes()
    assert both.report["outputs"] == ["data/a.jsonl", "passages.parquet", "short.parquet", "report.json", "report.html"]
    assert [text.decode() for text in documents(data / "a.jsonl")] == [text or "" for text in left()[0]]
    again = gpulsh.passages_files(path, tmp_path / "both", resume=True, **given)
    assert again.report == json.loads((tmp_path / "both/report.json").read_text())
    with pytest.raises(OutputError, match="belongs to another run"):
        gpulsh.passages_files(path, tmp_path / "both", resume=True, **{**given, "tokens": 6})
    with pytest.raises(OutputError, match="belongs to a run of `gpulsh passages`; give another folder"):
        gpulsh.deduplicate_files(path, tmp_path / "both", resume=True)
    with pytest.raises(OutputError, match="belongs to a run of `gpulsh passages`; give another folder"):
        gpulsh.cut_files(path, tmp_path / "both", passages=tmp_path / "apart/marks/passages.parquet", resume=True)
    with pytest.raises(OutputError, match="holds the input"):  # the list would be overwritten
        gpulsh.cut_files(path, tmp_path / "both", passages=both.passages, overwrite=True, **OPTIONS)
    often = max(row["occurrences"] for row in pq.read_table(both.passages).to_pylist())
    rare = gpulsh.cut_files(path, tmp_path / "rare", passages=both.passages, min_occurrences=often + 1, **OPTIONS)
    assert (rare.data / "a.jsonl").read_bytes() == path.read_bytes()
    assert repr(rare) == f"CutResult(output={rare.output!r})"  # without the report


def test_names_that_are_not_utf8_are_cut(tmp_path: Path) -> None:
    """`passages.parquet` shows such a name with U+FFFD."""
    path = Path(write_rows(tmp_path / os.fsdecode(b"\xff.jsonl"), TEXTS))
    (file,) = passages_and_cut(path, tmp_path / "out").iterdir()
    assert file.name == path.name and len(read_rows(file)) == len(left()[0])


def test_cut_files_refuses_other_and_changed_files(tmp_path: Path) -> None:
    path, other = Path(write_rows(tmp_path / "a.jsonl", TEXTS)), write_rows(tmp_path / "b.jsonl", TEXTS)
    passages = mark(path, tmp_path / "marks")
    (tmp_path / "other").touch()

    def refused(error: type[Exception], message: str, inputs: Any = path, passages: Path = passages) -> None:
        with pytest.raises(error, match=message):
            gpulsh.cut_files(inputs, tmp_path / "x", passages=passages, **OPTIONS)
        assert not (tmp_path / "x").exists()

    refused(InputError, r"a\.jsonl, which is not an INPUT", other)
    refused(InputError, f"as_text='other'.*; {passages} says how files are read, so give the INPUT", tmp_path / "other")
    refused(InputError, "no--file: no such file or folder$", tmp_path / "no--file")
    table = pq.read_table(passages)
    for name, kind, value in (("start", pa.int64(), None), ("stop", pa.uint64(), 9)):  # nulls were cut somewhere
        column, changed = pa.array([value] * len(table), kind), tmp_path / "changed.parquet"
        pq.write_table(table.set_column(table.column_names.index(name), name, column), changed)
        refused(InputError, f"column {name} is not int64 without nulls", passages=changed)
    for parameters in ("[" * 100_000, "7", "{}", '{"unit": "word", "symbols": false, "text_column": 7}'):
        pq.write_table(table.replace_schema_metadata({"gpulsh.passages": parameters}), changed)
        refused(InputError, "its metadata is damaged; give OUT/passages.parquet", passages=changed)
    two = pq.read_table(mark([path, other], tmp_path / "two"))
    last = len(two) - 1
    for inputs, moved in ((path, table.take([*range(len(table))][::-1])), ([path, other], two.take([0, last, 1]))):
        pq.write_table(moved, changed)  # a row was cut from another text
        refused(InputError, "its rows are in another order than INPUT; give the", inputs, changed)
    path.write_text('{"text": "short"}\n' * 5)
    refused(ChangedInputError, r"a\.jsonl: was written to after its passages were found")
    (tmp_path / "marks" / "report.json").write_text('{"gpulsh": 0}')  # of no finished run, so the texts tell
    refused(InputError, "is not as it was when its passages were found")
    write_rows(path, TEXTS[:2])
    refused(InputError, "has 2 rows")
    os.mkfifo(tmp_path / "pipe")  # which was opened, and waited for a writer forever
    refused(InputError, "pipe: is a named pipe, not a regular file", passages=tmp_path / "pipe")
    none = Path(write_rows(tmp_path / "no.parquet", [{"file": "a"}]))
    refused(InputError, "was not written by `gpulsh passages`", passages=none)
    content = bytearray(passages.read_bytes())
    content[20] ^= 0xFF
    passages.write_bytes(content)
    refused(InputError, r"passages\.parquet: cannot be read")


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_texts_of_several_columns_are_refused(name: str, tmp_path: Path) -> None:
    """The error comes before the work: a cut of the joined text would change one of the columns."""
    rows = [{"title": "one two", "body": "three four five"}, {"title": "new", "body": "one two three four five"}]
    path = write_rows(tmp_path / name, rows)
    given: dict[str, Any] = {"tokens": 3, "text_column": ["title", "body"], **OPTIONS}
    message = "text_column names 2 columns, and a cut changes only one; find passages in one"
    with pytest.raises(ParameterError, match=message):
        gpulsh.passages_files(path, tmp_path / "both", cut=True, **given)
    marks = gpulsh.passages_files(path, tmp_path / "marks", **given)
    assert len(pq.read_table(marks.passages)) == 1
    with pytest.raises(ParameterError, match=message):
        gpulsh.cut_files(path, tmp_path / "cut", passages=marks.passages, **OPTIONS)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [name, "marks"]


@pytest.mark.parametrize(("name", "format"), [("a.parquet", None), ("a.parquet", "jsonl"), ("a.jsonl", "parquet")])
def test_a_field_of_a_column_is_refused(name: str, format: Any, tmp_path: Path) -> None:
    """The error comes before the work."""
    rows = [{"meta": {"body": "one two three"}}, {"meta": {"body": "and one two three"}}]
    write_rows(tmp_path / name, rows)
    given: dict[str, Any] = {"tokens": 3, "text_column": "meta.body", "cut": True, "format": format, **OPTIONS}
    with pytest.raises(ParameterError, match=r"the field 'meta\.body', which a cut changes only in JSON lines"):
        gpulsh.passages_files(tmp_path / name, tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_texts_of_several_column_names_are_cut(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"content": "one two three"}\n')
    (tmp_path / "b.txt").write_text("more: one two three")
    (tmp_path / "c.wet").write_bytes(record(0, b"others: one two three"))
    inputs = [tmp_path / name for name in ("a.jsonl", "b.txt", "c.wet")]
    given: dict[str, Any] = {"tokens": 3, "text_column": "content", "cut": True, "min_left": 0, **OPTIONS}
    data = gpulsh.passages_files(inputs, tmp_path / "out", format="parquet", **given).data
    found = [read_rows(data / name) for name in ("a.parquet", "b.parquet", "c.parquet")]
    assert [row.get("content", row.get("text")) for (row,) in found] == ["one two three", "more: ", "others: "]


def test_many_cuts_of_a_text_take_little_beside_it() -> None:
    text, start = memoryview(b"ab" * 500_000), np.arange(0, 1_000_000, 2)
    cuts = Cuts(np.zeros_like(start), start, start + 1, Columns("text"))
    with at_most(3 * len(text)):
        assert cuts.text(0, text) == b"b" * 500_000


def test_many_passages_of_a_file_take_little_memory(tmp_path: Path) -> None:
    """Memory held the name of the file for each passage, and all its passages several times."""
    path, count = tmp_path / "passages.parquet", 400_000
    numbers = {name: np.arange(count) * (5 - place) for place, name in enumerate(NEEDED_COLUMNS) if place}
    pq.write_table(pa.table({"file": ["a.jsonl"] * count, **numbers}), path, row_group_size=1 << 16)
    with at_most(12 * count):
        assert passages_by_file(path, {3: File("a.jsonl", "a.jsonl", "a.jsonl")}) == {3: (0, count)}
        found = _read_passages(path, 70_000, count - 5, 100_000, tmp_path)
    for times, column in zip((1, 4, 3, 2), found, strict=True):
        assert column.tolist() == list(range(times * 100_000, times * (count - 5), times))
