"""After a crash at any instant the index is as before a commit or after it; damage and refused writes are told."""

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

import gpulsh
from gpulsh import Index
from gpulsh.cli import main
from gpulsh.errors import InputError, OutputError
from gpulsh.index import folder as manifest
from gpulsh.index.folder import FORMAT, KNOWN_FILES, LOCK, read_manifest
from tests.crash.test_resume import ends_at, results
from tests.support.files import read_rows, write_rows
from tests.support.index_steps import BACKEND, generation, new_index, state, take
from tests.support.mortal import Death, Mortals, spread
from tests.support.runs import SOAK, interrupted

# A power cut at every so many switches, refused calls, and one of so many refused writes.
EVERY, REFUSALS, WRITES = (2, 100, 1) if SOAK else (200, 3, 7)
CALLS = ("fsync", "replace", "unlink")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)


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
    return set(os.listdir(path)) - set(read_manifest(path).files()) - {"index.json", LOCK}


@dataclass(frozen=True)
class Change:
    """A command that takes an index from one state to another; PATH in `arguments` is its folder.

    Where it says what it dropped, that is in PATH.jsonl.
    """

    before: Path  # absent where it makes the index
    arguments: list[str]
    spill: int  # bytes in memory from which on a segment is written

    def begun(self, path: Path) -> Path:
        if self.before.exists():
            shutil.copytree(self.before, path)
        return path

    def run(self, mortals: Mortals, path: Path, **how: Any) -> Death:
        given = [argument.replace("PATH", str(path)) for argument in self.arguments]
        if path.with_name(f"{path.name}.jsonl").exists():  # of an attempt that ended
            given.append("--overwrite")
        return mortals.run(path, given, spill=self.spill, **how)


def newest(path: Path) -> Index | None:
    """The index as of its last commit; None where nothing was committed."""
    try:
        return open_index(path)
    except InputError as error:
        if not any(none in str(error) for none in ("no such folder", "is not an index")):
            raise
        return None


def told(index: Index | None) -> Any:
    return index and (generation(index), *state(index))


class Reader(threading.Thread):
    """Asks an index over and over, in snapshots held open and in the newest; an answer of neither state is an error."""

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
            assert told(held) == self._allowed[place]
        index = newest(self._path)
        place = self._allowed.index(told(index))
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


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Change]:
    """Every way of changing an index, with inputs that repeat one another."""
    folder = tmp_path_factory.mktemp("changes")
    for name, start in (("old.jsonl", 0), ("new.jsonl", 4)):
        texts = [" ".join(f"w{(start + k * 3 + i) % 50}" for i in range(12)) for k in range(8)]
        write_rows(folder / name, [*texts, texts[2], ""])
    old, new = str(folder / "old.jsonl"), str(folder / "new.jsonl")
    shape = ["--threshold", "0.5", "--shingle", "word:2", "--num-perm", "16", "--bands", "8", "--rows", "2"]
    backend = ["--backend", BACKEND]
    assert main(["index", "build", str(folder / "built"), old, *shape, *backend]) == 0
    assert main(["index", "build", str(folder / "at source"), old, *shape, *backend, "--evidence", "source"]) == 0
    shutil.copytree(folder / "built", folder / "added")
    assert main(["index", "add", str(folder / "added"), new, *backend]) == 0
    with open_index(folder / "added") as index:
        index.remove([f"{old}:0", f"{new}:1"])
        index.save()
    lived(folder / "two", 2)
    lived(folder / "three", 3)
    whole, evidence = 128 << 20, ["-o", "PATH.jsonl", "--overwrite"]
    return {
        "build": Change(folder / "nothing", ["index", "build", "PATH", old, new, *evidence, *shape, *backend], 100),
        "add": Change(folder / "built", ["index", "add", "PATH", new, *evidence, *backend], whole),
        "add at source": Change(folder / "at source", ["index", "add", "PATH", new, *evidence, *backend], 100),
        "compact": Change(folder / "added", ["index", "compact", "PATH"], whole),
        "add and remove": Change(folder / "two", ["step", "PATH", "2"], 100),
        "add and compact": Change(folder / "three", ["step", "PATH", "3"], whole),
    }


CHANGES = ("build", "add", "add at source", "compact", "add and remove", "add and compact")


def outcomes(change: Change, mortals: Mortals, path: Path) -> tuple[Any, Any, Death]:
    """The states before and after a change that nothing befalls, and how it ended."""
    before = told(newest(change.begun(path)))
    whole = change.run(mortals, path)
    assert whole.status == 0, whole.told
    return before, told(newest(path)), whole


