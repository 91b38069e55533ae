"""Each format gives the same decisions for the same rows and keeps the same ones, however the work is cut: also with
ids of all types, bad records, files of one document, and a key that cannot be compared.
"""

import csv
import gzip
import io
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.budget import TaskSizes
from gpulsh.errors import InputError
from gpulsh.io.file import File
from gpulsh.io.files.inputs import find_files
from gpulsh.io.formats.endings import format_of
from gpulsh.run.files import FilesResult
from tests.crash.test_resume import results
from tests.run.test_partitioned import BANDING, MEMORY, SHINGLING, WHOLE, cut_as
from tests.support.files import PACK, record, texts_of, write_rows
from tests.support.runs import evidence, run

DRAW = random.Random(1)
PAGES = [" ".join(DRAW.choices([f"w{i}" for i in range(90)], k=12)) for _ in range(9)]
TEXTS = [DRAW.choice([*PAGES, PAGES[0] + " more", f'{PAGES[1]} "quoted", as such', "!"]) for _ in range(60)]
ROWS: list[dict[str, Any]] = [{"n": number, "text": text} for number, text in enumerate(TEXTS)]


def delimited(comma: str) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=comma).writerows([["n", "text"], *(row.values() for row in ROWS)])
    return out.getvalue().encode()


CONTENTS: dict[str, Callable[[], bytes]] = {
    "a.json": lambda: json.dumps(ROWS).encode(),
    "a.json.gz": lambda: json.dumps(ROWS, indent=2).encode(),
    "a.csv": lambda: delimited(","),
    "a.tsv.xz": lambda: delimited("\t"),
    "a.txt": lambda: "".join(text + "\n" for text in TEXTS).encode(),
    "a.txt.bz2": lambda: "\n".join(TEXTS).encode(),
    "a.wet": lambda: b"".join(record(number, text.encode()) for number, text in enumerate(TEXTS)),
}
COLUMNS = ["row", "duplicate_of_row", "similarity", "cluster"]


KEEP = ["first", "longest", "n"]


@pytest.fixture(scope="module")
def of_json_lines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FilesResult]:
    """The result for each way to choose the kept document."""
    folder = tmp_path_factory.mktemp("lines")
    path = write_rows(folder / "b.jsonl", ROWS)
    return {keep: run(path, folder / keep, keep=keep) for keep in KEEP}


@pytest.mark.parametrize(
    ("name", "keep"),
    [
        *((name, keep) for name in [*CONTENTS, "a.parquet", "a.arrow", "a.arrows"] for keep in KEEP[:2]),
        *((name, "n") for name in ["a.json", "a.json.gz", "a.csv", "a.tsv.xz", "a.parquet", "a.arrow", "a.arrows"]),
    ],
)
def test_every_format_gives_the_results_of_json_lines(
    name: str, keep: str, of_json_lines: dict[str, FilesResult], tmp_path: Path
) -> None:
    path = tmp_path / name
    if name in CONTENTS:
        path.write_bytes(PACK[path.suffix[1:] if path.suffix[1:] in PACK else ""](CONTENTS[name]()))
    else:
        write_rows(path, ROWS, 7)
    wanted, how = of_json_lines[keep], {"keep": keep, "lines": ".txt" in name}
    found = run(path, tmp_path / "out", **how)
    assert {**found.funnel, "seconds": 0} == {**wanted.funnel, "seconds": 0} and found.funnel["dropped"] > 40
    tables = [pq.read_table(result.duplicates).select(COLUMNS) for result in (found, wanted)]
    assert tables[0].equals(tables[1])
    dropped = {row["row"] for row in evidence(wanted.output)}
    kept = [text.encode() for row, text in enumerate(TEXTS) if row not in dropped]
    assert texts_of(tmp_path / "out/data" / name) == kept
    assert run(path, tmp_path / "out", resume=True, **how).report == found.report
    run(path, tmp_path / "evidence", write="duplicates", **how)
    assert pq.read_table(tmp_path / "evidence/duplicates.parquet").equals(pq.read_table(found.duplicates))


