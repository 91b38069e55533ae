"""Files without passages: texts as `gpulsh.cut` leaves them, all else as it was."""

import bz2
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.errors import ChangedInputError, InputError, OutputError, ParameterError
from tests.support.files import documents, read_rows, read_table, record, write_rows

SHARED = "one two three four five six seven"
TEXTS = [
    f'First, {SHARED}; é 漢字 "quoted"\\ {"own " * 9}',
    f"{SHARED}",
    f"Others: {SHARED}, {SHARED.upper()}\tand \U0001f642 an end of some more own words",
    "nothing repeats here",
    None,
]
OPTIONS: dict[str, Any] = {"backend": "reference"}


def left(given: list[str | None] | None = None) -> tuple[list[str | None], list[tuple[int, int]]]:
    """The texts that stay, and the rows that are dropped with the tokens left of each."""
    texts = TEXTS if given is None else given
    marks = gpulsh.passages(texts, tokens=5, **OPTIONS)
    found = gpulsh.cut(texts, marks, min_left=5, **OPTIONS)
    keep = found.keep.tolist()
    dropped = [(row, int(found.tokens[row])) for row, stays in enumerate(keep) if not stays]
    return [text for text, stays in zip(found.texts.to_pylist(), keep, strict=True) if stays], dropped


def passages_and_cut(inputs: Any, out: Path, **options: Any) -> Path:
    marks = gpulsh.passages_files(inputs, out / "marks", tokens=5, **OPTIONS)
    given = {"passages": marks.passages, "min_left": 5, **OPTIONS, **options}
    cut = gpulsh.cut_files(inputs, out / "cut", **given)
    rows = pq.read_table(out / "cut" / "short.parquet").to_pylist()
    assert [(row["row"], row["tokens"]) for row in rows] == left()[1]
    assert [row["row"] for row in rows] == [1]
    return cut.data


def texts_of(kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(TEXTS, pa.string()).dictionary_encode().cast(kind)
    return pa.array(TEXTS, pa.string()).cast(kind)


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.string(), pa.large_string(), pa.binary(), pa.string_view(), pa.binary_view()),
        *(pa.dictionary(pa.int32(), kind) for kind in (pa.string(), pa.binary(), pa.string_view())),
    ],
    ids=str,
)
def test_parquet_and_arrow(tmp_path: Path, kind: pa.DataType) -> None:
    table = pa.table({"a": range(5), "text": texts_of(kind), "b": [[1], [], None] + [[2]] * 2})
    if "values=string_view" not in str(kind):  # Arrow cannot write it to Parquet
        pq.write_table(table, tmp_path / "x.parquet", row_group_size=2)
    write_rows(tmp_path / "y.arrow", table, 2)
    for name in {"x.parquet", "y.arrow"}.intersection(os.listdir(tmp_path)):
        data = passages_and_cut(tmp_path / name, tmp_path / name[0])
        found = read_table(data / name)
        kept = pa.concat_tables([table.slice(0, 1), table.slice(2)])
        plain = kind
        if name == "y.arrow" and pa.types.is_dictionary(kind):  # a file has one for all batches
            plain = pa.large_binary() if kind.value_type == pa.binary() else pa.large_string()
        schema = table.schema.set(1, pa.field("text", plain))
        assert found.schema.equals(schema) and found.drop(["text"]).equals(kept.drop(["text"]))
        texts = found["text"].to_pylist()
        assert [text.decode() if isinstance(text, bytes) else text for text in texts] == left()[0]


def test_more_cut_texts_than_codes_of_a_dictionary(tmp_path: Path) -> None:
    """Codes of 8 bits have 128 texts; a cut adds the empty one."""
    own = [" ".join(f"{word}{number}" for word in "abcdefg") for number in range(128)]
    texts = pa.array([*own, own[0]]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
    path = write_rows(tmp_path / "a.arrows", pa.table({"text": texts}))
    marks = gpulsh.passages_files(path, tmp_path / "marks", tokens=5, **OPTIONS)
    cut = gpulsh.cut_files(path, tmp_path / "cut", passages=marks.passages, min_left=0, **OPTIONS)
    assert read_table(cut.data / "a.arrows")["text"].to_pylist() == [*own, ""]


def test_json_lines_keep_all_other_bytes(tmp_path: Path) -> None:
    lines = [
        b'{"n": 1.50, "meta": {"t": %s}, "meta" : {"x":"\\u00e9", "t"  :%s , "t2": [1 , 2]} ,"z":1e3}\n'
        % (b'"other"', json.dumps(text).encode())
        for text in TEXTS
    ]
    lines[2] = b"\n" + lines[2].removesuffix(b"\n") + b"\r\n"
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + b"".join(lines)))
    marks = gpulsh.passages_files(path, tmp_path / "marks", tokens=5, text_column="meta.t", **OPTIONS)
    cut = gpulsh.cut_files(path, tmp_path / "cut", passages=marks.passages, min_left=5, **OPTIONS)
    content = gzip.decompress((cut.data / path.name).read_bytes())
    kept, _ = left()
    expected = []
    for line, text in zip([lines[0], lines[2].removeprefix(b"\n")], kept[:2], strict=True):
        before, behind = line.split(b'"t"  :')
        value = json.dumps(text, ensure_ascii=False).encode()
        expected.append(before + b'"t"  :' + value + behind[behind.index(b' , "t2"') :])
        assert expected[-1] != line
    assert content == b"\xef\xbb\xbf" + b"".join([*expected, *lines[3:]])


