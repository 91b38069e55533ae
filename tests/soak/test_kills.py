"""Runs, and changes of an index, that are killed again and again resume to the same results."""

import random
from pathlib import Path

import pytest

import gpulsh
from tests.crash import test_index_crash as index_crash
from tests.crash.test_index_crash import changes, crawls
from tests.crash.test_resume import CHANGES, OPTIONS, Ended, fail_at, results, small_inputs, whole_results
from tests.support.mortal import Mortals


@pytest.mark.parametrize("changes", [12, 23])
def test_a_run_killed_repeatedly_gives_the_same_results(small_inputs: Path, tmp_path: Path, changes: int) -> None:
    """Each attempt makes some more calls and is killed; finished steps are not repeated."""
    wanted, out, killed = whole_results(small_inputs, tmp_path), tmp_path / "out", 0
    while True:
        try:
            with pytest.MonkeyPatch.context() as patch:
                fail_at(patch, changes, Ended(), CHANGES, lasting=True)
                gpulsh.deduplicate_files(small_inputs, out, resume=True, **OPTIONS)
            break
        except Ended:
            killed += 1
            assert killed < 100
    assert killed > 5 and results(out) == wanted and not (out / "_work").exists()


KILLS = 50


def test_commands_killed_at_random_leave_before_or_after(
    changes: dict[str, index_crash.Change], mortals: Mortals, tmp_path: Path
) -> None:
    chance = random.Random(7)
    known = {name: index_crash.outcomes(change, mortals, tmp_path / name) for name, change in changes.items()}
    killed = rounds = 0
    for number in range(KILLS):
        name = index_crash.CHANGES[number % len(index_crash.CHANGES)]
        before, wanted, whole = known[name]
        path = changes[name].begun(tmp_path / str(number))
        with index_crash.Reader(path / "known", before, wanted[0]) as reader:
            death = changes[name].run(mortals, path, after=chance.uniform(0, whole.seconds))
        assert death.killed or death.status == 0, death.stderr
        index_crash.finish(changes[name], mortals, path, before, wanted)
        killed, rounds = killed + death.killed, rounds + reader.rounds
    assert killed > KILLS // 2 and rounds >= KILLS
