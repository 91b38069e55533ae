"""The demo reads the real license texts."""

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

ROOT = Path(__file__).parents[2]


def test_the_demo_reads_license_texts_without_their_front_matter(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "ci/license_texts.py", tmp_path / "texts.parquet"], check=True)
    table = pq.read_table(tmp_path / "texts.parquet")
    assert table.schema.names == ["kind", "name", "text"]
    assert len(table) > 30_000
    found = dict(zip(table.column("name").to_pylist(), table.column("text").to_pylist(), strict=True))
    mit = found["mit.LICENSE"].split()
    assert mit[:3] == ["Permission", "is", "hereby"]
    assert "spdx_license_key" not in mit
