"""Runs that end at every change of the disk, again and again, and at random instants: they resume to the same bytes."""

from pathlib import Path
from typing import Any

import pytest

import gpulsh
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
def test_power_cuts_of_passages_with_an_index(
    passage_files: Path, tmp_path: Path, mortals: Mortals, is_first: bool
) -> None:
    power_cuts_with_index(passage_files, tmp_path, mortals, is_first, 40, r"^rename|passages\.json")