@pytest.mark.parametrize(
    "name", ["a.json", "a.json.gz", "a.csv", "a.tsv.xz", "a.wet", "a.parquet", "a.arrow", "a.arrows"]
)
def test_all_values_of_a_column_come_in_runs_of_one_reading(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name in CONTENTS:
        path.write_bytes(PACK[path.suffix[1:] if path.suffix[1:] in PACK else ""](CONTENTS[name]()))
    else:
        write_rows(path, ROWS, 7)
    (file,), column = find_files([str(path)]), "WARC-Record-ID" if name == "a.wet" else "n"
    whole = format_of(file).values(file, column, np.arange(60)).to_pylist()
    with (
        mock.patch.object(File, "open", autospec=True, side_effect=File.open) as opened,
        mock.patch.object(File, "open_arrow", autospec=True, side_effect=File.open_arrow) as opened_by_arrow,
    ):
        runs = list(format_of(file).value_runs(file, column, [5] * 12))
    assert [value for run in runs for value in run.to_pylist()] == whole and len(set(whole)) == 60
    assert opened.call_count == (name in CONTENTS)
    if name != "a.parquet":  # it finds rows without those before
        assert opened.call_count + opened_by_arrow.call_count == 1


# --- however the work is cut ---


CUTS = [
    TaskSizes(memory=MEMORY, partition=1, digests=90, group=1),
    TaskSizes(memory=MEMORY, partition=600, digests=200, group=3000),
    TaskSizes(memory=MEMORY, partition=1 << 40, digests=90, group=1 << 40),
]


def pages(count: int, seed: int) -> list[str | None]:
    """Near-copies and copies of a few pages, with empty and null texts among them."""
    source = random.Random(seed)
    words = [f"word{number}" for number in range(40)]
    known = [source.choices(words, k=20) for _ in range(6)]
    texts: list[str | None] = []
    for _ in range(count):
        page = [word if source.random() > 0.03 else "other" for word in source.choice(known)]
        texts.append(source.choice([" ".join(page)] * 8 + ["", None, "漢字 " * 9]))
    return texts


def write_zoo(folder: Path, ids: dict[str, list[Any]]) -> None:
    for name, own in ids.items():
        texts = pa.array(pages(len(own), len(name)), pa.large_string())
        if "jsonl" in name:
            rows: Any = [{"text": text, "id": given} for text, given in zip(texts.to_pylist(), own, strict=True)]
        else:
            rows = pa.table({"text": texts.dictionary_encode() if ".parquet" in name else texts, "id": own})
        write_rows(folder / name, rows, 3)


def assert_one_result(given: Path, folder: Path, **options: Any) -> Path:
    """Check that all cuts give one result; returns its folder."""
    options = {"backend": "cpu", "threads": 2, "shingling": SHINGLING, **BANDING, **options}
    with cut_as(WHOLE, run=1 << 22):
        gpulsh.deduplicate_files(given, folder / "whole", **options)
    wanted = results(folder / "whole")
    for number, cut in enumerate(CUTS):
        with cut_as(cut):
            gpulsh.deduplicate_files(given, folder / f"cut{number}", **options)
        assert results(folder / f"cut{number}") == wanted, cut
    return folder / "whole"


def test_ids_of_all_types_depend_on_no_cut(tmp_path: Path) -> None:
    """They are written as JSON, however few of them a task sees."""
    numbers = list(range(14))
    other = [[number, f"id{number}", None, 1.5, True, [1], {"of": 1}][number % 7] for number in numbers]
    ids = dict.fromkeys(("a.parquet", "b.jsonl", "d.jsonl.zst", "e.arrow", "f.arrows"), numbers)
    write_zoo(tmp_path / "in", {**ids, "c.jsonl.gz": other, "g.jsonl": other[::-1], "h.jsonl": []})
    out = assert_one_result(tmp_path / "in", tmp_path, id_column="id")
    found = pq.read_table(out / "duplicates.parquet")
    assert found.schema.field("id").type == pa.string() == found.schema.field("duplicate_of_id").type
    assert len(found) > 35


def test_skipped_bad_records_depend_on_no_cut(tmp_path: Path) -> None:
    ids = list(range(15))
    write_zoo(tmp_path / "in", {"a.parquet": ids, "b.jsonl": ids, "c.jsonl": ids, "d.arrow": ids})
    given = (tmp_path / "in/c.jsonl").read_bytes().splitlines(keepends=True)
    given[3:3] = [b"{no record\n", b'{"text": 5}\n']
    (tmp_path / "in/c.jsonl").write_bytes(b"".join([*given, b'{"text": "cut sho']))
    (tmp_path / "in/e.jsonl.gz").write_bytes(gzip.compress(b"".join(given * 40))[:200])
    out = assert_one_result(tmp_path / "in", tmp_path, on_error="skip")
    assert len(pq.read_table(out / "rejected.parquet")) >= 4


def test_files_of_one_document_depend_on_no_cut(tmp_path: Path) -> None:
    (tmp_path / "in/of/texts").mkdir(parents=True)
    for number, text in enumerate(pages(40, 3)):
        (tmp_path / f"in/of/texts/{number:02d}.txt").write_text(text or "")
    out = assert_one_result(tmp_path / "in", tmp_path)
    dropped = pq.read_table(out / "duplicates.parquet")
    assert len(list((out / "data").rglob("*.txt"))) == 40 - len(dropped) < 40


@pytest.mark.parametrize(("cut", "row"), [(WHOLE, 0), (CUTS[0], 4), (CUTS[1], 11), (CUTS[2], 19)])
def test_a_nan_key_is_named_by_its_row(tmp_path: Path, cut: TaskSizes, row: int) -> None:
    """The row counts from the beginning of the file, whichever part of it a task reads."""
    table = pa.table({"text": pages(20, 1), "key": [1.0] * 20})
    write_rows(tmp_path / "in/a.parquet", table, 3)
    keys = [math.nan if number == row else 2.0 for number in range(20)]
    path = write_rows(tmp_path / "in/b.parquet", table.set_column(1, "key", [keys]), 4)
    with cut_as(cut), pytest.raises(InputError) as caught:
        gpulsh.deduplicate_files(tmp_path / "in", tmp_path / "out", keep="key", backend="cpu", threads=1)
    assert str(caught.value) == f"{path}: row {row}: column 'key' is NaN; make it a number, or null to be kept last"
    assert not (tmp_path / "out").exists()
