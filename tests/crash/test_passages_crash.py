"""Runs of passages that end at any step or call resume to the same bytes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import gpulsh
from gpulsh.run.passages import documents, find
from gpulsh.store.manifest import Manifest
from tests.crash.test_resume import Ended, results
from tests.support.files import write_rows
from tests.support.mortal import Mortals, spread
from tests.support.runs import SOAK, small_partitions
from tests.support.texts import licences

GIVEN: dict[str, Any] = {"cut": True, "backend": "reference"}
WINDOWS = {"tokens": 10, "whole_lines": True}, ("sample", "meet", "window", "repeat", "mark", "locate")
LINES = {"unit": "line", "max_copies": 2}, ("part", "count", "pick")
BEHIND = ("collect", "list", "cut", "short")


@pytest.fixture
def passage_files(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    texts = [text[:600] for text in licences()[:18]]
    texts += texts[2:5]
    for number in range(3):
        write_rows(folder / f"{number}.jsonl", texts[number::3])
    return folder


@pytest.mark.parametrize("behind", [0, 1] if SOAK else [0])
@pytest.mark.parametrize(("options", "stages"), [WINDOWS, LINES], ids=["windows", "lines"])
def test_a_run_that_ends_at_any_step_resumes(
    passage_files: Path, tmp_path: Path, options: dict[str, Any], stages: tuple[str, ...], behind: int
) -> None:
    """Before the step that is so many behind the first of each stage; the last run's secret is another, which decides
    nothing.
    """
    steps: list[str] = []
    add = Manifest.add
    ends: set[int] = set()

    def ending(self: Manifest, step: str, *made: Any, **how: Any) -> None:
        if len(steps) in ends:
            steps.append(step)
            raise Ended
        add(self, step, *made, **how)
        steps.append(step)

    given = {**GIVEN, **options}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Manifest, "add", ending)
        small_partitions(patch, 2500)
        patch.setattr("gpulsh.budget.MAX_DIGESTS", 500)
        patch.setattr(find, "RUN_WINDOWS", 300)
        patch.setattr(documents, "PLACES_AT_ONCE", 500)
        whole = gpulsh.passages_files(passage_files, tmp_path / "whole", **given)
        wanted, named = results(tmp_path / "whole"), [step.partition("-")[0] for step in steps]
        assert set(stages) <= set(named) and named.count(stages[0]) == 3
        first = {name: named.index(name) for name in (*stages, *BEHIND)}
        for at in sorted({place + behind for place in first.values()} - {0}):
            out = tmp_path / f"at{at}"
            steps.clear()
            ends.add(at)
            with pytest.raises(Ended):
                gpulsh.passages_files(passage_files, out, **given)
            ends.clear()
            steps.clear()
            again = gpulsh.passages_files(passage_files, out, resume=True, **given)
            assert results(out) == wanted and not (out / "_work").exists()
            assert len(steps) == len(named) - at  # finished steps are not repeated
            for part in ("passages", "windows", "frequent", "files"):
                assert again.report[part] == whole.report[part]
            assert again.report["resumed"]


def held_by(index: Path) -> tuple[object, ...]:
    """The content of an index: its runs but for their names, and their samples."""
    if not (index / "passages.json").exists():
        return ()
    runs = json.loads((index / "passages.json").read_bytes().partition(b"\n")[2])["runs"]
    files = [sorted(path.read_bytes() for path in index.glob(f"*-{run.pop('name')}.arrow")) for run in runs]
    return [list(run.pop("files").values()) for run in runs], runs, files


@pytest.mark.parametrize("is_first", [True, False] if SOAK else [False])
def test_a_run_joins_its_index_once(passage_files: Path, tmp_path: Path, mortals: Mortals, is_first: bool) -> None:
    """It has joined the index or not, whatever its results do; resumed, it gives the same and has joined once.

    At every so many switches, around those that put results and the index in place, and at the last.
    """
    late = tmp_path / "late"
    late.mkdir()
    (passage_files / "2.jsonl").rename(late / "2.jsonl")
    before = tmp_path / "before"
    given: dict[str, Any] = {"tokens": 10, "backend": "reference", "threads": 1}
    gpulsh.passages_files(passage_files, before / "out", index=before / "known", **given)

    def begun(path: Path) -> Path:
        path.mkdir()
        if not is_first:
            shutil.copytree(before / "known", path / "known")
        return path

    def run(path: Path, **how: Any) -> Any:
        where = ["-o", str(path / "out"), "--index", str(path / "known")]
        options = ["--tokens", "10", "--cut", "--backend", "reference", "--threads", "1", "--resume"]
        return mortals.run(path, ["passages", str(late), *where, *options], **how)

    path = begun(tmp_path / "whole")
    states = [held_by(path / "known")]
    whole = run(path)
    assert whole.status == 0, whole.stderr
    wanted = results(path / "out")
    states.append(held_by(path / "known"))
    seen = []
    for at in sorted({*spread(whole.calls, 40 if SOAK else 200, r"^rename|passages\.json"), len(whole.calls)}):
        path = begun(tmp_path / str(at))
        assert run(path, at=at).killed
        seen.append(states.index(held_by(path / "known")))
        done = run(path)
        assert done.status == 0, done.stderr
        assert (results(path / "out"), held_by(path / "known")) == (wanted, states[1])
        assert not (path / "out/_work").exists()
        assert len(list((path / "known").iterdir())) == (4 if is_first else 6)
    assert seen == sorted(seen) and set(seen) == {0, 1}
