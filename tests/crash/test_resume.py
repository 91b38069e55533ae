"""A run that ends at any instant resumes to the same bytes, and takes no file of another job for its own."""

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gpulsh
from gpulsh.budget import TaskSizes
from gpulsh.errors import OutputError
from gpulsh.run.stages.verify import compare_share
from tests.support.files import read_rows, write_rows
from tests.support.mortal import Death, Mortals, spread
from tests.support.runs import SOAK, interrupting, small_partitions

OPTIONS: dict[str, Any] = {"backend": "cpu", "threads": 1, "keep": "score"}


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of three formats with duplicates in and between them, signed in many steps."""
    small_partitions(monkeypatch, 2000)
    return write_inputs(tmp_path / "in")


def write_inputs(folder: Path) -> Path:
    source = random.Random(1)
    words = [f"word{i}" for i in range(500)]
    pages = [" ".join(source.choices(words, k=30)) for _ in range(40)]
    rows = [
        pages[source.randrange(40)] if source.random() < 0.4 else " ".join(source.choices(words, k=25))
        for _ in range(240)
    ]
    rows[7::9] = [f"{page} and a few words more" for page in pages[: len(rows[7::9])]]
    table = pa.table({"text": rows, "score": [source.randrange(100) for _ in rows]})
    write_rows(folder / "a.parquet", table.slice(0, 90), 20)
    write_rows(folder / "b.jsonl", table.slice(90, 60))
    write_rows(folder / "c.arrow", table.slice(150))
    return folder


def outlive_an_error(patch: pytest.MonkeyPatch, cut: TaskSizes) -> None:
    """Cut runs so, keep their state after any error, and skip the slow parts that are tested elsewhere."""
    patch.setattr("gpulsh.run.file_run.task_sizes", lambda *_: cut)
    patch.setattr("gpulsh.run.output.folder.worth_resuming", lambda manifest: True)
    patch.setattr("gpulsh.run.file_run.missing_requirement", lambda: "tested elsewhere")
    patch.setattr(os, "fsync", lambda handle: None)


def results(out: Path) -> dict[str, bytes]:
    """All results of a run but its report, which holds times."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and not path.name.startswith("report")
    }


CHANGES = ("fsync", "rename", "replace", "unlink", "mkdir", "rmdir")  # of what is on the disk, durable or in its names
EVERY = 1 if SOAK else 100  # changes


class Ended(BaseException):
    """The process is gone."""


def fail_at(
    patch: pytest.MonkeyPatch, number: int | None, error: BaseException, names: Sequence[str], lasting: bool = False
) -> list[str]:
    """Call number `number` to these functions of `os` raises, with `lasting` all later ones too; returns the calls."""
    calls: list[str] = []

    def wrapped(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*args: Any, **options: Any) -> Any:
            calls.append(name)
            if number is not None and (len(calls) == number or (lasting and len(calls) > number)):
                raise error
            return function(*args, **options)

        return failing

    for name in names:
        patch.setattr(os, name, wrapped(name, getattr(os, name)))
    if lasting:
        patch.setattr(fcntl, "flock", lambda *_: None)  # a lock dies with its process, and here there is one process
    return calls


def test_a_run_that_fails_at_any_fsync_resumes(small_inputs: Path, tmp_path: Path) -> None:
    """The disk is full, or Ctrl-C comes, at regular calls: finished steps are kept, and the run resumes."""
    wanted, calls = whole_results(small_inputs, tmp_path), calls_of(small_inputs, tmp_path, ("fsync",))
    for error, every in ((OSError(28, "No space left on device"), EVERY), (KeyboardInterrupt(), 2 * EVERY)):
        at = spread(calls, every, "never")
        for raised, out in resumed_runs(small_inputs, tmp_path, error, ("fsync",), at, lasting=False):
            assert results(out) == wanted
            assert isinstance(raised, KeyboardInterrupt) or "No space left on device" in str(raised)
            shutil.rmtree(out)


def test_a_run_killed_at_any_disk_change_resumes(small_inputs: Path, tmp_path: Path) -> None:
    """At every so many, and around each rename, which puts a durable file or a result in place.

    After a kill nothing is done to the disk any more, not even what an exception would undo.
    """
    wanted, calls = whole_results(small_inputs, tmp_path), calls_of(small_inputs, tmp_path, CHANGES)
    assert len(calls) > 100
    for _, out in resumed_runs(small_inputs, tmp_path, Ended(), CHANGES, spread(calls, EVERY, "rename"), lasting=True):
        assert results(out) == wanted and not (out / "_work").exists()
        shutil.rmtree(out)