def finish(change: Change, mortals: Mortals, path: Path, before: Any, after: Any) -> bool:
    """The change is done where it was not; then nothing else is left behind. Says whether it was."""
    left = told(newest(path))
    assert left in (before, after)
    evidence = path.with_name(f"{path.name}.jsonl")
    if left == after and "PATH.jsonl" in change.arguments:  # no commit without its evidence
        rows = read_rows(evidence)
        dropped = after[2] - (before[2] if before else 0)
        assert len({(row["file"], row["row"]) for row in rows}) == len(rows) == dropped > 3
    if left == before:
        again = change.run(mortals, path)
        assert again.status == 0 and told(newest(path)) == after, again.told
    with open_index(path) as index:
        index.compact()
    assert unneeded(path) == set() and told(newest(path))[1:] == after[1:]
    return bool(left == after)


@pytest.mark.parametrize("name", CHANGES if SOAK else ["add and remove", "add at source"])
def test_a_power_cut_between_switches_leaves_before_or_after(
    name: str, changes: dict[str, Change], mortals: Mortals, tmp_path: Path
) -> None:
    """At every so many, at each around the commit, and at none."""
    change = changes[name]
    before, after, whole = outcomes(change, mortals, tmp_path / "whole")
    was_done, rounds = [], 0
    last = len(whole.calls)
    for at in [*spread(whole.calls, EVERY, r"index\.json"), last + 1]:
        path = change.begun(tmp_path / str(at))
        with Reader(path, before, after) as reader:
            assert change.run(mortals, path, at=at).killed == (at <= last)
        was_done.append(finish(change, mortals, path, before, after))
        rounds += reader.rounds
    assert was_done == sorted(was_done) and set(was_done) == {False, True}
    assert len(was_done) > 3 and rounds >= len(was_done)


@pytest.mark.parametrize("name", CHANGES if SOAK else ["build"])
def test_a_refused_call_is_told_and_leaves_before_or_after(
    name: str, changes: dict[str, Change], mortals: Mortals, tmp_path: Path
) -> None:
    change = changes[name]
    before, after, _ = outcomes(change, mortals, tmp_path / "whole")
    calls = change.run(mortals, change.begun(tmp_path / "counted"), error=errno.EIO).calls
    assert len(calls) > 20
    for at in sorted(random.Random(name).sample(range(1, len(calls) + 1), min(len(calls), REFUSALS))):
        error = ERRORS[at % len(ERRORS)]
        path = change.begun(tmp_path / str(at))
        with Reader(path, before, after):
            death = change.run(mortals, path, at=at, error=error)
        assert death.status == 1 and os.strerror(error) in death.told and str(path) in death.told, death
        if before is None and newest(path) is None:
            assert not path.exists()
        finish(change, mortals, path, before, after)


def test_a_refused_write_is_named_and_can_be_tried_again(tmp_path: Path) -> None:
    states = lived(tmp_path / "begun", 3)
    refused = 0
    for at in itertools.count(1, WRITES):
        path = tmp_path / str(at)
        shutil.copytree(tmp_path / "begun", path)
        index = open_index(path)
        number = ERRORS[at % len(ERRORS)]
        try:
            with pytest.MonkeyPatch.context() as patch:
                calls = ends_at(patch, at, OSError(number, os.strerror(number)), CALLS)
                take(index, 3)
                index.save()
        except OutputError as error:
            refused += 1
            assert os.strerror(number) in str(error) and str(path) in str(error)
            assert state(open_index(path)) in (states[4], states[5])
        index.save()
        assert state(index) == state(open_index(path)) == states[5]
        index.close()
        if len(calls) < at:
            break
    assert refused > 2


@pytest.mark.parametrize("at", [1, 5])
def test_a_save_that_finds_no_room_leaves_as_much_as_there_was(tmp_path: Path, at: int) -> None:
    lived(tmp_path / "index", 2)
    before = set(os.listdir(tmp_path / "index"))
    index = open_index(tmp_path / "index")
    take(index, 2)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(OutputError, match="No space left on device"):
        ends_at(patch, at, OSError(errno.ENOSPC, ""), CALLS)
        index.save()
    assert set(os.listdir(tmp_path / "index")) == before
    index.close()


def test_damage_is_named(tmp_path: Path) -> None:
    lived(tmp_path / "begun", 3)
    names = sorted(name for name in os.listdir(tmp_path / "begun") if name != LOCK)
    needed = set(read_manifest(tmp_path / "begun").needed()) | {"index.json"}
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
    with pytest.raises(InputError, match="nothing: no such folder"):
        open_index(tmp_path / "nothing")


