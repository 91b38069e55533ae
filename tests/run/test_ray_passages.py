"""Passages on a Ray cluster: the bytes of a local run, whatever the partitions."""

from __future__ import annotations

import json
import shutil
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


def test_an_index_of_runs_here_and_on_a_cluster(
    joined: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [{"key": f"z{n}", "text": f"page {n}\nall rights reserved\nand word {n % 7}"} for n in range(200)]
    for name, some in (("first", lines[:150]), ("last", lines[50:])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
    (inputs / "z.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines[100:]))
    given = {**GIVEN, "tokens": 4}
    here, there = {"index": tmp_path / "here"}, {"index": tmp_path / "there", "engine": "ray", "address": joined}
    gpulsh.passages_files(tmp_path / "first.jsonl", tmp_path / "first", **given, **here)
    shutil.copytree(here["index"], tmp_path / "there")
    local = gpulsh.passages_files(inputs, tmp_path / "local", **given, **here)
    small = Cut(partition=20_000, digests=1000, group=5_000, memory=1 << 30)
    with monkeypatch.context() as patch:
        patch.setattr("gpulsh.run.passages.run.cut", lambda memory, sizes: small)
        remote = gpulsh.passages_files(inputs, tmp_path / "ray", **given, **there)
    assert results(remote.output) == results(local.output) and local.report["passages"]["first_earlier"] > 50
    for part in ("passages", "windows", "frequent"):
        assert remote.report[part] == local.report[part]
    last = [
        gpulsh.passages_files(tmp_path / "last.jsonl", tmp_path / f"last-{path.name}", **given, index=path)
        for path in (tmp_path / "here", tmp_path / "there")
    ]
    assert results(last[0].output) == results(last[1].output)
