"""After a crash at any instant the index is as before a commit or after it; damage and failed writes are named."""

import errno
import itertools
import json
import os
import random
import shutil
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from unittest import mock

import pytest

from gpulsh import Index
from gpulsh.cli import main
from gpulsh.errors import InputError, OutputError
from gpulsh.index import folder as manifest
from gpulsh.index.folder import FORMAT, KNOWN_FILES, LOCK, read_manifest
from tests.crash.test_resume import fail_at, results
from tests.support.command import Command
from tests.support.files import flipped, read_rows, write_rows
from tests.support.index_steps import BACKEND, generation, new_index, state, take
from tests.support.mortal import Death, Mortals, spread
from tests.support.runs import SOAK, interrupted, tree

# A power cut at every so many switches, refused calls, and one of so many refused writes.
EVERY, REFUSALS, WRITES = (2, 100, 1) if SOAK else (200, 3, 7)
CALLS = ("fsync", "replace", "unlink")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)


def make_index(path: Path, steps: int) -> dict[int, Any]:
    """Make an index of `steps` steps at `path`; returns its state by generation, from 1 to one step beyond."""
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


def unneeded_files(path: Path) -> set[str]:
    return set(os.listdir(path)) - set(read_manifest(path).files()) - {"index.json", LOCK}


@dataclass(frozen=True)
class Change:
    """A command that takes an index from one state to another.

    PATH in `arguments` is a folder that has the index in `known`, and beside it what was dropped in `found.jsonl`, or
    the results of a run in `out`.
    """

    before: Path  # absent where it makes the index
    arguments: list[str]
    spill: int = 100  # bytes in memory from which on a segment is written, so that commits have files of earlier ones

    def begun(self, path: Path) -> Path:
        path.mkdir()
        if self.before.exists():
            shutil.copytree(self.before, path / "known")
        return path

    def run(self, mortals: Mortals, path: Path, **how: Any) -> Death:
        given = [argument.replace("PATH", str(path)) for argument in self.arguments]
        return mortals.run(path, given, spill=self.spill, **how)


def open_newest(path: Path) -> Index | None:
    """The index as of its last commit; None where nothing was committed."""
    try:
        return open_index(path)
    except InputError as error:
        if not any(none in str(error) for none in ("no such folder", "is not an index")):
            raise
        return None


def state_of(index: Index | None) -> Any:
    return index and (generation(index), *state(index))


class Reader(threading.Thread):
    """Query an index repeatedly, in open snapshots and in the newest; an answer of neither state is an error."""

    def __init__(self, path: Path, before: Any, after: Any) -> None:
        super().__init__()
        self._path, self._allowed = path, (before, after)
        self._held: dict[int, Index] = {}
        self._enough, self._ready = threading.Event(), threading.Event()
        self._failed: BaseException | None = None
        self.rounds = 0

    def run(self) -> None:
        try:
            while not self._enough.is_set():
                self._ask()
                self.rounds += 1
                self._ready.set()
                self._enough.wait(0.01)  # for who writes
        except BaseException as error:
            self._failed = error
        self._ready.set()

    def _ask(self) -> None:
        for place, held in self._held.items():
            assert state_of(held) == self._allowed[place]
        index = open_newest(self._path)
        place = self._allowed.index(state_of(index))
        if index is not None:
            self._held[place] = index

    def __enter__(self) -> Self:
        self.start()
        self._ready.wait()
        return self

    def __exit__(self, *exception: object) -> None:
        self._enough.set()
        self.join()
        if self._failed:
            raise self._failed


