"""No user's file is written or removed: in OUT/_work, behind links, or through a manifest that somebody wrote."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import gpulsh
from gpulsh.errors import InputError, OutputError
from gpulsh.index.segment import INDEX
from gpulsh.run.index.jobs import build_index
from gpulsh.run.output.folder import OutputFolder
from gpulsh.run.output.work_folder import LOCK, LOCK_TEXT, remove_work
from gpulsh.store.manifest import NAME, Manifest
from tests.support.command import Command
from tests.support.runs import interrupting, tree

TEXT = "some words of a page that is there twice and then nothing else at all"
LINES = "".join(json.dumps({"text": text}) + "\n" for text in (TEXT, TEXT, "others"))
WAYS: list[dict[str, Any]] = [{}, {"overwrite": True}, {"resume": True}]


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("gpulsh.run.file_run.missing_requirement", lambda: "tested elsewhere")
    Path("a.jsonl").write_text(LINES)
    Path("precious").mkdir()
    Path("precious/one.txt").write_text("precious")
    Path("precious.txt").write_text("precious")
    return folder


def run(out: str = "out", **options: Any) -> Any:
    return gpulsh.deduplicate_files("a.jsonl", out, backend="reference", **options)


def assert_refused(match: str, out: str = "out", **options: Any) -> None:
    before = tree()
    with pytest.raises(OutputError, match=match):
        run(out, **options)
    assert tree() == before


def leave_unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make OUT by a run that is interrupted before it moves its results."""
    monkeypatch.setattr("gpulsh.run.output.folder.worth_resuming", lambda manifest: True)
    with interrupting("gpulsh.run.output.folder.OutputFolder.commit"):
        run()


# --- a user's folder called _work ---


def make_link(target: str) -> Callable[[], None]:
    def make() -> None:
        Path("real").mkdir()
        Path("real/lock").write_bytes(LOCK_TEXT + b"1")
        Path("real/one.txt").write_text("precious")
        Path("out").mkdir()
        os.symlink(f"../{target}", "out/_work")

    return make


def make_lock(lock: str | None) -> Callable[[], None]:
    def make() -> None:
        Path("out/_work").mkdir(parents=True)
        Path("out/_work/precious.txt").write_text("mine")
        Path("out/_work/manifest.jsonl").write_text("mine too")
        if lock is not None:
            Path("out/_work/lock").write_text(lock)

    return make


def make_odd_lock(make_lock: Callable[[str], Any]) -> Callable[[], None]:
    def make() -> None:
        Path("out/_work").mkdir(parents=True)
        Path("real").write_bytes(LOCK_TEXT + b"1")
        make_lock("out/_work/lock")

    return make


FOREIGN = [
    *map(make_lock, ("", "mine", LOCK_TEXT.decode()[:-20], None)),
    *map(make_link, ("precious", "nowhere", "real")),
    *map(make_odd_lock, (lambda lock: os.symlink("../../real", lock), os.mkdir, os.mkfifo)),
]


@pytest.mark.parametrize("make", FOREIGN)
def test_a_foreign_work_folder_is_refused(here: Path, make: Callable[[], None]) -> None:
    make()
    for ways in WAYS:
        assert_refused("out.*(not empty|is not gpulsh's|did not write|is a link)", **ways)


def test_a_foreign_work_folder_beside_results_is_refused(here: Path) -> None:
    os.symlink("nowhere", "link")
    assert_refused("link: is a broken link to nowhere", "link")
    run()
    Path("out/_work").mkdir()
    Path("out/_work/lock").write_text("mine")
    assert_refused("is not empty")
    assert_refused("_work: is not gpulsh's", overwrite=True)
    before = tree()
    run(resume=True)  # the run is finished, and stays
    assert tree() == before


# --- links among gpulsh's files ---


