"""Each format gives the same decisions for the same rows, and keeps the same ones."""

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gpulsh.run.files import FilesResult
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
    """The result for each way to choose what is kept."""
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
def test_results_are_those_of_json_lines(
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
