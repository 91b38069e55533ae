"""The benchmark of what the host does beside a device, at tiny sizes."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from benchmarks.gpu import host_costs


@pytest.mark.parametrize("size", [2700, 100])
def test_every_cost_is_checked_and_measured(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_costs, "MANY", 1)
    monkeypatch.setattr(host_costs, "BATCH", 20 * size)
    rows = host_costs.measured("some", size, 90, 3, tmp_path)
    assert [row["cost"] for row in rows] == ["gather", "copies", "order", "together"]
    for row in rows:
        assert row["alone ns"] >= 0 and row["all ns"] > 0 and row["ceiling GB/s"] > 0
    assert rows[-1]["all ns"] == pytest.approx(sum(row["all ns"] for row in rows[:-1]), abs=0.5)
    assert rows[-1]["ceiling GB/s"] <= min(row["ceiling GB/s"] for row in rows[:-1])


def test_the_share_alone_tells_what_holds_the_lock() -> None:
    def held() -> None:
        end = time.perf_counter() + 0.05
        while time.perf_counter() < end:
            pass

    waiting = host_costs._share_alone(lambda: threading.Event().wait(0.05))
    assert host_costs._share_alone(held) > 1.5 * waiting  # by far, but others run on this machine, too