SHAPE = ["--threshold", "0.5", "--shingle", "word:2", "--num-perm", "16", "--bands", "8", "--rows", "2"]
CHANGES = ("build", "add", "add at source", "compact", "add and remove", "add and compact", "first run", "run")


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two crawls that repeat one another, and the index of the first."""
    folder = tmp_path_factory.mktemp("crawls")
    for name, start in (("old", 0), ("new", 4)):
        texts = [" ".join(f"w{(start + k * 3 + i) % 50}" for i in range(12)) for k in range(8)]
        for place, part in enumerate(([*texts[:5], texts[1]], [*texts[5:], texts[2], ""])):
            write_rows(folder / name / f"{place}.jsonl", part)
    assert main(dedup(folder / "first", folder / "old")[:-1]) == 0
    return folder


def dedup(path: Path | str, crawl: Path, keep: str = "first", out: str = "out") -> list[str]:
    given = ["dedup", str(crawl), "-o", f"{path}/{out}", "--index", f"{path}/known", "--keep", keep]
    # On one thread: no other thread works, or fails, while a kill undoes changes that were not durable.
    return [*given, *SHAPE, "--backend", BACKEND, "--threads", "1", "--resume"]


@pytest.fixture(scope="module")
def changes(crawls: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Change]:
    """Every way of changing an index, with inputs that repeat one another."""
    folder = tmp_path_factory.mktemp("changes")
    old, new = str(crawls / "old"), str(crawls / "new")
    backend = ["--backend", BACKEND]
    assert main(["index", "build", str(folder / "built"), old, *SHAPE, *backend]) == 0
    assert main(["index", "build", str(folder / "at source"), old, *SHAPE, *backend, "--evidence", "source"]) == 0
    shutil.copytree(folder / "built", folder / "added")
    assert main(["index", "add", str(folder / "added"), new, *backend]) == 0
    with open_index(folder / "added") as index:
        index.remove([f"{old}/0.jsonl:0", f"{new}/0.jsonl:1"])
        index.save()
    make_index(folder / "two", 2)
    make_index(folder / "three", 3)
    whole, evidence = 128 << 20, ["-o", "PATH/found.jsonl", "--overwrite"]
    add = ["index", "add", "PATH/known", new, *evidence, *backend]
    return {
        "build": Change(folder / "none", ["index", "build", "PATH/known", old, new, *evidence, *SHAPE, *backend]),
        "add": Change(folder / "built", add, whole),
        "add at source": Change(folder / "at source", add),
        "compact": Change(folder / "added", ["index", "compact", "PATH/known"], whole),
        "add and remove": Change(folder / "two", ["step", "PATH/known", "2"]),
        "add and compact": Change(folder / "three", ["step", "PATH/known", "3"], whole),
        "first run": Change(folder / "none", dedup("PATH", crawls / "old")),
        "run": Change(crawls / "first/known", dedup("PATH", crawls / "new")),
    }


def outcomes(change: Change, mortals: Mortals, path: Path) -> tuple[Any, Any, Death]:
    """The states before and after an undisturbed change, and how it ended."""
    before = state_of(open_newest(change.begun(path) / "known"))
    whole = change.run(mortals, path)
    assert whole.status == 0, whole.stderr
    return before, (state_of(open_newest(path / "known")), results(path / "out")), whole


def finish(change: Change, mortals: Mortals, path: Path, before: Any, wanted: Any) -> bool:
    """Make the change if it is missing, and end its run; no other file is left. Returns whether it was made before."""
    index, after = path / "known", wanted[0]
    left = state_of(open_newest(index))
    assert left in (before, after)
    if left == after and "PATH/found.jsonl" in change.arguments:  # no commit without its evidence
        rows = read_rows(path / "found.jsonl")
        dropped = after[2] - (before[2] if before else 0)
        assert len({(row["file"], row["row"]) for row in rows}) == len(rows) == dropped > 3
    if left == before or wanted[1]:
        again = change.run(mortals, path)
        assert again.status == 0 and state_of(open_newest(index)) == after, again.stderr
    if left == before:  # a commit leaves no file but those that the one before named
        assert {name.partition("-")[0] for name in unneeded_files(index)} <= {"removed"}
    assert results(path / "out") == wanted[1] and not (path / "out/_work").exists()
    with open_index(index) as opened:
        opened.compact()
    assert unneeded_files(index) == set() and state_of(open_newest(index))[1:] == after[1:]
    return bool(left == after)


@pytest.mark.parametrize("name", CHANGES if SOAK else ["add and remove", "add at source", "run"])
def test_a_power_cut_leaves_the_index_before_or_after_a_commit(
    name: str, changes: dict[str, Change], mortals: Mortals, tmp_path: Path
) -> None:
    """The power is cut at regular calls, at each call around the commit, at the last one, and never."""
    change = changes[name]
    before, wanted, whole = outcomes(change, mortals, tmp_path / "whole")
    was_done, rounds, last = [], 0, len(whole.calls)
    for at in sorted({*spread(whole.calls, EVERY, r"index\.json"), last, last + 1}):
        path = change.begun(tmp_path / str(at))
        with Reader(path / "known", before, wanted[0]) as reader:
            assert change.run(mortals, path, at=at).killed == (at <= last)
        was_done.append(finish(change, mortals, path, before, wanted))
        rounds += reader.rounds
    assert was_done == sorted(was_done) and set(was_done) == {False, True}
    assert len(was_done) > 3 and rounds >= len(was_done)


@pytest.mark.parametrize("name", CHANGES if SOAK else ["build", "run"])
def test_a_failed_system_call_leaves_the_index_before_or_after(
    name: str, changes: dict[str, Change], mortals: Mortals, tmp_path: Path
) -> None:
    """A run may succeed without the page, or without the last removals."""
    change, refused = changes[name], 0
    before, wanted, _ = outcomes(change, mortals, tmp_path / "whole")
    calls = change.run(mortals, change.begun(tmp_path / "counted"), error=errno.EIO).calls
    assert len(calls) > 20
    for at in sorted(random.Random(name).sample(range(1, len(calls) + 1), min(len(calls), REFUSALS))):
        error = ERRORS[at % len(ERRORS)]
        path = change.begun(tmp_path / str(at))
        with Reader(path / "known", before, wanted[0]):
            death = change.run(mortals, path, at=at, error=error)
        refused += death.status
        assert death.status == 1 or (wanted[1] and death.status == 0), death
        assert death.status == 0 or (os.strerror(error) in death.stderr and str(path) in death.stderr), death
        if before is None and open_newest(path / "known") is None:
            assert not (path / "known").exists()
        finish(change, mortals, path, before, wanted)
    assert refused


def test_a_failed_write_is_named_and_can_be_repeated(tmp_path: Path) -> None:
    """An early failure adds no file and removes none."""
    states = make_index(tmp_path / "begun", 3)
    refused = 0
    for at in itertools.chain([1, 5], itertools.count(8, WRITES)):
        path = tmp_path / str(at)
        shutil.copytree(tmp_path / "begun", path)
        index, before = open_index(path), set(os.listdir(path))
        number = ERRORS[at % len(ERRORS)]
        try:
            with pytest.MonkeyPatch.context() as patch:
                calls = fail_at(patch, at, OSError(number, os.strerror(number)), CALLS)
                take(index, 3)
                index.save()
        except OutputError as error:
            refused += 1
            assert os.strerror(number) in str(error) and str(path) in str(error)
            assert state(open_index(path)) in (states[4], states[5])
            assert at > 5 or set(os.listdir(path)) == before
        index.save()
        assert state(index) == state(open_index(path)) == states[5]
        index.close()
        if len(calls) < at:
            break
    assert refused > 2


def test_a_damaged_index_file_is_named(tmp_path: Path, command: Command) -> None:
    make_index(tmp_path / "begun", 3)
    names = sorted(name for name in os.listdir(tmp_path / "begun") if name != LOCK)
    needed = set(read_manifest(tmp_path / "begun").required_files()) | {"index.json"}
    assert needed <= set(names) and all(name == "index.json" or KNOWN_FILES.fullmatch(name) for name in names)
    for name in sorted(needed):
        path = tmp_path / "begun" / name
        whole = path.read_bytes()
        for content in (flipped(whole, len(whole) // 2), whole[: len(whole) // 2], b"", None):
            path.unlink()
            if content is not None:
                path.write_bytes(content)
            with pytest.raises(InputError) as caught:
                open_index(tmp_path / "begun")
            assert (name in str(caught.value)) or (content is None and name == "index.json")
            assert str(caught.value) in command(f"index find {tmp_path / 'begun'} {__file__} --backend reference").error
            path.write_bytes(whole)
    failed = mock.Mock(side_effect=OSError(errno.EIO, "", str(path)))
    with mock.patch.object(manifest, "fact_of", failed), pytest.raises(InputError, match=f"{name}: cannot be read: "):
        open_index(tmp_path / "begun")
    with pytest.raises(InputError, match="nothing: no such folder"):
        open_index(tmp_path / "nothing")


def test_no_index_begins_where_one_has_lost_its_commits(crawls: Path, tmp_path: Path, command: Command) -> None:
    path, out = copy_first(crawls, tmp_path / "run"), tmp_path / "out"
    (path / "known/index.json").unlink()
    given = ["-o", str(out), "--backend", BACKEND]
    assert command("", "passages", str(crawls / "old"), *given, "--index", f"{path}/passages").status == 0
    (path / "passages/passages.json").unlink()
    lost, before = "has lost {}; restore it from a copy, or give another folder", tree(path)
    assert command("", *dedup(path, crawls / "new")).error.endswith(lost.format("index.json"))
    assert command("", "index", "build", f"{path}/known", str(crawls / "new")).error.endswith(lost.format("index.json"))
    again = command("", "passages", str(crawls / "new"), *given, "--index", f"{path}/passages", "--overwrite")
    assert again.error.endswith(lost.format("passages.json"))
    assert tree(path) == before


def test_an_index_of_another_format_is_refused(folder: Path, command: Command) -> None:
    """One is a later format; format 2 has public hashes and no secret."""
    with mock.patch.object(manifest, "FORMAT", 99):
        make_index(folder / "later", 1)
    with pytest.raises(InputError, match=rf"is an index of format 99, written by gpulsh .*reads format {FORMAT}"):
        open_index(folder / "later")
    make_index(folder / "i", 1)
    facts = json.loads(Path("i/index.json").read_bytes().partition(b"\n")[2])
    del facts["secret"]
    content = json.dumps({**facts, "format": 2, "version": "0.9"}).encode()
    Path("i/index.json").write_bytes(b"crc32 %08x\n%s" % (zlib.crc32(content), content))
    Path("a.txt").write_text("some words")
    before = results(Path("i"))
    for verb in ("query", "add"):
        printed = command(f"index {verb} i a.txt --backend cpu")
        assert "is an index of format 2, written by gpulsh 0.9, and this version reads format 3" in printed.error
        assert "build the index again" in printed.error and printed.err.count("\n") == 1
    assert results(Path("i")) == before


# --- a run with an index, interrupted before or after the index's commit ---


def copy_first(crawls: Path, path: Path) -> Path:
    shutil.copytree(crawls / "first/known", path / "known")
    return path


def interrupted_at(place: str, arguments: list[str]) -> None:
    with mock.patch(place, interrupted):
        assert main(arguments) == 130


COMMIT, EVIDENCE = "gpulsh.index.collection.Collection.commit", "gpulsh.run.driver.write_evidence"


@pytest.mark.parametrize("keep", ["first", "longest"])
def test_damaged_decisions_are_read_from_the_index(
    keep: str, crawls: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole, path = (copy_first(crawls, tmp_path / name) for name in ("whole", "cut"))
    assert main(dedup(whole, crawls / "new", keep)) == 0
    interrupted_at(EVIDENCE, dedup(path, crawls / "new", keep))
    after = state_of(open_newest(path / "known"))
    assert after == state_of(open_newest(whole / "known"))
    for name in ("collect-000000-decisions.arrow", "collect-000000-earlier.arrow", "sign-000000-documents.arrow"):
        file = path / "out/_work" / name
        file.write_bytes(file.read_bytes()[:-9])
        (path / "out/_work/data/0.jsonl").unlink(missing_ok=True)
        interrupted_at(EVIDENCE, dedup(path, crawls / "new", keep))
        assert f"{name} is missing or damaged" in caplog.text
    assert main(dedup(path, crawls / "new", keep)) == 0
    assert results(path / "out") == results(whole / "out") and state_of(open_newest(path / "known")) == after


def test_an_index_that_lost_the_documents_of_a_run_is_refused(crawls: Path, tmp_path: Path, command: Command) -> None:
    path = copy_first(crawls, tmp_path / "cut")
    interrupted_at(EVIDENCE, dedup(path, crawls / "new"))
    held = "holds an unfinished run, and the index may hold its documents; give --resume to continue it"
    for way in ([], ["--overwrite"]):  # the index would refuse the documents, after their results are gone
        error = command("", *dedup(path, crawls / "new")[:-1], *way).error
        assert error.endswith(f"{held}, or remove {path}/out/_work to lose its results")
    shutil.rmtree(path / "known")
    copy_first(crawls, path)
    assert "has lost the documents of this run" in command("", *dedup(path, crawls / "new")).error


@pytest.mark.parametrize("cut", [COMMIT, EVIDENCE])
def test_another_run_may_come_between_a_run_and_its_resumption(cut: str, crawls: Path, tmp_path: Path) -> None:
    """The other run is the later one only where the index already held the first one's documents."""
    path, wanted = (copy_first(crawls, tmp_path / name) for name in ("cut", "wanted"))
    lines = (crawls / "new/1.jsonl").read_text()
    (tmp_path / "other.jsonl").write_text(lines + json.dumps({"text": "something else"}) + "\n")
    interrupted_at(cut, dedup(path, crawls / "new"))
    order = [dedup(wanted, crawls / "new"), dedup(wanted, tmp_path / "other.jsonl", out="other")]
    for command in order if cut == EVIDENCE else reversed(order):
        assert main(command) == 0
    assert main(dedup(path, tmp_path / "other.jsonl", out="other")) == 0
    assert main(dedup(path, crawls / "new")) == 0
    for out in ("out", "other"):
        assert results(path / out) == results(wanted / out)
    assert state_of(open_newest(path / "known")) == state_of(open_newest(wanted / "known"))