def test_another_format_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A later one, and format 2, which has public hashes and no secret."""
    with mock.patch.object(manifest, "FORMAT", 99):
        lived(tmp_path / "i", 1)
    with pytest.raises(InputError, match=rf"is an index of format 99, written by gpulsh .*reads format {FORMAT}"):
        open_index(tmp_path / "i")
    shutil.rmtree(tmp_path / "i")
    lived(tmp_path / "i", 1)
    path = tmp_path / "i" / "index.json"
    told = json.loads(path.read_bytes().partition(b"\n")[2])
    del told["secret"]
    content = json.dumps({**told, "format": 2, "version": "0.9"}).encode()
    path.write_bytes(b"crc32 %08x\n%s" % (zlib.crc32(content), content))
    (tmp_path / "a.txt").write_text("some words")
    before = {file: file.read_bytes() for file in (tmp_path / "i").iterdir()}
    for command in (["index", "query", str(tmp_path / "i")], ["index", "add", str(tmp_path / "i")]):
        assert main([*command, str(tmp_path / "a.txt"), "--backend", "cpu"]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert "is an index of format 2, written by gpulsh 0.9, and this version reads format 3" in line
        assert "build the index again" in line
    assert {file: file.read_bytes() for file in before} == before


# --- a run with an index that ends at any instant, in either folder, goes on: the same results, and one commit ---


SHAPE = ["--threshold", "0.5", "--shingle", "word:2", "--num-perm", "16", "--bands", "8", "--rows", "2"]


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
    given = ["dedup", str(crawl), "-o", str(path / "out"), "--index", str(path / "known"), "--keep", keep]
    # On one thread: nothing else goes on, or fails, while a kill takes back what was not durable.
    return [*given, *SHAPE, "--backend", BACKEND, "--threads", "1", "--resume"]


def begun(crawls: Path, path: Path, is_first: bool) -> Path:
    path.mkdir()
    if not is_first:
        shutil.copytree(crawls / "first/known", path / "known")
    return path


def run_with_index(mortals: Mortals, crawls: Path, path: Path, is_first: bool, **how: Any) -> Death:
    # From 100 bytes on a segment is written, so that commits have files of earlier ones.
    return mortals.run(path, arguments(path, crawls / ("old" if is_first else "new")), spill=100, **how)


def finish_run(mortals: Mortals, crawls: Path, path: Path, is_first: bool, wanted: Any) -> bool:
    """The run goes on to its end; says whether the index had taken its documents in before."""
    was_done = told(newest(path / "known")) == wanted[1]
    again = run_with_index(mortals, crawls, path, is_first)
    assert again.status == 0, again.told
    assert (results(path / "out"), told(newest(path / "known"))) == (wanted[0], wanted[1])
    assert not (path / "out/_work").exists()
    return was_done


@pytest.mark.parametrize("is_first", [True, False] if SOAK else [False])
def test_a_power_cut_of_a_run(is_first: bool, crawls: Path, mortals: Mortals, tmp_path: Path) -> None:
    """At every so many, at each around the commit of the index, and at the last."""
    path = begun(crawls, tmp_path / "whole", is_first)
    before = told(newest(path / "known"))
    whole = run_with_index(mortals, crawls, path, is_first)
    assert whole.status == 0 and len(whole.calls) > 60, whole.told
    wanted = results(path / "out"), told(newest(path / "known"))
    was_done = []
    for at in sorted({*spread(whole.calls, EVERY, r"index\.json"), len(whole.calls)}):
        path = begun(crawls, tmp_path / str(at), is_first)
        with Reader(path / "known", before, wanted[1]) as reader:
            assert run_with_index(mortals, crawls, path, is_first, at=at).killed
        assert reader.rounds
        was_done.append(finish_run(mortals, crawls, path, is_first, wanted))
    assert was_done == sorted(was_done) and set(was_done) == {False, True}


@pytest.mark.parametrize("is_first", [True, False] if SOAK else [False])
def test_a_refused_call_in_a_run_is_named(is_first: bool, crawls: Path, mortals: Mortals, tmp_path: Path) -> None:
    path = begun(crawls, tmp_path / "whole", is_first)
    calls = run_with_index(mortals, crawls, path, is_first, error=errno.EIO).calls
    wanted = results(path / "out"), told(newest(path / "known"))
    refused = 0
    for at in sorted(random.Random(is_first).sample(range(1, len(calls) + 1), min(len(calls), REFUSALS))):
        path = begun(crawls, tmp_path / str(at), is_first)
        death = run_with_index(mortals, crawls, path, is_first, at=at, error=ERRORS[at % len(ERRORS)])
        assert death.status in (0, 1), death.told
        assert death.status == 0 or death.told.splitlines()[-1].startswith("gpulsh: error: ")
        refused += death.status
        finish_run(mortals, crawls, path, is_first, wanted)
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


@pytest.mark.parametrize("cut", ["gpulsh.index.collection.Collection.commit", "gpulsh.run.driver.evidence"])
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