def test_a_run_killed_while_it_replaces_results_resumes(small_inputs: Path, tmp_path: Path) -> None:
    """An overwriting run that is killed goes on, too, and of the earlier results nothing is left.

    Before the overwriting run has a manifest it is the earlier one that goes on, so then they are of the same job.
    """
    before, names, every = ("", CHANGES[1:], 3) if SOAK else ("b.jsonl", ("rename", "rmdir"), 2)
    earlier, wanted = tmp_path / "earlier", whole_results(small_inputs, tmp_path)
    gpulsh.deduplicate_files(small_inputs / before, earlier, **OPTIONS)
    for number in count(1, every):
        out = tmp_path / f"out{number}"
        shutil.copytree(earlier, out)
        try:
            with pytest.MonkeyPatch.context() as patch:
                fail_at(patch, number, Ended(), names, lasting=True)
                gpulsh.deduplicate_files(small_inputs, out, overwrite=True, **OPTIONS)
            break
        except Ended:
            gpulsh.deduplicate_files(small_inputs, out, resume=True, **OPTIONS)
            assert results(out) == wanted and not (out / "_work").exists()
            shutil.rmtree(out)
    assert number > 8


@pytest.fixture
def small_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files like `inputs`, in few partitions, ranges and groups, but several of each."""
    outlive_an_error(monkeypatch, TaskSizes(memory=1 << 30, partition=40000, digests=3000, group=25000))
    return write_inputs(tmp_path / "in")


def whole_results(given: Path, tmp_path: Path) -> dict[str, bytes]:
    gpulsh.deduplicate_files(given, tmp_path / "whole", **OPTIONS)
    return results(tmp_path / "whole")


def calls_of(given: Path, tmp_path: Path, names: Sequence[str]) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        calls = fail_at(patch, None, Ended(), names)
        gpulsh.deduplicate_files(given, tmp_path / "counted", **OPTIONS)
    return calls


def resumed_runs(
    given: Path, tmp_path: Path, error: BaseException, names: Sequence[str], numbers: list[int], *, lasting: bool
) -> Iterator[tuple[BaseException, Path]]:
    """For each call that ends a run: the error, and the folder after the run resumed."""
    for number in numbers:
        out = tmp_path / f"out{number}"
        with pytest.MonkeyPatch.context() as patch:
            fail_at(patch, number, error, names, lasting)
            with pytest.raises((OutputError, KeyboardInterrupt, Ended)) as caught:
                gpulsh.deduplicate_files(given, out, **OPTIONS)
        gpulsh.deduplicate_files(given, out, resume=True, **OPTIONS)
        yield caught.value, out


def test_compared_shares_are_not_compared_again(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group is one component that is too large; the run ends when some of their shares are done."""
    wanted = whole_results(inputs, tmp_path)
    outlive_an_error(monkeypatch, TaskSizes(memory=1 << 30, partition=15000, digests=3000, group=1500))
    compared: list[int] = []

    def compare_some(most: int) -> Callable[..., Any]:
        def counted(place: Any, layout: Any, ranges: Any, share: int) -> Any:
            if len(compared) == most:
                raise KeyboardInterrupt
            compared.append(share)
            return compare_share(place, layout, ranges, share)

        return counted

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("gpulsh.run.driver.compare_share", compare_some(4))
        gpulsh.deduplicate_files(inputs, tmp_path / "out", **OPTIONS)
    monkeypatch.setattr("gpulsh.run.driver.compare_share", compare_some(-1))
    result = gpulsh.deduplicate_files(inputs, tmp_path / "out", resume=True, **OPTIONS)
    assert results(tmp_path / "out") == wanted and "compare" in result.funnel["seconds"]
    assert compared == list(range(len(compared))) and len(compared) > 8


def interrupt(given: Path | list[str], out: Path) -> None:
    """Run until the evidence would be written, and interrupt there."""
    with interrupting():
        gpulsh.deduplicate_files(given, out, **OPTIONS)


BY_KEY: dict[str, Any] = {"key": "score", "keep": "longest", "id_column": "score"}
ITEMS: dict[str, Any] = {"passages": 8, "coverage": 0.9, "protect": "test.jsonl"}


