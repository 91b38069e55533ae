"""Measures samples of a user's files on this machine, and foretells what `gpulsh dedup` of all of them will take.

Samples are run as the user would run them, in processes of their own, so that start-up, memory and the format's own
costs (to decode it, and to pack it as the input is) are those of the run to come. The first one is very small, and
tells how large others may be to take a few seconds; the last two are what is foretold from. What fits in those seconds
is run whole, and nothing is foretold.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from gpulsh.account.costs import Corpus, stage_works
from gpulsh.arrays import Numbers
from gpulsh.backends.processors import processors
from gpulsh.errors import InputError, ParameterError
from gpulsh.facts import Facts
from gpulsh.io.columns import Columns
from gpulsh.io.file import File
from gpulsh.io.files.file_texts import FileTexts
from gpulsh.io.files.form import Form
from gpulsh.io.files.inputs import find_files, refuse_unused
from gpulsh.io.files.pipes import is_stream
from gpulsh.io.files.sampled import SampledFiles, bytes_of, rows_of
from gpulsh.report.plan.estimate import recorded
from gpulsh.run.engines.abreast import most_abreast
from gpulsh.run.foretell.growth import START, Foretold, Machine, Repeats, Taken, foretold, repeats
from gpulsh.run.foretell.trial import run
from gpulsh.store.durable import writing

FIRST_BYTES = 256 << 10  # of files
# In starts of the program, of about a second; where the machine is busy, they take as much longer as all else.
STAGE_STARTS = 0.25  # that a stage may take however little there is to do
SAMPLE_STARTS = 5.0  # that the largest sample may take, about
WHOLE_STARTS = 1.0  # that a run of all may take longer, after which nothing is left to foretell
TIMES = 4  # as large as the first one, at least
APART = 6  # times as large, about, where there is time for a third one
THREAD_BYTES, LEAST_BYTES, MOST_BYTES = 32 << 20, 64 << 20, 256 << 20  # of text: for each thread, and in all
NEARLY_ALL = 0.75  # share of the files from which on they are run as they are


@dataclass(frozen=True)
class Plan:
    """What a run will take, and what that was measured on."""

    foretold: Foretold
    machine: Machine
    parameters: Facts  # of the run, as its report tells them
    backend: str
    files: int
    bytes: int  # of the files
    sample: float  # documents that were run
    seconds: float  # that measuring took

    @property
    def whole(self) -> bool:
        """Whether all documents were run, so that nothing is foretold but that it will be so again."""
        return self.sample == self.foretold.likely.corpus.documents

    @property
    def work(self) -> float:
        """Bytes of OUT/_work at most, beside the results, which are made there, too."""
        works = stage_works(self.foretold.likely.corpus, self.machine.bands)
        return sum(work.written for work in works.values())

    def to_dict(self) -> Facts:
        """As JSON values."""
        return {
            "files": self.files,
            "bytes": self.bytes,
            "sample": self.sample,
            "measured": round(self.seconds, 3),
            "backend": self.backend,
            "threads": self.machine.threads,
            "memory": self.machine.memory,
            "parameters": self.parameters,
            "likely": {**asdict(self.foretold.likely), "all": self.foretold.likely.all, "work": self.work},
            "least": {**asdict(self.foretold.least), "all": self.foretold.least.all},
            "most": {**asdict(self.foretold.most), "all": self.foretold.most.all},
        }


def plan(inputs: Sequence[str], options: Facts) -> Plan:
    """Foretell `gpulsh dedup INPUTS`; `options` are its own, by their names and as they are written, or Python's lists.

    Raises InputError, also where an INPUT can be read only once or a sample cannot be run, ParameterError, and whatever
    else the run itself would raise before it begins.
    """
    began = time.perf_counter()
    protect = list(options.get("protect") or ())
    for given in (*protect, *inputs):
        if is_stream(given):
            raise InputError(f"{given}: can be read only once, and a sample of it would be lost; give a file")
    form = Form(**{own.name: options[own.name] for own in fields(Form) if options.get(own.name)})
    files = find_files(list(inputs), protect, form=form)
    refuse_unused(files, form)
    columns = Columns(text=options.get("text_column") or "text")
    FileTexts(files, columns).check()
    size = bytes_of(files)
    with writing(tempfile.gettempdir()), tempfile.TemporaryDirectory(prefix="gpulsh-") as folder:
        trials = _Trials(files, inputs, protect, options, Path(folder))
        large = small = first = trials.run(FIRST_BYTES / max(size, 1))
        if first.share < 1:
            share = _next(first)
            if share > APART * APART * first.share:  # which is too small to have what a stage begins with
                small = trials.run(share / APART, twice=True)
                share = _next(small, first)
                share = 1.0 if _is_soon_run(share, small, first) else share
            large = trials.run(share, twice=True)
        of = large.repeats()
    corpus = large.taken.corpus
    if large.share < 1:
        documents = rows_of(files, columns) or corpus.documents / max(large.share, 1 / size)
    else:
        documents, small = corpus.documents, large
    machine = _machine(large.report, corpus)
    text = corpus.bytes * documents / corpus.documents
    found = foretold(small.taken, large.taken, of, documents, text, machine)
    return Plan(
        found,
        machine,
        large.report["parameters"],
        large.report["backend"]["name"],
        len(files),
        size,
        corpus.documents,
        time.perf_counter() - began,
    )


def _machine(report: Facts, corpus: Corpus) -> Machine:
    """What the report of a run tells of the machine."""
    given, of_jaccard = report["parameters"], report["parameters"].get("measure", "jaccard") == "jaccard"
    threads = most_abreast(given["threads"] or processors(), given["memory"])
    other = ("gather",) if of_jaccard else ("gather", "collide")  # those whose amounts here are others
    known = recorded().get("thread" if report["backend"]["name"] == "cpu" else "GPU", {}).get("rates", {})
    return Machine(
        # Of containment every shingle is brought together, in rows as long as a digest's.
        bands=given["banding"]["bands"] if of_jaccard else corpus.bytes / corpus.documents / corpus.bytes_per_shingle,
        threads=threads,
        memory=given["memory"],
        usual={name: rate * threads for name, rate in known.items() if name not in other},
    )


class _Trial(NamedTuple):
    """A run of a share of the files, whose results are in `out`."""

    share: float
    report: Facts
    buckets: Mapping[int, int]  # of its candidate pairs
    taken: Taken
    out: Path

    def repeats(self) -> Repeats:
        """How its documents repeat one another."""
        starts: dict[str, int] = {}
        position = 0
        for entry in self.report["files"]:
            starts[entry["file"]] = position
            position += entry["rows"]
        table = pq.read_table(self.out / "duplicates.parquet")

        def positions(of: str) -> Numbers:
            begun = [starts[name] for name in table[f"{of}file"].to_pylist()]
            rows: Numbers = table[f"{of}row"].to_numpy()
            return rows + np.array(begun, np.int64)

        return repeats(positions(""), positions("duplicate_of_"), position, self.buckets)


def _next(last: _Trial, before: _Trial | None = None) -> float:
    """What share the next sample is to be, by what the last ones took."""
    sign, write = _starts(last, before)
    cost = sign + 2 * write  # a sample is written twice: to draw it, and by the run
    size = last.taken.corpus.bytes / last.share
    wanted = min(max(THREAD_BYTES * processors(), LEAST_BYTES), MOST_BYTES)
    return max(min(SAMPLE_STARTS / max(cost, 1e-9), wanted / size), TIMES * last.share)


def _is_soon_run(share: float, last: _Trial, before: _Trial) -> bool:
    """Whether a run of all takes a start more than one of that share, at most, and the space of two such samples."""
    sign, write = _starts(last, before)
    size = last.taken.corpus.bytes / last.share
    return sign + write <= share * (sign + 2 * write) + WHOLE_STARTS and size <= 2 * MOST_BYTES


def _starts(last: _Trial, before: _Trial | None) -> tuple[float, float]:
    """How many starts of the program it takes to sign, and to write, all files; by one run of some, or by two."""
    known = dict.fromkeys(last.taken.seconds, 0.0) if before is None else before.taken.seconds
    share = 0.0 if before is None else before.share
    start = last.taken.seconds[START]
    begin = STAGE_STARTS * start if before is None else 0.0
    sign, write = (
        max(last.taken.seconds[name] - known[name] - begin, 0.0) / start / (last.share - share)
        for name in ("sign", "write")
    )
    return sign, write


class _Trials:
    """Runs of samples of the files, in `folder`."""

    def __init__(
        self, files: Sequence[File], inputs: Sequence[str], protect: Sequence[str], options: Facts, folder: Path
    ) -> None:
        self._files, self._inputs, self._protect, self._folder = files, list(inputs), list(protect), folder
        self._patterns = list(options.get("as_text") or ())
        left_out = ["protect", "as_text", *(["keep"] if str(options.get("keep")).startswith("source:") else [])]
        self._options = [
            part for name, value in options.items() if name not in left_out for part in _option(name, value)
        ]
        self._number = 0

    def run(self, share: float, *, twice: bool = False) -> _Trial:
        """Run about that share; a sample `twice` where much follows from its seconds, the lesser of each stage."""
        self._number += 1
        names: dict[str, str] = {}
        inputs, protected, patterns = self._inputs, self._protect, self._patterns
        if share < NEARLY_ALL:
            folder = self._folder / f"sample-{self._number}"
            drawn = SampledFiles.of(self._files, share, folder, self._protect)
            inputs, protected = (
                [drawn.folders[of] for of in given if of in drawn.folders] for given in (inputs, protected)
            )
            share, names = drawn.share, drawn.names
            patterns = [f"*{pattern.rpartition('/')[2]}" for pattern in patterns]  # the names have a number before them
        else:
            share = 1.0
        arguments = [*self._options, *(f"--protect={path}" for path in protected)]
        arguments += [*(f"--as-text={pattern}" for pattern in patterns), "--", *inputs]
        out = self._folder / f"out-{self._number}"
        try:
            ended, took = run(arguments, out)
            compiled = ended.report["compiling"]  # what no other run on this machine will
            # The first run behind a sample's drawing takes longer than others: the system still works at its files.
            if compiled or (twice and share < 1):
                shutil.rmtree(out)
                ended, again = run(arguments, out)
                took = again if compiled else took.or_less(again)
        except (InputError, ParameterError) as error:
            told = error.message
            for path, name in names.items():
                told = told.replace(path, name)
            raise type(error)(told) from error
        return _Trial(share, ended.report, ended.buckets, took, out)


def _option(name: str, value: object) -> list[str]:
    """An option of the command with its value; nothing where it is not given."""
    option = "--and" if name == "also" else f"--{name.replace('_', '-')}"
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    if isinstance(value, (list, tuple)):
        value = ",".join(map(str, value))
    return [f"{option}={value}"]