def test_csv_text_and_arrays_of_json(tmp_path: Path) -> None:
    quoted = ["" if text is None else '"' + text.replace('"', '""') + '"' for text in TEXTS]
    (tmp_path / "a.csv").write_text("n,text,m\n" + "".join(f"{n},{text},z{n}\r\n" for n, text in enumerate(quoted)))
    data = passages_and_cut(tmp_path / "a.csv", tmp_path / "a")
    content = (data / "a.csv").read_bytes().decode()
    kept = ["" if text is None else '"' + text.replace('"', '""') + '"' for text in left()[0]]
    rows = zip([0, 2, 3, 4], kept, strict=True)
    assert content == "n,text,m\n" + "".join(f"{n},{text},z{n}\r\n" for n, text in rows)

    write_rows(tmp_path / "b.json", [{"text": text, "n": n} for n, text in enumerate(TEXTS)])
    data = passages_and_cut(tmp_path / "b.json", tmp_path / "b")
    assert [row["text"] for row in read_rows(data / "b.json")] == left()[0]

    data = passages_and_cut(tmp_path / "b.json", tmp_path / "c", format="parquet")
    assert pq.read_table(data / "b.parquet")["text"].to_pylist() == left()[0]


def test_text_files(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    texts = [text.replace("漢字", "").replace("\U0001f642", "") for text in TEXTS if text]
    for number, text in enumerate(texts):
        (folder / f"{number}.txt.bz2").write_bytes(bz2.compress(text.encode("latin-1")))
    marks = gpulsh.passages_files(folder, tmp_path / "marks", tokens=5, encoding="latin-1", **OPTIONS)
    cut = gpulsh.cut_files(folder, tmp_path / "cut", passages=marks.passages, min_left=5, **OPTIONS)
    found = [bz2.decompress(path.read_bytes()).decode("latin-1") for path in sorted(cut.data.iterdir())]
    assert found == left([*texts])[0]

    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(text.replace("\n", " ") for text in texts))
    marks = gpulsh.passages_files(lines, tmp_path / "marks2", tokens=5, lines=True, **OPTIONS)
    cut = gpulsh.cut_files(lines, tmp_path / "cut2", passages=marks.passages, min_left=5, **OPTIONS)
    assert (cut.data / "lines.txt").read_text().split("\n") == left([*texts])[0]


