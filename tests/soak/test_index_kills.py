"""Changes of an index, and runs with one, that end at every call and at random instants."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.crash import test_incremental_crash as incremental_crash
from tests.crash import test_index_crash as index_crash
from tests.crash.test_incremental_crash import crawls
from tests.crash.test_index_crash import changes, open_index, unneeded
from tests.support.index_steps import generation, new_index, state, take
from tests.support.mortal import Mortals

KILLS = 50


@pytest.fixture(autouse=True)
def thorough(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"EVERY": 2, "REFUSALS": 100, "WRITES": 1}.items():
        monkeypatch.setattr(index_crash, name, value)


@pytest.mark.parametrize("name", index_crash.CHANGES)
def test_changes_that_end(name: str, changes: dict[str, index_crash.Change], mortals: Mortals, tmp_path: Path) -> None:
    for number, test in enumerate(
        (
            index_crash.test_a_power_cut_between_switches_leaves_before_or_after,
            index_crash.test_a_refused_call_is_told_and_leaves_before_or_after,
        )
    ):
        (tmp_path / str(number)).mkdir()
        test(name, changes, mortals, tmp_path / str(number))


@pytest.mark.parametrize("is_first", [True, False])
def test_runs_with_an_index_that_end(is_first: bool, crawls: Path, mortals: Mortals, tmp_path: Path) -> None:
    for number, test in enumerate(
        (
            incremental_crash.test_a_power_cut_between_switches,
            incremental_crash.test_a_refused_call_is_named_and_the_run_goes_on,
        )
    ):
        (tmp_path / str(number)).mkdir()
        test(is_first, crawls, mortals, tmp_path / str(number))


def test_every_refused_write(tmp_path: Path) -> None:
    index_crash.test_a_refused_write_is_named_and_can_be_tried_again(tmp_path)


def test_killed_at_random_instants_every_command_leaves_before_or_after(
    changes: dict[str, index_crash.Change], mortals: Mortals, tmp_path: Path
) -> None:
    chance = random.Random(7)
    known = {name: index_crash.outcomes(change, mortals, tmp_path / name) for name, change in changes.items()}
    killed = rounds = 0
    for number in range(KILLS):
        name = index_crash.CHANGES[number % len(index_crash.CHANGES)]
        before, after, whole = known[name]
        path = changes[name].begun(tmp_path / str(number))
        with index_crash.Reader(path, before, after) as reader:
            death = changes[name].run(mortals, path, after=chance.uniform(0, whole.seconds))
        assert death.killed or death.status == 0, death.told
        index_crash.finish(changes[name], mortals, path, before, after)
        killed, rounds = killed + death.killed, rounds + reader.rounds
    assert killed > KILLS // 2 and rounds >= KILLS


def test_killed_at_random_instants_with_readers_running(tmp_path: Path) -> None:
    path, chance = tmp_path / "index", random.Random(5)
    shadow = new_index()
    states = [None, state(shadow)]
    kills = met_between = 0
    while kills < KILLS:
        writer = subprocess.Popen(
            [sys.executable, "-m", "tests.support.index_steps", str(path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
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
    assert met_between
    with open_index(path) as index:
        index.compact()
    assert unneeded(path) == set()
