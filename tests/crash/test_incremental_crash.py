"""A run with an index that ends at any instant, in either folder, goes on: the same results, and one commit."""

import errno
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import gpulsh
from gpulsh.cli import main
from gpulsh.errors import OutputError
from tests.crash import test_index_crash as index_crash
from tests.crash.test_index_crash import Reader, newest, told
from tests.crash.test_resume import results
from tests.support.files import write_rows
from tests.support.index_steps import BACKEND
from tests.support.mortal import Death, Mortals, spread
from tests.support.runs import interrupted

SHAPE = ["--threshold", "0.5", "--shingle", "word:2", "--num-perm", "16", "--bands", "8", "--rows", "2"]
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two crawls that repeat one another, and the index of the first."""
    folder = tmp_path_factory.mktemp("crawls")
    for name, start in (("old", 0), ("new", 4)):
        texts = [" ".join(f"w{(start + k * 3 + i) % 50}" for i in range(12)) for k in range(8)]
        for place, part in enumerate(([*texts[:5], texts[1]], [*texts[5:], texts[2], ""])):
            write_rows(folder / name / f"{place}.jsonl", part)
    assert main(arguments(folder / "first", folder / "old")[:-1]) == 0
    return folder


def arguments(path: Path, crawl: Path, keep: str = "first") -> list[str]:
    """The command with OUT and the index in the folder `path`."""
    given = ["dedup", str(crawl), "-o", str(path / "out"), "--index", str(path / "known"), "--keep", keep]
    # On one thread: nothing else goes on, or fails, while a kill takes back what was not durable.
    return [*given, *SHAPE, "--backend", BACKEND, "--threads", "1", "--resume"]


def begun(crawls: Path, path: Path, is_first: bool) -> Path:
    """A fresh folder to run in, with the index of the first crawl, or with none."""
    path.mkdir()
    if not is_first:
        shutil.copytree(crawls / "first/known", path / "known")
    return path


def run(mortals: Mortals, crawls: Path, path: Path, is_first: bool, **how: Any) -> Death:
    # From 100 bytes on a segment is written, so that commits have files of earlier ones.
    return mortals.run(path, arguments(path, crawls / ("old" if is_first else "new")), spill=100, **how)


def finish(mortals: Mortals, crawls: Path, path: Path, is_first: bool, wanted: Any) -> bool:
    """The run goes on to its end; says whether the index had taken its documents in before."""
    was_done = told(newest(path / "known")) == wanted[1]
    again = run(mortals, crawls, path, is_first)
    assert again.status == 0, again.told
    assert (results(path / "out"), told(newest(path / "known"))) == (wanted[0], wanted[1])
    assert not (path / "out/_work").exists()
    return was_done


@pytest.mark.parametrize("is_first", [False])
def test_a_power_cut_between_switches(is_first: bool, crawls: Path, mortals: Mortals, tmp_path: Path) -> None:
    """At every so many, at each around the commit of the index, and at the last."""
    path = begun(crawls, tmp_path / "whole", is_first)
    before = told(newest(path / "known"))
    whole = run(mortals, crawls, path, is_first)
    assert whole.status == 0 and len(whole.calls) > 60, whole.told
    wanted = results(path / "out"), told(newest(path / "known"))
    was_done = []
    for at in sorted({*spread(whole.calls, index_crash.EVERY, r"index\.json"), len(whole.calls)}):
        path = begun(crawls, tmp_path / str(at), is_first)
        with Reader(path / "known", before, wanted[1]) as reader:
            assert run(mortals, crawls, path, is_first, at=at).killed
        assert reader.rounds
        was_done.append(finish(mortals, crawls, path, is_first, wanted))
    assert was_done == sorted(was_done) and set(was_done) == {False, True}


@pytest.mark.parametrize("is_first", [False])
def test_a_refused_call_is_named_and_the_run_goes_on(
    is_first: bool, crawls: Path, mortals: Mortals, tmp_path: Path
) -> None:
    path = begun(crawls, tmp_path / "whole", is_first)
    calls = run(mortals, crawls, path, is_first, error=errno.EIO).calls
    wanted = results(path / "out"), told(newest(path / "known"))
    refused = 0
    for at in sorted(random.Random(is_first).sample(range(1, len(calls) + 1), min(len(calls), index_crash.REFUSALS))):
        path = begun(crawls, tmp_path / str(at), is_first)
        death = run(mortals, crawls, path, is_first, at=at, error=ERRORS[at % len(ERRORS)])
        assert death.status in (0, 1), death.told
        assert death.status == 0 or death.told.splitlines()[-1].startswith("gpulsh: error: ")
        refused += death.status
        finish(mortals, crawls, path, is_first, wanted)
    assert refused


@pytest.mark.parametrize("keep", ["first", "longest"])
def test_damaged_decisions_are_read_from_the_index(
    keep: str, crawls: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole, path = (begun(crawls, tmp_path / name, False) for name in ("whole", "cut"))
    assert main(arguments(whole, crawls / "new", keep)) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.run.driver.evidence", interrupted)
        assert main(arguments(path, crawls / "new", keep)) == 130
    after = told(newest(path / "known"))
    assert after == told(newest(whole / "known"))
    names = ("collect-000000-decisions.arrow", "collect-000000-earlier.arrow", "sign-000000-documents.arrow")
    for name in names:
        file = path / "out/_work" / name
        file.write_bytes(file.read_bytes()[:-9])
        (path / "out/_work/data/0.jsonl").unlink(missing_ok=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gpulsh.run.driver.evidence", interrupted)
            assert main(arguments(path, crawls / "new", keep)) == 130
        assert f"{name} is missing or damaged" in caplog.text
    assert main(arguments(path, crawls / "new", keep)) == 0
    assert results(path / "out") == results(whole / "out") and told(newest(path / "known")) == after


def test_an_index_that_lost_what_it_took_in_is_told(crawls: Path, tmp_path: Path) -> None:
    path = begun(crawls, tmp_path / "cut", False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpulsh.run.driver.evidence", interrupted)
        assert main(arguments(path, crawls / "new")) == 130
    shutil.rmtree(path / "known")
    shutil.copytree(crawls / "first/known", path / "known")
    options = {"shingling": gpulsh.Shingling(size=2), "backend": BACKEND}
    with pytest.raises(OutputError, match="has lost the documents of this run"):
        gpulsh.deduplicate_files(
            str(crawls / "new"), path / "out", index=path / "known", threshold=0.5, num_perm=16, bands=8, rows=2,
            resume=True, **options,
        )  # fmt: skip


@pytest.mark.parametrize("cut", ["gpulsh.index.collection.Collection.save_run", "gpulsh.run.driver.evidence"])
def test_another_run_before_one_goes_on(cut: str, crawls: Path, tmp_path: Path) -> None:
    """It comes before the documents that the index had not taken in, and after those that it had."""
    path, wanted = (begun(crawls, tmp_path / name, False) for name in ("cut", "wanted"))
    lines = (crawls / "new/1.jsonl").read_text()
    (tmp_path / "other.jsonl").write_text(lines + json.dumps({"text": "something else"}) + "\n")

    def other(place: Path) -> list[str]:
        return [*arguments(place, tmp_path / "other.jsonl"), "-o", str(place / "other")]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut, interrupted)
        assert main(arguments(path, crawls / "new")) == 130
    order = [arguments(wanted, crawls / "new"), other(wanted)]
    for command in order if "evidence" in cut else reversed(order):
        assert main(command) == 0
    assert main(other(path)) == 0
    assert main(arguments(path, crawls / "new")) == 0
    for out in ("out", "other"):
        assert results(path / out) == results(wanted / out)
    assert told(newest(path / "known")) == told(newest(wanted / "known"))