def test_warc_in_another_format(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.wet.gz"
    path.write_bytes(gzip.compress(b"".join(record(n, (text or "").encode()) for n, text in enumerate(TEXTS))))
    data = passages_and_cut(path, tmp_path / "out", format="jsonl")
    assert [row["text"] for file in data.iterdir() for row in read_rows(file)] == [text or "" for text in left()[0]]
    with pytest.raises(ParameterError, match="WARC, whose records are never changed"):
        gpulsh.cut_files(path, tmp_path / "x", passages=tmp_path / "out/marks/passages.parquet", **OPTIONS)


def test_both_in_one_run(tmp_path: Path) -> None:
    path = Path(write_rows(tmp_path / "a.jsonl", TEXTS))
    both = gpulsh.passages_files(path, tmp_path / "both", tokens=5, cut=True, min_left=5, **OPTIONS)
    data = passages_and_cut(path, tmp_path / "apart")
    assert (both.output / "data/a.jsonl").read_bytes() == (data / "a.jsonl").read_bytes()
    assert both.report["outputs"] == ["data/a.jsonl", "short.parquet", "passages.parquet", "report.json", "report.html"]
    assert [text.decode() for text in documents(data / "a.jsonl")] == [text or "" for text in left()[0]]
    again = gpulsh.passages_files(path, tmp_path / "both", tokens=5, cut=True, min_left=5, resume=True, **OPTIONS)
    assert again.report == json.loads((tmp_path / "both/report.json").read_text())
    with pytest.raises(OutputError, match="belongs to another run"):
        gpulsh.passages_files(path, tmp_path / "both", tokens=6, cut=True, min_left=5, resume=True, **OPTIONS)


def test_rare_passages_stay(tmp_path: Path) -> None:
    path = Path(write_rows(tmp_path / "a.jsonl", TEXTS))
    marks = gpulsh.passages_files(path, tmp_path / "marks", tokens=5, **OPTIONS)
    often = max(row["occurrences"] for row in pq.read_table(marks.passages).to_pylist())
    cut = gpulsh.cut_files(path, tmp_path / "cut", passages=marks.passages, min_occurrences=often + 1, **OPTIONS)
    assert (cut.data / "a.jsonl").read_bytes() == path.read_bytes()


def test_other_files_are_refused(tmp_path: Path) -> None:
    path, other = Path(write_rows(tmp_path / "a.jsonl", TEXTS)), write_rows(tmp_path / "b.jsonl", TEXTS)
    marks = gpulsh.passages_files(path, tmp_path / "marks", tokens=5, **OPTIONS)
    with pytest.raises(InputError, match=r"a\.jsonl, which is not an INPUT"):
        gpulsh.cut_files(other, tmp_path / "x", passages=marks.passages, **OPTIONS)
    path.write_text('{"text": "short"}\n' * 5)
    with pytest.raises(ChangedInputError, match=r"a\.jsonl: was written to after its passages were found"):
        gpulsh.cut_files(path, tmp_path / "x", passages=marks.passages, **OPTIONS)
    (tmp_path / "marks" / "report.json").unlink()  # without it the texts tell
    with pytest.raises(InputError, match="is not as it was when its passages were found"):
        gpulsh.cut_files(path, tmp_path / "x", passages=marks.passages, **OPTIONS)
    write_rows(path, TEXTS[:2])
    with pytest.raises(InputError, match="has 2 rows"):
        gpulsh.cut_files(path, tmp_path / "x", passages=marks.passages, **OPTIONS)
    write_rows(tmp_path / "no.parquet", [{"file": "a"}])
    with pytest.raises(InputError, match="was not written by `gpulsh passages`"):
        gpulsh.cut_files(path, tmp_path / "x", passages=tmp_path / "no.parquet", **OPTIONS)
    content = bytearray(marks.passages.read_bytes())
    content[20] ^= 0xFF
    marks.passages.write_bytes(content)
    with pytest.raises(InputError, match=r"passages\.parquet: cannot be read"):
        gpulsh.cut_files(path, tmp_path / "x", passages=marks.passages, **OPTIONS)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_texts_of_several_columns_are_refused(name: str, tmp_path: Path) -> None:
    """Before the work begins: a cut of the joined text would change one of the columns."""
    path = tmp_path / name
    rows = [{"title": "one two", "body": "three four five"}, {"title": "new", "body": "one two three four five"}]
    lines = ["title,body", *(",".join(row.values()) for row in rows)] if name == "a.csv" else map(json.dumps, rows)
    path.write_text("".join(f"{line}\n" for line in lines))
    given: dict[str, Any] = {"tokens": 3, "text_column": ["title", "body"], **OPTIONS}
    told = "text_column names 2 columns, and a cut changes only one; name one"
    with pytest.raises(ParameterError, match=told):
        gpulsh.passages_files(path, tmp_path / "both", cut=True, **given)
    marks = gpulsh.passages_files(path, tmp_path / "marks", **given)
    assert len(pq.read_table(marks.passages)) == 1
    with pytest.raises(ParameterError, match=told):
        gpulsh.cut_files(path, tmp_path / "cut", passages=marks.passages, **OPTIONS)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [name, "marks"]


@pytest.mark.parametrize(("name", "format"), [("a.parquet", None), ("a.parquet", "jsonl"), ("a.jsonl", "parquet")])
def test_a_field_of_a_column_is_refused(name: str, format: Any, tmp_path: Path) -> None:
    """Before the work begins."""
    rows = [{"meta": {"body": "one two three"}}, {"meta": {"body": "and one two three"}}]
    write_rows(tmp_path / name, rows)
    given: dict[str, Any] = {"tokens": 3, "text_column": "meta.body", "cut": True, "format": format, **OPTIONS}
    with pytest.raises(ParameterError, match=r"the field 'meta\.body', which a cut changes only in JSON lines"):
        gpulsh.passages_files(tmp_path / name, tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_texts_without_a_column_beside_those_of_another_name(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"content": "one two three"}\n')
    (tmp_path / "b.txt").write_text("more: one two three")
    (tmp_path / "c.wet").write_bytes(record(0, b"others: one two three"))
    inputs = [tmp_path / name for name in ("a.jsonl", "b.txt", "c.wet")]
    given: dict[str, Any] = {"tokens": 3, "text_column": "content", "cut": True, "min_left": 0, **OPTIONS}
    data = gpulsh.passages_files(inputs, tmp_path / "out", format="parquet", **given).data
    found = [read_rows(data / name) for name in ("a.parquet", "b.parquet", "c.parquet")]
    assert [row.get("content", row.get("text")) for (row,) in found] == ["one two three", "more: ", "others: "]


def test_a_list_that_would_be_overwritten_is_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", TEXTS)
    marks = gpulsh.passages_files(path, tmp_path / "marks", tokens=5, **OPTIONS)
    with pytest.raises(OutputError, match="holds the input"):
        gpulsh.cut_files(path, tmp_path / "marks", passages=marks.passages, overwrite=True, **OPTIONS)
    assert marks.passages.exists()
