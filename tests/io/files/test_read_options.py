"""Files whose names do not say how to read them: patterns, delimiters, encodings; messages about other files."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.errors import DamagedInputError, InputError, ParameterError
from gpulsh.io.arrow.texts import count_stray_bytes
from gpulsh.io.files.read_options import ReadOptions
from tests.support.command import Command
from tests.support.files import PACK, UNPACK, write_rows
from tests.support.runs import below, run

CODE = "def add(one, other):\n    return one + other\n"
ROWS = ["Größe der Fläche über alles", "größe der fläche über ALLES", "naïve café crème brûlée"]


@pytest.fixture
def code(folder: Path) -> Path:
    contents = {"a.py": CODE, "b.py": CODE.replace("    ", "\t"), "src/__init__.py": "import c\n", "src/c.PY": "x = 1"}
    contents |= {"src/d.go": "package d\n", "src/e.json": '{"name": "none"}', ".git/f.py": CODE, "Makefile": "all:\n"}
    for name, content in contents.items():
        (folder / "code" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "code" / name).write_text(content)
    return folder / "code"


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        (["*.py"], ["a.py", "src/__init__.py"]),
        (["*.py", "*.go", "Makefile"], ["Makefile", "a.py", "src/__init__.py", "src/d.go"]),
        (["src/*"], ["src/__init__.py", "src/c.PY", "src/d.go", "src/e.json"]),
    ],
)
def test_files_by_pattern_are_one_text_each(code: Path, patterns: list[str], kept: list[str], command: Command) -> None:
    line = "dedup code/ -o out --shingle word:1 --backend reference"
    given = " ".join(f"--as-text {pattern}" for pattern in patterns)
    assert command(f"{line} {given}").status == 0
    assert below("out/data") == {*kept}
    for name in kept:
        assert Path("out/data", name).read_bytes() == Path("code", name).read_bytes()
    report = json.loads(Path("out/report.json").read_text())
    assert report["parameters"]["as_text"] == patterns
    # Steps that read the originals again find them, and a run resumes only with the same ones.
    assert command("show out").status == 0
    assert command(f"{line} {given} --resume").status == 0
    assert command(f"{line} --as-text *.p? --resume").status == 1


def test_as_text_takes_strings_globs_and_compressed_files(code: Path) -> None:
    Path("code/g.py.gz").write_bytes(gzip.compress(CODE.encode()))
    result = run(["code/*.py", "code/g.py.gz"], "out", as_text=["*.py", "*.py.gz"], shingling="word:1")
    assert (result.funnel["documents"], result.funnel["dropped"]) == (3, 2)
    assert run("code/a.py", "one", as_text="*.py").funnel["documents"] == 1


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a.py", "b.py", "c.md"], "but .py (2), .md (1); give --as-text '*.py' to take each such file as one text"),
        (["Makefile"], "but Makefile (1); give --as-text 'Makefile'"),
        (["a.xlsx", "b.XLSX", "c.pdf", "d.html", "e.sqlite"], "convert to Parquet or CSV first"),
        (["a.warc.zst"], "but .warc.zst (1); make .warc.gz of it by `fastwarc recompress`"),
        (["a.pdf", "b.rs"], "give --as-text '*.rs'"),
        (["a.avro", "b.orc", "c.pkl"], "but .avro (1), .orc (1), .pkl (1); convert to Parquet or CSV first"),
        (["a.jsonl.lz4", "b.zstd"], "but .lz4 (1), .zstd (1); known are .parquet"),
        ([], "holds no file of a known format; known are .parquet"),
        ([f"{i}.e{i}" for i in range(9)], ".e0 (1), .e1 (1), .e2 (1), .e3 (1), .e4 (1), ...; give"),
    ],
)
def test_a_folder_of_unknown_files_names_their_endings(names: list[str], message: str, tmp_path: Path) -> None:
    remote = len(names) % 2 > 0
    (tmp_path / "in" / ".hidden").mkdir(parents=True)
    for name in (*sorted(names), ".dot.py"):
        (tmp_path / "in" / name).write_text("x")
    with pytest.raises(InputError) as raised:
        run(f"{'file://' if remote else ''}{tmp_path}/in", tmp_path / "out")
    assert message in raised.value.message and "\n" not in raised.value.message
    assert "as_text='*.py'" in str(raised.value) or "*.py" not in message


@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize(
    ("log", "table"),
    [
        ("_delta_log/0.json", "Delta Lake"),
        (".hoodie/0.json", "Hudi"),
        ("metadata/v3.metadata.json", "Iceberg"),
        ("metadata/00001-9f0c1c3e-6a5d-4e3c-8f53-0c6d1f8e2b7a.gz.metadata.json", "Iceberg"),
    ],
)
def test_tables_with_rows_of_earlier_versions_are_refused(scheme: str, log: str, table: str, tmp_path: Path) -> None:
    (tmp_path / "in" / "t" / log).parent.mkdir(parents=True)
    (tmp_path / "in" / "t" / log).write_text("{}")
    (tmp_path / "in" / "t" / "a.jsonl").write_text('{"text": "a b c"}\n')
    with pytest.raises(InputError, match=f"is a table of {table}, and its files also have rows"):
        run(f"{scheme}{tmp_path}/in", tmp_path / "out")
    assert run(f"{scheme}{tmp_path}/in/t/*.jsonl", tmp_path / "out").funnel["documents"] == 1


# --- delimiters and encodings


@pytest.mark.parametrize(
    ("sign", "given", "message"),
    [(";", ";", "semicolons"), ("\t", "tab", "tabs"), ("\t", "\\t", "tabs"), ("|", "|", "bars"), (",", ",", "commas")],
)
def test_delimiters_are_suggested_and_taken(sign: str, given: str, message: str, tmp_path: Path) -> None:
    name = {";": "a.csv.gz", ",": "a.tsv"}.get(sign, "a.csv")
    lines = [f"id{sign}text{sign}n", f'1{sign}"a{sign}b"{sign}2', f"2{sign}a b{sign}3", f'3{sign}"c, d"{sign}1', ""]
    content = "\r\n".join(lines).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with pytest.raises(InputError, match=rf"has {message} between its columns; give delimiter="):
        run(tmp_path / name, tmp_path / "out")
    result = run(tmp_path / name, tmp_path / "out", delimiter=given, keep="n", id_column="id")
    assert result.funnel["dropped"] == 1
    kept = (tmp_path / "out/data" / name).read_bytes()
    wanted = "\r\n".join([lines[0], *lines[2:]]).encode()
    assert (gzip.decompress(kept) if name.endswith("gz") else kept) == wanted
    run(tmp_path / name, tmp_path / "parquet", delimiter=given, keep="n", format="parquet")
    rows = [{"id": "2", "text": "a b", "n": "3"}, {"id": "3", "text": "c, d", "n": "1"}]
    assert pq.read_table(tmp_path / "parquet/data").to_pylist() == rows


@pytest.mark.parametrize(
    ("name", "packed", "encoding"),
    [("a.csv", "", "latin-1"), ("a.tsv", "gz", "mac_roman"), ("a.txt", "", "cp1252"), ("a.txt", "xz", "latin-1")],
)
def test_other_encodings_give_the_decisions_of_utf8(encoding: str, packed: str, name: str, tmp_path: Path) -> None:
    """Decisions and columns are the same, and kept bytes are unchanged."""
    rows, sign, options = ROWS, "\t" if name == "a.tsv" else ",", {"shingling": "word:1"}
    if name == "a.txt":
        options["lines"] = True
    else:
        rows = [f"tëxt{sign}ñ", *(f"{row}{sign}é{number}" for number, row in enumerate(ROWS))]
        options["text_column"] = "tëxt"
    kept = {}
    for codec in ("utf-8", encoding):
        path = tmp_path / codec / f"{name}.{packed}".rstrip(".")
        path.parent.mkdir()
        path.write_bytes(PACK[packed]("\n".join([*rows, ""]).encode(codec)))
        for format in (None, "parquet"):
            funnel = run(path, path.parent / f"{format}", encoding=codec, format=format, **options).funnel
            assert (funnel["documents"], funnel["dropped"], funnel["not_utf8"]) == (3, 1, 0)
        kept[codec] = pq.read_table(path.parent / "parquet/data").to_pylist()
        wanted = [row for row in rows if not row.startswith(ROWS[1])]
        raw = UNPACK[packed]((path.parent / "None/data" / path.name).read_bytes())
        assert raw == "\n".join([*wanted, ""]).encode(codec)
    assert kept["utf-8"] == kept[encoding]


def test_whole_files_in_another_encoding_are_read(tmp_path: Path) -> None:
    for number, row in enumerate(ROWS):
        (tmp_path / f"{number}.txt").write_bytes(row.encode("cp1252"))
    result = run(tmp_path, tmp_path.parent / "out", encoding="cp1252", format="jsonl", shingling="word:1")
    assert result.funnel["dropped"] == 1
    kept = [json.loads(path.read_text())["text"] for path in sorted((tmp_path.parent / "out/data").iterdir())]
    assert kept == [ROWS[0], ROWS[2]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"encoding": "utf-16"}, "cannot be cut at single bytes; write them as UTF-8"),
        *(({"encoding": codec}, "cannot be cut") for codec in ("utf-7", "cp500", "iso2022_jp")),
        ({"encoding": "big5", "delimiter": "|"}, "cannot be cut"),
        *(({"encoding": codec}, "give one that Python knows") for codec in ("rot13", "\ud800")),
        ({"encoding": "nope"}, "encoding is 'nope'; give one that Python knows, such as latin-1"),
        ({"encoding": 3}, "encoding is 3"),
        ({"delimiter": ";;"}, "delimiter is ';;'; give one ASCII character"),
        *(({"delimiter": odd}, f"delimiter is {odd!r}") for odd in ('"', "", 5)),
        ({"as_text": 5}, "as_text is 5; give a pattern"),
        ({"as_text": ["*.py", 1]}, "as_text is 1; give a pattern"),
        *(({"as_text": odd}, "as_text is ''") for odd in ("", ("*.py", ""))),
        ({"as_text": "*.py"}, "no file of an INPUT matches"),
        *((given, "is given, and no INPUT has a ") for given in ({"delimiter": ";"}, {"encoding": "cp1252"})),
        ({"lines": True}, "is given, and no INPUT has a "),
    ],
)
def test_wrong_read_options_are_refused(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / ("a.jsonl" if "no INPUT has" in message else "a.csv"), [{"text": "x"}])
    with pytest.raises(ParameterError) as raised:
        run(path, tmp_path / "out", **given)
    assert message in str(raised.value)


def test_multibyte_encodings_take_no_delimiter() -> None:
    assert ReadOptions(encoding="cp932").encoding == "cp932" and ReadOptions(encoding="UTF8").encoding is None
    assert ReadOptions(encoding="euc-jp").encoding == "euc_jp"
    with pytest.raises(ParameterError, match="cp932"):
        ReadOptions(encoding="cp932", delimiter="|")


# --- bytes that are not UTF-8


@pytest.mark.parametrize("name", ["a.csv", "a.txt", "a.jsonl", "a.parquet", "b.txt"])
def test_bytes_that_are_not_utf8_are_counted(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = [row.encode("latin-1") for row in ROWS[1:]] + ["Größe".encode(), b"plain", b""]
    path = tmp_path / name
    if name == "a.csv":  # in a column that is not the text, too
        path.write_bytes(b"text,name\n" + b"".join(text + b',"x"\n' for text in texts[:-2]) + b'plain,"\xe9"\n')
    elif name == "a.jsonl":
        path.write_bytes(b"".join(b'{"text": "%b"}\n' % text for text in texts))
    elif name == "a.parquet":
        write_rows(path, pa.table({"text": pa.array(texts, pa.binary())}))
    else:
        path.write_bytes(b"\n".join(texts[:-1]) + b"\n")
    funnel = run(path, tmp_path / "out", shingling="word:1", lines=name == "a.txt").funnel
    rows, size = {"a.csv": (3, 10), "b.txt": (1, 9)}.get(name, (2, 9))
    assert (funnel["not_utf8"], funnel["stray_bytes"]) == (rows, size)
    line = f"{size} bytes in {rows} document{'s' * (rows > 1)} are invalid in UTF-8"
    assert [message for message in caplog.messages if line in message and "give encoding, such as latin-1" in message]
    assert line in (tmp_path / "out/report.html").read_text()


def test_valid_text_gives_no_warning_of_utf8(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.csv").write_text("text\n" + "\n".join(ROWS) + "\n", encoding="utf-8")
    (tmp_path / "b.jsonl").write_text('{"text": "x", "n": NaN}\n{"text": "\\ud800"}\n')
    (tmp_path / "c.txt").write_text("\ufffd", encoding="utf-8")
    result = run([tmp_path / name for name in ("a.csv", "b.jsonl", "c.txt")], tmp_path / "out")
    assert (result.funnel["not_utf8"], result.funnel["stray_bytes"]) == (0, 0)
    assert not [message for message in caplog.messages if "UTF-8" in message]


def test_invalid_bytes_are_counted_in_runs_with_an_index(folder: Path) -> None:
    Path("a.csv").write_bytes(b"text\n" + "\n".join(ROWS).encode("latin-1"))
    for keep in ("first", "longest"):
        assert run("a.csv", keep, index=f"{keep}-index", keep=keep, backend="cpu").funnel["not_utf8"] == 3


@pytest.mark.parametrize(
    ("text", "count"),
    [(b"", 0), (b"abc", 0), ("é".encode(), 0), (b"\xe9", 1), (b"\xc3", 1), (b"a\xe2\x82b", 2), (b"\xed\xa0\x80", 3)],
)
def test_stray_bytes_counts_invalid_bytes(text: bytes, count: int) -> None:
    assert count_stray_bytes(text) == count
    assert count_stray_bytes(b"x" * ((1 << 20) - 1) + text) == count  # cut in the middle of a character


# --- compressed and empty files under plain names


@pytest.mark.parametrize("end", ["parquet", "arrow", "jsonl", "csv", "txt", "json.gz", "jsonl.zst", "warc.gz"])
def test_pointers_of_git_lfs_are_refused(end: str, tmp_path: Path) -> None:
    """A text of one was a document, and other messages said nothing of Git LFS."""
    digest = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"
    path = tmp_path / f"a.{end}"
    path.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 12345\n")
    message = rf"a\.{end}: cannot be read: it is a pointer of Git LFS, and has no content; run `git lfs pull`"
    with pytest.raises(DamagedInputError, match=message):
        gpulsh.deduplicate_files(path, tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "packed", "message"), [("a.csv", "gz", "gzip"), ("a.jsonl", "xz", "xz"), ("lines.txt", "zst", "zstd")]
)
def test_compressed_files_of_plain_names_are_refused(name: str, packed: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(PACK[packed](b'{"text": "some words"}\n' * 9))
    message = rf"{name}: cannot be read: it is {message}, and its name does not end in \.{packed}; rename it"
    with pytest.raises(DamagedInputError, match=message):
        run(tmp_path / name, tmp_path / "out", lines=name == "lines.txt")
    assert not (tmp_path / "out").exists()


def test_zstd_files_may_end_in_zstd(tmp_path: Path) -> None:
    """As those of Nemotron-CC do."""
    (tmp_path / "in").mkdir()
    for name, content in (("a.jsonl.zstd", b'{"text": "a b"}\n{"text": "A b"}\n'), ("b.csv.ZSTD", b"text\nc d\nC d\n")):
        (tmp_path / "in" / name).write_bytes(PACK["zst"](content))
    run(tmp_path / "in", tmp_path / "out")
    assert UNPACK["zst"]((tmp_path / "out/data/a.jsonl.zstd").read_bytes()) == b'{"text": "a b"}\n'
    assert UNPACK["zst"]((tmp_path / "out/data/b.csv.ZSTD").read_bytes()) == b"text\nc d\n"
    run(tmp_path / "in", tmp_path / "lines", format="jsonl")
    assert below(tmp_path / "lines/data") == {"a.jsonl.zstd", "b.jsonl.zst"}


def test_an_empty_csv_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.csv").write_bytes(b"\n")
    (tmp_path / "b.csv").write_bytes(b"text\nx\n")
    assert run([tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path / "out").funnel["documents"] == 1
    warnings = [message for message in caplog.messages if "is empty" in message]
    assert warnings == [f"{tmp_path}/a.csv: is empty: it has no header and no documents"]


def test_a_misspelled_read_option_suggests_the_right_one() -> None:
    with pytest.raises(TypeError, match="did you mean as_text"):
        gpulsh.deduplicate_files("a", "b", as_texts="*.py")  # type: ignore[call-arg]
