"""Passages on a Ray cluster: the bytes of a local run, whatever the partitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gpulsh
from gpulsh.budget import Cut
from tests.support.ray_cluster import OPTIONS, cluster, inputs, joined, results
from tests.support.texts import SECRETS

__all__ = ["cluster", "inputs", "joined"]  # fixtures

GIVEN: dict[str, Any] = {**OPTIONS, "cut": True, "id_column": "key"}


WAYS: list[dict[str, Any]] = [
    {"tokens": 8, "bridge": 4},
    {"unit": "line", "max_copies": 1},
    {"passages": 3, "protect": "bench.jsonl"},
]


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_the_bytes_are_those_of_a_local_run(
    joined: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    given = {**GIVEN, **options}
    if "protect" in given:
        given["protect"] = tmp_path / given["protect"]
        given["protect"].write_text(
            '{"key": "q1", "text": "all rights reserved and word 3"}\n{"key": "q2", "text": "page 200 all rights"}\n'
        )
    lines = [{"key": f"z{n}", "text": f"page {n}\nall rights reserved\nand word {n % 7}"} for n in range(300)]
    (inputs / "z.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    local = gpulsh.passages_files(inputs, tmp_path / "local", **given, secret=SECRETS[0])
    small = Cut(partition=20_000, digests=1000, group=5_000, memory=1 << 30)
    monkeypatch.setattr("gpulsh.run.passages.run.cut", lambda memory, sizes: small)
    found = gpulsh.passages_files(inputs, tmp_path / "ray", **given, engine="ray", address=joined)
    assert results(tmp_path / "ray") == results(tmp_path / "local")
    assert found.report["engine"]["name"] == "ray" and local.report["passages"]["passages"] > 50
    for part in ("passages", "windows", "frequent"):
        assert found.report[part] == local.report[part]
    local_cut = gpulsh.cut_files(inputs, tmp_path / "cut", passages=local.passages, **OPTIONS)
    where = {"passages": found.passages, **OPTIONS, "engine": "ray", "address": joined}
    ray_cut = gpulsh.cut_files(inputs, tmp_path / "ray-cut", **where)
    assert results(ray_cut.output) == results(local_cut.output)
