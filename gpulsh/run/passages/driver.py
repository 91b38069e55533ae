"""The stages of `passages_files`: their order and tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpulsh.backends.protocol import Backend
from gpulsh.ragged import offsets
from gpulsh.run.driver import partitions_of, run_stage, tasks_of
from gpulsh.run.job import Layout, Made, Runner, Stage, Task, tallied
from gpulsh.run.passages.evidence import LIST, collect, write_list
from gpulsh.run.passages.find import meet, repeat, sample, window
from gpulsh.run.passages.job import PassagesJob
from gpulsh.run.passages.mark import CLASSES, apart, locate, mark, most_frequent
from gpulsh.stats.stages import OF_PASSAGES, Funnel, Progress

WINDOW_COST = 2  # memory for a window, in digests


@dataclass(frozen=True)
class Marked:
    """All passages of a run, in the work folder, and what is known of them."""

    layout: Layout
    counts: Mapping[str, int]
    classes: Sequence[Mapping[str, Any]]  # windows by their occurrences
    frequent: Sequence[Sequence[Any]]  # of `most_frequent`


@dataclass(frozen=True)
class Stages:
    """Runs stages of a job."""

    runner: Runner
    progress: Progress
    funnel: Funnel = field(default_factory=Funnel)  # of which the seconds count

    def run(
        self,
        name: str,
        work: Callable[..., Made],
        arguments: Iterable[tuple[object, ...]],
        total: int | None,
        *,
        parallel: bool = False,
    ) -> list[Mapping[str, Any]]:
        """The facts of each task of a stage."""
        return self.tasks(name, tasks_of(name, work, arguments), total, parallel=parallel)

    def tasks(
        self, name: str, tasks: Sequence[Task], total: int | None, *, parallel: bool = False
    ) -> list[Mapping[str, Any]]:
        """The same of tasks with other names."""
        stage = Stage(OF_PASSAGES[name], tasks, parallel)
        return run_stage(stage, total, self.runner, self.progress, self.funnel)


def mark_partitions(job: PassagesJob, ops: Backend, stages: Stages) -> Marked:
    """All stages from the files to `passages.parquet`; `ops` only says how the work is best cut for it."""
    texts = job.texts(ops)
    total = texts.check()
    parts = partitions_of(texts, job.cut, total)
    count, numbers, parallel = len(parts), range(len(parts)), job.cut.parallel is not None
    sampled = stages.run("sample", sample, ((part,) for part in parts), total, parallel=parallel)
    layout = _layout(job, sampled)
    places = replace(layout, partitions=offsets([facts["places"] for facts in sampled]))
    ranges = _ranges(job, tallied(sampled, "samples"))
    stages.run("meet", meet, ((places, part, ranges) for part in range(ranges)), ranges)
    hashing = ((layout, places, part, ranges) for part in parts)
    windows = stages.run("window", window, hashing, count, parallel=parallel)
    number = _ranges(job, WINDOW_COST * tallied(windows, "windows"))
    stages.run("repeat", repeat, ((places, part, number) for part in range(number)), number)
    marked = stages.run("mark", mark, ((places, part, number) for part in numbers), count, parallel=True)
    located = stages.run("locate", locate, ((layout, places, part) for part in parts), count, parallel=parallel)
    collected = stages.run("collect", collect, ((layout, places, part) for part in numbers), count, parallel=True)
    stages.tasks("list", [Task(LIST, write_list, (layout, tuple(int(facts["ids"]) for facts in collected)))], 1)
    return Marked(layout, _counts(sampled, marked, located), _classes(marked), _frequent(located))


def _layout(job: PassagesJob, sampled: Sequence[Mapping[str, Any]]) -> Layout:
    rows = Counter[int]()
    for facts in sampled:
        rows.update({int(number): count for number, count in facts["rows"].items()})
    files = offsets([rows[number] for number in range(len(job.files))])
    documents = offsets([facts["documents"] for facts in sampled])
    return Layout(documents, files, np.zeros(len(job.files), np.int64), 0, ())


def _ranges(job: PassagesJob, hashes: int) -> int:
    return max(1, -(-hashes // job.cut.digests))


def _counts(*stages: Sequence[Mapping[str, Any]]) -> Mapping[str, int]:
    names = ("documents", "nulls", "bytes", "windows", "passages", "tokens", "bytes_marked", "documents_marked")
    return {name: sum(tallied(facts, name) for facts in stages) for name in names}


def _classes(marked: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    names = ("distinct", "before", "after")
    sums = {name: np.sum([facts[name] for facts in marked], axis=0).tolist() for name in names}
    last = [*(least - 1 for least in CLASSES[1:]), None]
    found = [
        {"least": least, "most": last[at], **{name: sums[name][at] for name in names}}
        for at, least in enumerate(CLASSES)
    ]
    return [entry for entry in found if entry["distinct"] or entry["before"]]


def _frequent(located: Sequence[Mapping[str, Any]]) -> Sequence[Sequence[Any]]:
    return apart(most_frequent([one for facts in located for one in facts["frequent"]]))