@pytest.mark.parametrize(
    ("task", "options"),
    [
        *((task, {"measure": "containment"}) for task in ("weigh_slots", "choose_prefixes", "join_prefixes")),
        *((task, {**BY_KEY, "key_only": True}) for task in ("find_key_copies", "collect_decisions")),
        *((task, BY_KEY) for task in ("find_key_copies", "decide_group")),
        *((task, ITEMS) for task in ("screen_partition", "write_contamination")),
    ],
    ids=str,
)
def test_a_run_resumes_after_each_stage(
    small_inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, options: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [row["text"].split()[3:20] for row in read_rows(small_inputs / "b.jsonl")]
    write_rows("test.jsonl", [{"text": " ".join(words), "score": 0} for words in rows[:5]])
    given = {**OPTIONS, **options}
    wanted = gpulsh.deduplicate_files(small_inputs, tmp_path / "whole", **given).funnel
    assert wanted["key_copies" if "key" in options else "contaminated" if "passages" in options else "dropped"] > 4
    with interrupting(task):
        gpulsh.deduplicate_files(small_inputs, tmp_path / "out", **given)
    with pytest.raises(OutputError, match="belongs to another run"):
        gpulsh.deduplicate_files(small_inputs, tmp_path / "out", resume=True, **OPTIONS)
    found = gpulsh.deduplicate_files(small_inputs, tmp_path / "out", resume=True, **given).funnel
    assert results(tmp_path / "out") == results(tmp_path / "whole")
    assert found["resumed"] and found["dropped"] == wanted["dropped"]


def test_finished_and_other_jobs_open_no_engine(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    result = gpulsh.deduplicate_files(inputs, out, **OPTIONS)
    before = results(out)
    monkeypatch.delattr("gpulsh.run.engines.Machine.open_engine")
    again = gpulsh.deduplicate_files(inputs, out, resume=True, **OPTIONS)  # finished: no file changes
    assert again.report == result.report and results(out) == before
    with pytest.raises(OutputError, match=r"threshold was 0\.8 and is 0\.7 now"):
        gpulsh.deduplicate_files(inputs, out, resume=True, threshold=0.7, **OPTIONS)
    (inputs / "b.jsonl").write_text('{"text": "another", "score": 1}\n')
    for message in (r"b\.jsonl has changed since", r"b\.jsonl is no longer an input"):
        with pytest.raises(OutputError, match=message):
            gpulsh.deduplicate_files(inputs, out, resume=True, **OPTIONS)
        (inputs / "b.jsonl").unlink(missing_ok=True)
    assert results(out) == before


@pytest.mark.parametrize("step", [1, -1])
def test_a_run_resumes_only_with_inputs_in_the_same_order(step: int, inputs: Path, tmp_path: Path) -> None:
    """Partial results belong to positions; another order would assign them to other documents."""
    out, given = tmp_path / "out", sorted(map(str, inputs.iterdir()))[::step]
    interrupt(given, out)
    with pytest.raises(OutputError, match="another run: its inputs are in another order"):
        gpulsh.deduplicate_files(given[::-1], out, resume=True, **OPTIONS)
    gpulsh.deduplicate_files(given, out, resume=True, **OPTIONS)
    gpulsh.deduplicate_files(given, tmp_path / "whole", **OPTIONS)
    assert results(out) == results(tmp_path / "whole")


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize(("above", "message"), [(True, "other places in data/"), (False, "belong to other INPUTs")])
def test_a_run_resumes_only_with_its_inputs(
    above: bool, message: str, across: bool, finished: bool, inputs: Path, tmp_path: Path
) -> None:
    """Their places in `data/` follow from the INPUTs, and in counts each INPUT is a source."""
    (tmp_path / "above").mkdir()
    inner, out = inputs.rename(tmp_path / "above/inner"), tmp_path / "out"
    with nullcontext() if finished else interrupting():
        gpulsh.deduplicate_files(inner.parent if above else inner, out, across=across, **OPTIONS)
    with pytest.raises(OutputError, match=message):
        gpulsh.deduplicate_files(sorted(inner.iterdir()), out, across=across, resume=True, **OPTIONS)


def test_an_unfinished_run_resumes_only_on_request_and_in_its_version(inputs: Path, tmp_path: Path) -> None:
    """Other versions wrote other facts. The first ones kept no secret, so they left no evidence."""
    out, path = tmp_path / "out", tmp_path / "out/_work/manifest.jsonl"
    interrupt(inputs, out)
    with pytest.raises(OutputError, match="unfinished run; give resume=True"):
        gpulsh.deduplicate_files(inputs, out, **OPTIONS)
    begun, *steps = path.read_bytes().splitlines(keepends=True)
    job = json.loads(begun.partition(b" ")[2])
    assert len(steps) > 3 and len(bytes.fromhex(job["secret"])) == 32
    own = job.pop("format")
    for other in ({}, {"format": own - 1}, {"format": own + 1}, {"format": str(own)}):
        content = json.dumps({**job, **other}).encode()
        path.write_bytes(b"%08x %s\n" % (zlib.crc32(content), content) + b"".join(steps))
        before = path.read_bytes()
        with pytest.raises(OutputError, match=r"another version of gpulsh began this run; .* give overwrite=True"):
            gpulsh.deduplicate_files(inputs, out, resume=True, **OPTIONS)
        assert path.read_bytes() == before
    gpulsh.deduplicate_files(inputs, out, overwrite=True, **OPTIONS)
    assert not (out / "_work").exists() and (out / "report.json").exists()


def test_a_run_resumes_as_an_earlier_version_cut_it(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large files of lines had no parts."""
    out, path = tmp_path / "out", tmp_path / "out/_work/manifest.jsonl"
    interrupt(inputs, out)
    begun, *steps = path.read_bytes().splitlines(keepends=True)
    job = json.loads(begun.partition(b" ")[2])
    del job["job"]["cut"]["part"]
    content = json.dumps(job).encode()
    path.write_bytes(b"%08x %s\n" % (zlib.crc32(content), content) + b"".join(steps))
    outlive_an_error(monkeypatch, TaskSizes(**job["job"]["cut"], part=100))
    monkeypatch.setattr("gpulsh.run.job.MIN_PARTS", 1)
    gpulsh.deduplicate_files(inputs, out, resume=True, **OPTIONS)
    gpulsh.deduplicate_files(inputs, tmp_path / "whole", **OPTIONS)
    assert results(out) == results(tmp_path / "whole")


RUN = """
import sys
from gpulsh import budget
budget.PARTITION_BYTES = budget.PARALLEL_BYTES = 2000
budget.PARTITION_BATCHES = 0
import gpulsh
gpulsh.deduplicate_files(sys.argv[1], sys.argv[2], resume=True, backend="cpu", threads=1, keep="score")
"""


def test_a_killed_process_resumes(inputs: Path, tmp_path: Path) -> None:
    """It is killed between the first and the last change of the disk; GPULSH_SEED chooses the instants."""
    wanted, killed = whole_results(inputs, tmp_path), 0
    instants = random.Random(int(os.environ.get("GPULSH_SEED", "3")))

    def begun(out: Path) -> tuple[subprocess.Popen[bytes], float]:
        process = subprocess.Popen([sys.executable, "-c", RUN, str(inputs), str(out)])
        while not out.exists() and process.poll() is None:
            time.sleep(0.0005)
        return process, time.perf_counter()

    process, start = begun(tmp_path / "out")
    assert process.wait() == 0
    span = time.perf_counter() - start
    assert results(tmp_path / "out") == wanted
    for number in range(50 if SOAK else 1):
        target = tmp_path / f"out{number}"
        process, _ = begun(target)
        time.sleep(span * instants.random())
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        gpulsh.deduplicate_files(inputs, target, resume=True, **OPTIONS)
        assert results(target) == wanted and not (target / "_work").exists()
    assert killed


# --- a power cut in the middle of many small files: few calls make them durable, and none is lost ---


FILES = 24


def test_a_run_over_many_small_files_resumes_after_a_power_cut(mortals: Mortals, tmp_path: Path) -> None:
    """The power is cut at regular calls, and around each one that publishes results."""
    for number in range(FILES):
        text = " ".join(f"w{(number - (number % 7 == 6)) * 5 + i}" for i in range(30))
        (tmp_path / f"in/{number % 2}").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"in/{number % 2}/{number:03d}.txt").write_text(text)

    def run(name: str, at: int | None = None) -> Death:
        (tmp_path / name).mkdir(exist_ok=True)
        given = ["dedup", str(tmp_path / "in"), "-o", str(tmp_path / name / "out"), "--backend", "reference"]
        # On one thread: no other thread works while a kill undoes changes that were not durable.
        death = mortals.run(tmp_path / name, [*given, "--threads", "1", "--resume"], at=at)
        assert death.killed if at else death.status == 0, death.stderr
        return death

    whole = run("whole")
    wanted = results(tmp_path / "whole/out")
    assert FILES * 0.8 < sum(name.endswith(".txt") for name in wanted) < FILES
    counted = Counter(call.partition(" ")[0] for call in whole.calls)
    assert counted["syncfs"] == 1 and counted["fsync"] < 70
    cuts, again = spread(whole.calls, 3 if SOAK else 80, r"^rename|^rmdir|^fsync data"), 0
    for at in cuts:
        run(str(at), at)
        again += "is missing or damaged" in run(str(at)).stderr
        assert results(tmp_path / f"{at}/out") == wanted and not (tmp_path / f"{at}/out/_work").exists()
    assert len(cuts) > 10 and again  # some had a line, but no name in the folder
