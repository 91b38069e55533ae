"""Files that become durable together: all of them are there, or none; what was not written is not missed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpulsh.store.durable import Together, fact_of


def test_all_are_synced_before_any_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    replace, fsync = os.replace, os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("replace"), replace(*names)))
    with Together() as files:
        for number in range(20):
            part = files.part(f"{tmp_path}/step-{number}", f"{tmp_path}/{number}.txt")
            if number != 7:
                Path(part).write_bytes(b"x" * number)
        facts = files.complete()
    assert done == ["fsync"] * 19 + ["replace"] * 19
    assert facts == {str(path): fact_of(path) for path in tmp_path.iterdir()} and len(facts) == 19


def test_an_attempt_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no more"), Together() as files:
        Path(files.part(f"{tmp_path}/a", f"{tmp_path}/a.txt")).write_bytes(b"x")
        raise ValueError("no more")
    assert list(tmp_path.iterdir()) == []
