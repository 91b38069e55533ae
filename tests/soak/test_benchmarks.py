"""The benchmarks' own parts: measuring from outside, judging decisions, the race's page, costs of the host."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from benchmarks.cases import host_costs as deduplicated
from benchmarks.corpora.respelled import respelled
from benchmarks.gpu import host_costs, staging
from benchmarks.race import page
from benchmarks.race.__main__ import Heat, Race
from benchmarks.race.course import course
from benchmarks.race.process import measure
from gpulsh.stats.stages import MEMORY_STAGES

MEGABYTES = 60
# Its child works and stays behind when it ends; both have memory of their own.
BUSY = f"""
import subprocess, sys, time
took = bytearray({MEGABYTES} << 20)
for place in range(0, len(took), 4096):
    took[place] = 1
open("written", "wb").write(bytes(1 << 20))
child = "import time; a = time.process_time()\\nwhile time.process_time() < a + 0.3: pass"
subprocess.Popen([sys.executable, "-S", "-c", child])
time.sleep(0.1)
"""
# A library that keeps every third row, or fails on request.
LIBRARY = """
import sys
import numpy as np
if sys.argv[1] == "broken":
    sys.exit("no such thing")
np.save(sys.argv[3] + "/keep.npy", np.arange(9) % 3 == 0)
"""


def test_a_command_is_measured_with_its_children(tmp_path: Path) -> None:
    taken = measure([sys.executable, "-S", "-c", BUSY], tmp_path, 1, 30)
    assert taken.failed is None
    assert taken.cpu_seconds >= 0.3  # of the child that the command did not wait for
    assert MEGABYTES << 20 <= taken.memory < (MEGABYTES + 60) << 20
    assert 1 << 20 <= taken.disk < 2 << 20


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    taken = measure([sys.executable, "-S", "-c", "import time; time.sleep(30)"], tmp_path, 1, 0.2)
    assert taken.failed == "not finished in 0.2 s" and taken.seconds < 20


def test_the_race_judges_the_documents_each_library_keeps(tmp_path: Path) -> None:
    texts = [f"document number {row}" for row in range(9)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "corpus.parquet")
    # Of the dropped 1, 2, 4, 5, 7, 8: 1 and 4 have a duplicate that stays, 7 and 8 each other, 2 and 5 none.
    pairs = {"i": [0, 3, 7, 0, 2], "j": [1, 4, 8, 3, 5], "jaccard": [0.9, 0.8, 1.0, 0.95, 0.6]}
    pq.write_table(pa.table(pairs), tmp_path / "pairs.parquet")
    made = course(tmp_path / "corpus.parquet", tmp_path / "pairs.parquet", 9, tmp_path, print)
    assert pq.read_table(made.inputs)["id"].to_pylist() == [str(row) for row in range(9)]

    (tmp_path / "library.py").write_text(LIBRARY)
    race = Race(["good", "broken"], tmp_path, 30, (sys.executable, str(tmp_path / "library.py")))
    good, broken = race.run(Heat(made, 0.8, 1, 2))
    assert broken["failed"] == "no such thing" and len(broken["rounds"]) == 1
    assert race.out == {"broken": "not run: no such thing with 9 documents at 0.8, cores: 1"}
    row = page.summary(good)
    assert len(good["rounds"]) == 2 and row["dropped"] == 6
    assert (row["precision"], row["recall"], row["kept duplicate"]) == pytest.approx((4 / 6, 3 / 4, 2 / 6), abs=1e-5)


def test_host_costs_of_a_decision_are_measured() -> None:
    texts = deduplicated.made(3000, 14)
    decision, seconds = deduplicated.costs(texts)
    assert decision == gpulsh.deduplicate(texts, threshold=deduplicated.THRESHOLD, backend="cpu")
    assert decision.funnel.exact_copies and decision.funnel.near_duplicates
    assert list(seconds) == list(MEMORY_STAGES) and all(0 < value < 5 for value in seconds.values())


@pytest.mark.parametrize("size", [2700, 100])
def test_host_costs_of_text_are_measured(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_costs, "MANY", 1)
    monkeypatch.setattr(host_costs, "BATCH", 20 * size)
    rows = host_costs.measured("some", size, 90, 3, tmp_path)
    assert [row["cost"] for row in rows] == ["gather", "copies", "order", "together"]
    for row in rows:
        assert row["alone ns"] >= 0 and row["all ns"] > 0 and row["ceiling GB/s"] > 0
    assert rows[-1]["all ns"] == pytest.approx(sum(row["all ns"] for row in rows[:-1]), abs=0.5)
    assert rows[-1]["ceiling GB/s"] <= min(row["ceiling GB/s"] for row in rows[:-1])


def test_staging_is_measured_for_all_kinds() -> None:
    found = staging.measured(30_000)
    assert len(found) == 4 * len(staging.KINDS) and min(found.values()) > 0


# --- the demo reads the real license texts ---


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
