"""Runs that end at every change of the disk, again and again, and at random instants: they resume to the same bytes."""

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import gpulsh
from tests.crash import test_index_crash as index_crash
from tests.crash.test_index_crash import changes, crawls
from tests.crash.test_io_errors import MORE_FAILURES, MORE_STAGES, fail_and_go_on, given, lose_input_and_go_on, wanted
from tests.crash.test_passages_crash import (
    LINES,
    WINDOWS,
    end_after_steps,
    passage_files,
    power_cuts_with_index,
)
from tests.crash.test_resume import (
    CHANGES,
    OPTIONS,
    Ended,
    ends_at,
    inputs,
    kill_at_changes,
    kill_at_random_instants,
    kill_while_replacing,
    pages,
    power_cuts,
    results,
    small,
    whole,
)
from tests.index import test_contents, test_measures, test_threads
from tests.support.mortal import Mortals


def test_a_kill_at_every_change_of_the_disk(small: Path, tmp_path: Path) -> None:
    kill_at_changes(small, tmp_path, 1, "never")


def test_a_kill_at_every_third_change_while_results_replace_earlier_ones(small: Path, tmp_path: Path) -> None:
    kill_while_replacing(small, tmp_path, "", CHANGES[1:], 3)


def test_fifty_processes_that_are_killed(inputs: Path, tmp_path: Path) -> None:
    kill_at_random_instants(inputs, tmp_path, 50)


def test_power_cuts_between_switches(pages: Path, mortals: Mortals, tmp_path: Path) -> None:
    power_cuts(pages, mortals, tmp_path, 3, r"^rename|^rmdir|^fsync data")


@pytest.mark.parametrize("changes", [12, 23])
def test_kills_again_and_again(small: Path, tmp_path: Path, changes: int) -> None:
    """Each run does so much more to the disk and is killed; what was done is not done again."""
    wanted, out, killed = whole(small, tmp_path), tmp_path / "out", 0
    while True:
        try:
            with pytest.MonkeyPatch.context() as patch:
                ends_at(patch, changes, Ended(), CHANGES, lasting=True)
                gpulsh.deduplicate_files(small, out, resume=True, **OPTIONS)
            break
        except Ended:
            killed += 1
            assert killed < 100
    assert killed > 5 and results(out) == wanted and not (out / "_work").exists()


@pytest.mark.parametrize(("what", "name", "number"), MORE_FAILURES)
def test_a_failure_is_named_and_the_run_goes_on(
    given: Path, wanted: dict[str, bytes], tmp_path: Path, what: str, name: str, number: int
) -> None:
    fail_and_go_on(given, wanted, tmp_path, what, name, number)


@pytest.mark.parametrize(("stage", "name", "number"), MORE_STAGES)
def test_an_input_that_cannot_be_read_any_more(
    given: Path, wanted: dict[str, bytes], tmp_path: Path, stage: str, name: str, number: int
) -> None:
    lose_input_and_go_on(given, wanted, tmp_path, stage, name, number)


@pytest.mark.parametrize(("options", "stages"), [WINDOWS, LINES], ids=["windows", "lines"])
def test_passages_end_behind_the_first_step_of_each_stage(
    passage_files: Path, tmp_path: Path, options: dict[str, Any], stages: tuple[str, ...]
) -> None:
    end_after_steps(passage_files, tmp_path, options, stages, behind=1)


@pytest.mark.parametrize("is_first", [True, False])
def test_power_cuts_of_indexed_passages(passage_files: Path, tmp_path: Path, mortals: Mortals, is_first: bool) -> None:
    power_cuts_with_index(passage_files, tmp_path, mortals, is_first, 40, r"^rename|passages\.json")


# --- changes of an index, and runs with one, that end at every call and at random instants ---


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
        ("refused", index_crash.test_a_refused_call_in_a_run_is_named),
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
