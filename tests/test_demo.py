"""The demo's own step: the real texts are all there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
