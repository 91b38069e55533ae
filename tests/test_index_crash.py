"""After a crash at any instant the index is as before a commit or after it; damage and refused writes are told."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from gpulsh import Index
from gpulsh.errors import InputError, OutputError
from gpulsh.index import storage
from gpulsh.store.snapshots import KNOWN_FILES, LOCK, read_snapshot
from tests.index_steps import ASKED, BACKEND, generation, new_index, state, take

CALLS = ("fsync", "replace", "unlink")


class PowerCut(BaseException):
    """From here on nothing reaches the disk."""


@contextmanager
def failing(at: int, error: Callable[[], BaseException], *, for_good: bool) -> Iterator[list[int]]:
    """Call number `at` of fsync, rename or unlink fails before it does anything, and `for_good` each one after it."""
    count = [0]

    def wrapped(real: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            count[0] += 1
            if count[0] == at or (for_good and count[0] > at):
                raise error()
            return real(*given, **named)

        return call

    with mock.patch.multiple(os, **{name: wrapped(getattr(os, name)) for name in CALLS}):
        yield count


def lived(path: Path, steps: int) -> dict[int, Any]:
    """An index of so many steps at `path`; its state by generation, from 1 to one step beyond."""
    index, shadow = new_index(), new_index()
    index.save(path)
    states = {1: state(shadow)}
    for step in range(steps + 1):
        if step < steps:
            take(index, step)
            index.save()
        take(shadow, step)
        states[step + 2] = state(shadow)
    assert len({json.dumps(one) for one in states.values()}) == len(states)
    index.close()
    return states


def open_index(path: Path) -> Index:
    return Index.open(path, backend=BACKEND)


def unneeded(path: Path) -> set[str]:
    return set(os.listdir(path)) - set(read_snapshot(path).files()) - {"index.json", LOCK}


@pytest.mark.parametrize("steps", [2, 3])  # the next step removes, or compacts
@pytest.mark.parametrize("spill", [128 << 20, 100])
def test_a_power_cut_at_any_write_leaves_before_or_after(tmp_path: Path, steps: int, spill: int) -> None:
    states = lived(tmp_path / "begun", steps)
    seen, at = set(), 0
    with mock.patch.object(storage, "SPILL_BYTES", spill):
        while True:
            at += 1
            path = tmp_path / str(at)
            shutil.copytree(tmp_path / "begun", path)
            index = open_index(path)
            try:
                with failing(at, PowerCut, for_good=True) as count:
                    take(index, steps)
                    index.save()
            except PowerCut:
                pass
            index.close()
            after = open_index(path)
            assert state(after) == states[generation(after)]
            seen.add(generation(after))
            if generation(after) == steps + 1:
                take(after, steps)
                after.save()
            assert state(after) == states[steps + 2]
            after.compact()
            assert unneeded(path) == set() and state(open_index(path)) == states[steps + 2]
            after.close()
            if count[0] < at:
                break
    assert seen == {steps + 1, steps + 2} and at > 10


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_a_refused_write_is_told_and_can_be_tried_again(tmp_path: Path, number: int) -> None:
    states = lived(tmp_path / "begun", 3)
    at, refused = 0, 0
    while True:
        at += 1
        path = tmp_path / str(at)
        shutil.copytree(tmp_path / "begun", path)
        index = open_index(path)
        count = [at]
        try:
            with failing(at, lambda: OSError(number, os.strerror(number)), for_good=False) as count:
                take(index, 3)
                index.save()
        except OutputError as error:
            refused += 1
            assert os.strerror(number) in str(error) and str(path) in str(error)
            assert state(open_index(path)) in (states[4], states[5])
        index.save()
        assert state(index) == state(open_index(path)) == states[5]
        index.close()
        if count[0] < at:
            break
    assert refused > 10


def test_killed_at_random_instants_with_readers_running(tmp_path: Path) -> None:
    path, chance = tmp_path / "index", random.Random(5)
    shadow = new_index()
    states = [None, state(shadow)]
    kills = met_between = 0
    while kills < 12:
        writer = subprocess.Popen(
            [sys.executable, "-m", "tests.index_steps", str(path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        assert writer.stdout is not None
        told = int(writer.stdout.readline())  # it is at work
        end = time.monotonic() + chance.uniform(0, 0.2)
        while time.monotonic() < end:
            reader = open_index(path)
            before = state(reader)
            while len(states) <= generation(reader):
                take(shadow, len(states) - 2)
                states.append(state(shadow))
            assert before == states[generation(reader)]
            met_between += 1
        writer.kill()
        rest = writer.stdout.read().split()
        writer.wait()
        told = int(rest[-1]) if rest else told
        found = open_index(path)
        assert generation(found) in (told, told + 1)
        while len(states) <= generation(found):
            take(shadow, len(states) - 2)
            states.append(state(shadow))
        assert state(found) == states[generation(found)]
        kills += 1
    assert met_between > 12
    with open_index(path) as index:
        index.compact()
    assert unneeded(path) == set()


def test_damage_is_named(tmp_path: Path) -> None:
    lived(tmp_path / "begun", 3)
    names = sorted(name for name in os.listdir(tmp_path / "begun") if name != LOCK)
    needed = set(read_snapshot(tmp_path / "begun").files()) | {"index.json"}
    assert needed <= set(names) and all(name == "index.json" or KNOWN_FILES.fullmatch(name) for name in names)
    for name in sorted(needed):
        whole = (tmp_path / "begun" / name).read_bytes()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 4
        for content in (bytes(flipped), whole[: len(whole) // 2], b"", None):
            path = tmp_path / "damaged"
            shutil.copytree(tmp_path / "begun", path)
            if content is None:
                (path / name).unlink()
            else:
                (path / name).write_bytes(content)
            with pytest.raises(InputError) as told:
                open_index(path)
            assert (name in str(told.value)) or (content is None and name == "index.json")
            shutil.rmtree(path)
    with pytest.raises(InputError, match="is no index"):
        open_index(tmp_path / "nothing")


def test_another_version_is_told(tmp_path: Path) -> None:
    from gpulsh.store import snapshots

    with mock.patch.object(snapshots, "FORMAT", 99):
        lived(tmp_path / "i", 1)
    with pytest.raises(InputError, match=r"is an index of format 99, written by gpulsh .*reads format 1"):
        open_index(tmp_path / "i")


def test_readers_outlive_a_compaction(tmp_path: Path) -> None:
    lived(tmp_path / "i", 2)
    reader, writer = open_index(tmp_path / "i"), open_index(tmp_path / "i")
    before = state(reader)
    writer.remove(writer.query(ASKED).keys.tolist()[:1])
    writer.compact()
    assert state(reader) == before != state(writer)
    writer.close()


def test_what_was_not_saved_is_not_lost_silently(tmp_path: Path) -> None:
    lived(tmp_path / "i", 1)
    first, second = open_index(tmp_path / "i"), open_index(tmp_path / "i")
    first.insert(["a"], ["one"])
    first.close()
    second.insert(["b"], ["two"])
    second.save()
    second.close()
    for _ in range(2):
        with pytest.raises(OutputError, match="written to by another"):
            first.insert(["c"], ["three"])
    second.insert(["c"], ["three"])
    assert "a" in first and "a" not in second
    second.close()
