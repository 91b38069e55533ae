"""CSV and TSV: records and values equal those of Python's `csv`, kept records keep every byte, bad ones are named."""

import csv
import json
import random
import tracemalloc
from itertools import compress
from pathlib import Path

import numpy as np
import pytest

from gpulsh.errors import DamagedInputError, InputError, InputTypeError
from gpulsh.io.columns import Columns
from gpulsh.io.files.inputs import find_files
from gpulsh.io.format import Rules
from gpulsh.io.formats import delimited
from gpulsh.io.formats.delimited import split_records
from gpulsh.io.formats.endings import format_of
from tests.support.files import PACK, UNPACK, new_file, rejected
from tests.support.runs import evidence, run

DRAW = random.Random(4)
PAGES = [" ".join(f"w{DRAW.randrange(999)}" for _ in range(12)) for _ in range(6)]


def as_csv_has_it(content: bytes) -> list[list[bytes]]:
    lines = content.decode("latin-1").removeprefix("\xef\xbb\xbf").splitlines(keepends=True)
    return [[field.encode("latin-1") for field in row] for row in csv.reader(lines) if row]


@pytest.mark.parametrize("step", [1, 3, 1 << 20])
def test_records_and_values_equal_those_of_csv(step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "STEP", step)
    draw, path = random.Random(step), tmp_path / "a.csv"
    seen = 0
    for _ in range(150):
        rows = [b"".join(draw.choices([b'"', b'"', b",", b"x", b"\n", b"\r\n", b"\xff", b" "], k=draw.randrange(14)))]
        content = draw.choice([b"", b"\xef\xbb\xbf"]) + b"a,b\n" + rows[0] + draw.choice([b"", b"\n", b"\n\n"])
        path.write_bytes(content)
        wanted = as_csv_has_it(content)[1:]
        (file,) = find_files([str(path)])
        try:
            list(split_records(file, [content], ord(",")))
        except DamagedInputError:
            continue
        found = list(format_of(file).read(file, Columns("a"), rules=Rules(skip=True)))
        bad = {rejection.row for block in found for rejection in block.rejected}
        texts = [bytes(piece) for block in found for piece in block.texts.pieces(np.arange(len(block.texts)))]
        good = [fields for fields in wanted if len(fields) == 2]
        assert bad == {row for row, fields in enumerate(wanted) if fields not in good}, content
        assert [text for row, text in enumerate(texts) if row not in bad] == [text for text, _ in good], content
        keep = [draw.random() < 0.5 for _ in texts]
        format_of(file).write_kept(file, np.array(keep, bool), new_file(tmp_path / "kept"))
        assert as_csv_has_it((tmp_path / "kept").read_bytes())[1:] == list(compress(wanted, keep)), content
        keep = [stays and row not in bad for row, stays in enumerate(keep)]
        rows = [row for batch in format_of(file).kept_batches(file, np.array(keep, bool)) for row in batch.to_pylist()]
        decoded = [[field.decode("utf-8", "replace") for field in fields] for fields in compress(wanted, keep)]
        assert [[value or "" for value in row.values()] for row in rows] == decoded, content
        seen += len(wanted)
    assert seen > 100


@pytest.mark.parametrize("packed", PACK)
@pytest.mark.parametrize(("ending", "comma"), [(".csv", b","), (".tsv", b"\t")])
def test_kept_records_are_copied_byte_for_byte(ending: str, comma: bytes, packed: str, tmp_path: Path) -> None:
    first, second, *_ = (page.encode() for page in PAGES)
    records = [
        *(b"\xef\xbb\xbfid,text\r\n", b"1,%s\r\n" % first, b'"2","%s\nof two ""lines"""\n' % second, b"\r\n"),
        *(b"3,%s more\r\n" % first, b'4,"%s of two ""lines"""\n' % second, b"5,\xff\0 it's 5\" long"),
    ]
    records = [record.replace(b",", comma) for record in records]
    path = tmp_path / f"a{ending}.{packed}".rstrip(".")
    path.write_bytes(PACK[packed](b"".join(records)))
    result = run(path, tmp_path / "out", threshold=0.7, id_column="id")
    kept = UNPACK[packed]((tmp_path / "out/data" / path.name).read_bytes())
    assert kept == b"".join(records[n] for n in (0, 1, 2, 6))
    dropped = [(row["row"], row["id"], row["duplicate_of_id"]) for row in evidence(result.output)]
    assert dropped == [(2, "3", "1"), (3, "4", "2")]


def test_an_empty_unquoted_key_is_null(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'n,text\n1,\n2,""\n3,"a b c d e f"\n,"A b c, d e f"\n5.5,a b c d e f\n')
    result = run(tmp_path / "a.csv", tmp_path / "out", keep="n")
    assert (result.funnel["nulls"], result.funnel["empty"]) == (1, 2)
    assert (tmp_path / "out/data/a.csv").read_bytes() == b'n,text\n1,\n2,""\n5.5,a b c d e f\n'


