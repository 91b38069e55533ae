"""The demo's own steps: the real texts are all there, and what differs is what is marked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

CI = Path(__file__).parent.parent / "ci"


def step(*arguments: str | Path) -> str:
    ran = subprocess.run([sys.executable, *arguments], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_license_texts_are_read_without_their_front_matter(tmp_path: Path) -> None:
    step(CI / "license_texts.py", tmp_path / "texts.parquet")
    table = pq.read_table(tmp_path / "texts.parquet")
    assert table.schema.names == ["kind", "name", "text"]
    assert len(table) > 30_000
    found = dict(zip(table.column("name").to_pylist(), table.column("text").to_pylist(), strict=True))
    mit = found["mit.LICENSE"].split()
    assert mit[:3] == ["Permission", "is", "hereby"]
    assert "spdx_license_key" not in mit


def test_differing_words_are_marked(tmp_path: Path) -> None:
    common = [f"word{number}" for number in range(40)]
    kept = " ".join([*common[:20], "Kept", "only", *common[20:]])
    dropped = "# " + " ".join([*common[:20], "gone,", *common[20:]]).upper()
    pq.write_table(pa.table({"text": [kept, dropped]}), tmp_path / "texts.parquet")
    row = {"row": 1, "id": "b", "duplicate_of_row": 0, "duplicate_of_id": "a", "similarity": 0.86, "cluster": 0}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "duplicates.parquet")
    shown = step(CI / "show_dropped.py", tmp_path / "texts.parquet", tmp_path / "duplicates.parquet")
    assert "b  has similarity 0.860 with  a" in shown
    text = " ".join(shown.split("with  a")[1].split())
    before, after = " ".join(common[14:20]).upper(), " ".join(common[20:26]).upper()
    assert text == f"... {before} [-GONE,-] {{+Kept only+}} {after} ..."
    assert "\x1b" not in shown
