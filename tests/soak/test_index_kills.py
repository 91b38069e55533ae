"""Changes of an index, and runs with one, that end at every call and at random instants."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import settings

from tests.crash import test_index_crash as index_crash
from tests.crash.test_index_crash import changes, crawls
from tests.index import test_contents, test_measures, test_threads
from tests.support.mortal import Mortals

KILLS = 50


@pytest.fixture(autouse=True)
def thorough(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"EVERY": 2, "REFUSALS": 100, "WRITES": 1}.items():
        monkeypatch.setattr(index_crash, name, value)


@pytest.mark.parametrize("name", index_crash.CHANGES)
def test_changes_that_end(name: str, changes: dict[str, index_crash.Change], mortals: Mortals, tmp_path: Path) -> None:
    for place, test in (
        ("cut", index_crash.test_a_power_cut_between_switches_leaves_before_or_after),
        ("refused", index_crash.test_a_refused_call_is_told_and_leaves_before_or_after),
    ):
        (tmp_path / place).mkdir()
        test(name, changes, mortals, tmp_path / place)


@pytest.mark.parametrize("is_first", [True, False])
def test_runs_with_an_index_that_end(is_first: bool, crawls: Path, mortals: Mortals, tmp_path: Path) -> None:
    for place, test in (
        ("cut", index_crash.test_a_power_cut_of_a_run),
        ("refused", index_crash.test_a_refused_call_is_named_and_the_run_goes_on),
    ):
        (tmp_path / place).mkdir()
        test(is_first, crawls, mortals, tmp_path / place)


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


# --- the state machines of tests/index with many more examples ---


class Contents(test_contents.Machine):
    """Any sequence of verbs."""


class Threads(test_threads.Machine):
    """Any sequence of verbs, on several threads."""


class Containment(test_measures.ContainmentMachine):
    """Any sequence of verbs, by containment."""


Contents.TestCase.settings = settings(max_examples=80, stateful_step_count=20, deadline=None)
Threads.TestCase.settings = settings(max_examples=80, stateful_step_count=8, deadline=None)
Containment.TestCase.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)
TestContents = Contents.TestCase
TestThreads = Threads.TestCase
TestContainment = Containment.TestCase