@pytest.mark.parametrize("link", ["data", "report.json", "data/a.jsonl", "data/more"])
def test_results_that_are_links_are_not_replaced(here: Path, link: str) -> None:
    run()
    path = Path("out", link)
    if path.exists():
        os.rename(path, f"precious/{path.name}")
    os.symlink(here / "precious" / path.name, path)
    assert_refused("did not write|a link", overwrite=True)


@pytest.mark.parametrize("name", ["data", "manifest.jsonl", "token"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_links_and_pipes_in_the_work_folder_are_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    leave_unfinished(monkeypatch)
    path = Path("out/_work", name)
    if path.exists():
        os.rename(path, f"precious/{name}")
    if kind == "link":
        os.symlink(here / "precious" / name, path)
    else:
        os.mkfifo(path)
    reason = "is a link" if kind == "link" else "is not a regular file"
    assert_refused(f"{reason}, which gpulsh did not make", resume=True)
    run(overwrite=True)  # removes the link, not its target
    assert Path("precious/one.txt").read_text() == "precious" and not Path("out/_work").exists()
    assert name == "token" or Path("precious", name).exists()


def test_a_foreign_report_is_not_replaced(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed run left files beside it, and a report that lists one."""
    leave_unfinished(monkeypatch)
    Path("out/report.json").write_text('{"mine": 1}')
    assert_refused(r"holds report\.json, which gpulsh did not write", overwrite=True)


def test_a_resumed_run_that_fails_early_leaves_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        leave_unfinished(patch)
    monkeypatch.setattr(OutputFolder, "commit", Mock(side_effect=OutputError("out: no room")))
    with pytest.raises(OutputError, match="no room"):
        run(resume=True)
    assert tree("out") == {}


def test_a_run_of_another_version_is_not_replaced(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_unfinished(monkeypatch)
    monkeypatch.setattr("gpulsh.store.manifest.FORMAT", 99)
    for options in WAYS[0], WAYS[2]:
        assert_refused("other version", **options)


def test_all_may_read_results(here: Path) -> None:
    before = os.umask(0o022)
    try:
        run()
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in Path("out").rglob("*.*")} == {0o644}


def test_a_result_that_appears_during_the_run_is_not_replaced(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = OutputFolder.commit

    def foreign_file_first(out: OutputFolder) -> None:
        Path("out/duplicates.parquet").write_text("mine")
        commit(out)

    monkeypatch.setattr(OutputFolder, "commit", foreign_file_first)
    with pytest.raises(OutputError, match="appeared during the run, and gpulsh did not write it"):
        run()
    assert tree("out") == {"duplicates.parquet": "mine"}


@pytest.mark.parametrize("damage", [{"job": 5}, {"funnel": {}}, {"evidence": []}, {"outputs": "data"}, {"files": [1]}])
def test_a_forged_report_is_refused(here: Path, damage: dict[str, Any], command: Command) -> None:
    run()
    path = Path("out/report.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))
    before, lines = tree(), ["report out"]
    if "job" in damage or "evidence" in damage:
        lines.append("dedup a.jsonl -o out --backend reference --resume")
    for line in lines:
        assert command(line).status == 1 and "unexpected" not in command(line).error
    assert tree() == before


# --- two runs at once ---

WORKING = """
import sys, time
from gpulsh.run import driver
def endless(*_):
    print("ready", flush=True)
    time.sleep(60)
driver.find_exact_copies = endless
import gpulsh
gpulsh.deduplicate_files("a.jsonl", "out", backend="reference")
"""


def test_the_work_folder_of_another_user_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_unfinished(monkeypatch)
    owner = os.lstat("out/_work").st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert_refused("_work: belongs to another user", resume=True)


def test_a_second_run_in_a_folder_is_refused(here: Path, command: Command) -> None:
    process = subprocess.Popen([sys.executable, "-c", WORKING], stdout=subprocess.PIPE, text=True)
    line = "dedup a.jsonl -o out --backend reference"
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for way in ("", "--overwrite", "--resume"):
            message = f"out: another run of gpulsh, process {process.pid}, works in it now; wait"
            assert command(f"{line} {way}").error.startswith(message)
        assert Path("out/_work/manifest.jsonl").exists()
    finally:
        process.kill()
        process.communicate()
    assert command(f"{line} --resume").status == 0 and not Path("out/_work").exists()


def test_a_run_that_begins_at_the_same_instant_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other run makes the folder between this run's check and its own attempt."""
    make = OutputFolder._make

    def made_later(folder: OutputFolder) -> None:
        Path("out/_work").mkdir(parents=True)
        Path("out/_work/lock").write_bytes(LOCK_TEXT + b"1")
        make(folder)

    monkeypatch.setattr(OutputFolder, "_make", made_later)
    with pytest.raises(OutputError, match=r"out: appeared while this run began|another run"):
        run()
    assert Path("out/_work/lock").exists()


# --- an index ---


def build(path: str = "known") -> None:
    build_index(path, ["a.jsonl"], backend="reference")


@pytest.mark.parametrize(
    ("name", "kind"),
    [(INDEX, "link"), ("lock", "link"), ("digests", "link"), (INDEX, "pipe"), ("documents", "pipe"), ("keys", "pipe")],
)
def test_links_and_pipes_in_an_index_are_refused(here: Path, name: str, kind: str) -> None:
    build()
    path = next(Path("known").glob(f"{name}*"))
    os.rename(path, f"precious/{path.name}")
    if kind == "link":
        os.symlink(here / "precious" / path.name, path)
    else:
        os.mkfifo(path)
    before = tree()
    refused_as = r"is a link|Too many levels|is not a file"
    with pytest.raises((InputError, OutputError), match=refused_as), gpulsh.Index.open("known") as index:
        index.insert(["another"], ["text"])
        index.save()
    with pytest.raises(gpulsh.GpulshError):
        run(index="known")
    assert tree() == before


@pytest.mark.parametrize("make", [lambda: Path("known/lock").write_text("x"), lambda: os.symlink("x", "known/lock")])
def test_a_foreign_lock_stops_the_build_of_an_index(here: Path, make: Callable[[], Any]) -> None:
    Path("known").mkdir()
    make()
    before = tree()
    with pytest.raises(OutputError, match="is not empty, it holds lock"):
        build()
    assert tree() == before


def test_a_failed_build_leaves_an_empty_folder_empty(here: Path) -> None:
    Path("known").mkdir()
    Path("a.jsonl").write_text("no record")
    for path in ("known", "new"):
        with pytest.raises(InputError):
            build(path)
    assert Path("known").is_dir() and not os.listdir("known") and not Path("new").exists()


def test_the_page_is_made_without_touching_other_files(here: Path, command: Command) -> None:
    pytest.importorskip("jinja2")
    run()
    os.symlink(here / "precious.txt", "out/report.html.new")
    Path("out/report.json.new").write_text("mine")
    assert command("report out").status == 0
    assert Path("precious.txt").read_text() == "precious" and Path("out/report.json.new").read_text() == "mine"
    assert Path("out/report.html").is_file() and Manifest.open(Path("out")) is None and NAME not in os.listdir("out")


def test_a_work_folder_is_removed_while_a_lost_worker_writes(tmp_path: Path) -> None:
    work = tmp_path / "_work"
    (work / "data").mkdir(parents=True)
    (work / LOCK).write_bytes(LOCK_TEXT)
    ends = time.monotonic() + 0.3

    def write() -> None:
        while time.monotonic() < ends:
            with suppress(FileNotFoundError, FileExistsError):  # gone before the command, or during it
                (work / "data").mkdir(exist_ok=True)
                (work / "data/a").touch()
                (work / "b").touch()

    worker = threading.Thread(target=write)
    worker.start()
    remove_work(work)
    worker.join()
    assert os.listdir(tmp_path) == []