def test_many_columns_take_the_memory_of_their_values(tmp_path: Path) -> None:
    """Each column took the memory and the time of all columns together."""
    columns, path = 200, tmp_path / "a.csv"
    rows = [",".join(f"{row}-{number}" for number in range(columns)) for row in range(500)]
    path.write_text("\n".join([",".join(f"c{number}" for number in range(columns)), *rows]))
    (file,) = find_files([str(path)])
    list(format_of(file).kept_batches(file, np.ones(500, bool)))  # compiles
    tracemalloc.start()
    batches = list(format_of(file).kept_batches(file, np.ones(500, bool)))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [",".join(row.values()) for batch in batches for row in batch.to_pylist()] == rows
    assert most < 20 * path.stat().st_size


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b"text", b"text,b\n"])
def test_files_without_rows_are_copied_or_emptied(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    assert run(tmp_path / "a.csv", tmp_path / "out").funnel["documents"] == 0
    assert (tmp_path / "out/data/a.csv").read_bytes() == (content if b"text" in content else b"")


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b'text,b\n"x\ny",1\nx,1,2\n', DamagedInputError, "a.csv: line 4: has 3 values for 2 columns; put"),
        (b"text,b\rx,1\rx\r", DamagedInputError, "a.csv: line 3: has 1 value for 2 columns"),
        (b'text\nx\n\n"y\nz', DamagedInputError, "a.csv: the record from line 4 on ends within quotes"),
        (b"body,b\nx,1\n", InputError, "has no column 'text'; its columns are: body, b"),
        ("text,b\nx,1\n".encode("utf-16"), InputError, "a.csv: is UTF-16; write it as UTF-8"),
        (b"id;text\n1;x\n", InputError, "has semicolons between its columns; give delimiter=';'"),
        (b"id;text;in EUR, net\n1;x;2\n", InputError, "has semicolons between its columns; give delimiter=';'"),
        (b"text,b,text\nx,1,y\n", InputError, "has 2 columns 'text'; rename all but one"),
        (b'text,n\nx,1\n"y\n",high\n', InputTypeError, "line 3: 'n' is 'high'; keep takes numbers, or dates as 2024"),
        (b"text,n\nx,nan\n", InputError, "line 2: 'n' is NaN"),
    ],
)
def test_bad_files_are_named(content: bytes, error: type[Exception], message: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(error) as raised:
        run(tmp_path / "a.csv", tmp_path / "out", **({"keep": "n"} if b",n" in content else {}))
    assert message in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_bad_records_are_skipped_and_listed(tmp_path: Path) -> None:
    good = [f"{row},{page}\n".encode() for row, page in enumerate(PAGES)]
    content = [
        b"id,text\n",
        good[0],
        good[0][:-1] + b",3\n",
        good[1],
        b"alone\n",
        good[0],
        good[2],
        b'4,"never closed\n',
        good[3],
    ]
    (tmp_path / "a.csv").write_bytes(b"".join(content))
    result = run(tmp_path / "a.csv", tmp_path / "out", on_error="skip", id_column="id")
    assert (tmp_path / "out/data/a.csv").read_bytes() == b"".join([content[0], good[0], good[1], good[2]])
    found = rejected(tmp_path / "out")
    places = [(row["row"], row["rows"], row["unit"], row["offset"]) for row in found]
    assert places == [(1, 1, "line", 3), (3, 1, "line", 5), (6, 0, "row", 6)]
    assert "line 8 on ends within quotes" in found[2]["reason"] and result.funnel["dropped"] == 1


@pytest.mark.parametrize("name", ["a.csv.bz2", "a.csv.gz", "a.json.xz"])
def test_nothing_is_read_after_damage(name: str, tmp_path: Path) -> None:
    pack = PACK[name.rpartition(".")[2]]
    parts = [b"text\n" + PAGES[0].encode() + b"\n", PAGES[1].encode() + b"\n", PAGES[2].encode() + b"\n"]
    if "json" in name:
        parts = [b'[{"text": "%s"}' % page.encode() for page in PAGES[:3]]
        parts = [parts[0] + b",", *(part[1:] + b"," for part in parts[1:])]
    packed = [pack(part) for part in parts]
    packed[1] = packed[1][: len(packed[1]) // 2] + b"noise" + packed[1][len(packed[1]) // 2 :]
    (tmp_path / name).write_bytes(b"".join(packed))
    with pytest.raises(DamagedInputError, match="broken"):
        run(tmp_path / name, tmp_path / "out")
    result = run(tmp_path / name, tmp_path / "out", on_error="skip")
    assert (result.funnel["documents"], result.funnel["rejected"]) == (1, 1)
    content = UNPACK[name.rpartition(".")[2]]((tmp_path / "out/data" / name).read_bytes())
    assert content == parts[0] if "csv" in name else json.loads(content) == [{"text": PAGES[0]}]
