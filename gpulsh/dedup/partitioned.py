"""The main job over files in partitions: which tasks follow which. A runner runs them; nothing here holds a document.

sign        every partition
copies      every range of exact hashes
collide     every range of digests
connect     connected documents, merged in a tree; groups of whole components
route       to the groups, what every range found
gather      every partition: texts of the documents that met others
decide      every group
collect     every partition
write       every file; the evidence
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from gpulsh.backends.protocol import Backend
from gpulsh.dedup.funnel import Funnel
from gpulsh.dedup.job import Job, step_file
from gpulsh.dedup.judging import is_read
from gpulsh.dedup.order import check_kinds
from gpulsh.dedup.placed import Placed
from gpulsh.dedup.progress import Progress
from gpulsh.dedup.stages import collide as collide_stage
from gpulsh.dedup.stages import copies as copies_stage
from gpulsh.dedup.stages import route as route_stage
from gpulsh.dedup.stages import verify as verify_stage
from gpulsh.dedup.stages.collect import collect
from gpulsh.dedup.stages.collect import step_of as collect_step
from gpulsh.dedup.stages.connect import FAN, connect
from gpulsh.dedup.stages.evidence import evidence
from gpulsh.dedup.stages.gather import gather
from gpulsh.dedup.stages.gather import step_of as gather_step
from gpulsh.dedup.stages.sign import sign
from gpulsh.dedup.stages.sign import step_of as sign_step
from gpulsh.dedup.stages.write import write
from gpulsh.dedup.task import Runner, Stage, Task, tallied
from gpulsh.io.file_texts import Partition

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What is known when all is done."""

    funnel: Funnel
    rows: Sequence[int]  # of each file


def deduplicate_partitions(job: Job, folder: Path, ops: Backend, runner: Runner, progress: Progress) -> Outcome:
    """Everything from the files to the results in `folder`. `ops` is looked at for how it is best fed, no more."""
    return _Run(job, folder, runner, progress).whole(ops)


class _Run:
    def __init__(self, job: Job, folder: Path, runner: Runner, progress: Progress) -> None:
        self._job, self._folder, self._runner, self._progress = job, folder, runner, progress
        self._funnel = Funnel()

    def whole(self, ops: Backend) -> Outcome:
        job = self._job
        texts = job.texts(ops)
        total = texts.check()
        partitions = texts.partitions(job.cut.partition)
        tasks = [Task(sign_step(partition.number), sign, (partition,)) for partition in partitions]
        placed = self._placed(self._stage("sign", tasks, total, "B"))
        copies = self._copies(placed)
        pairs, crowds, members, groups = self._met(placed, copies)
        gathered = self._gathered(partitions, placed, members) if groups else 0
        self._decided(placed, pairs, crowds, self._routed, groups, gathered)
        tasks = [
            Task(collect_step(partition.number), collect, (placed, partition.number, groups))
            for partition in partitions
        ]
        collected = self._stage("collect", tasks, len(partitions), "partitions")
        told = Task("evidence", evidence, (placed, tuple(int(fact["ids"]) for fact in collected)))
        files = [number for number, file in enumerate(job.files) if not job.policy.protects(file)]
        if job.write == "duplicates":
            files = []
        tasks = [Task(f"write-{number:06d}", write, (placed, number)) for number in files]
        *_, facts = self._stage("write", [*tasks, told], int(np.diff(placed.files)[files].sum()), "documents")
        if job.on_error == "skip":
            self._funnel.leave_out(facts["records"], facts["rejected_rows"])
        return Outcome(self._funnel, np.diff(placed.files).tolist())

    def _stage(self, name: str, tasks: Sequence[Task], total: int | None, unit: str) -> list[Facts]:
        with self._funnel.stage(self._progress, name, total, unit):
            return self._runner.run(Stage(name, tasks, total, unit))

    def _placed(self, signed: Sequence[Facts]) -> Placed:
        """Where documents stand, from the facts of the partitions; counts them."""
        job, funnel = self._job, self._funnel
        if job.policy.key is not None:
            check_kinds((kind for facts in signed for kind in facts["kinds"]), job.policy.key)
        rows = np.zeros(len(job.files), np.int64)
        for facts in signed:
            for number, found in facts["rows"].items():
                rows[int(number)] += found
        for name in ("documents", "nulls", "empty", "bytes", "shingles"):
            setattr(funnel, name, tallied(signed, name))
        numbers = {source: number for number, source in enumerate(dict.fromkeys(file.source for file in job.files))}
        files = _starts(rows)
        return Placed(
            _starts([int(facts["documents"]) for facts in signed]),
            files,
            np.array([numbers[file.source] for file in job.files], np.int64),
            int(files[sum(map(job.policy.protects, job.files))]),
            tuple(number for number, facts in enumerate(signed) if facts["rejected"]),
        )

    def _ranges(self, digests: int) -> int:
        return max(1, -(-digests // self._job.cut.digests))

    def _copies(self, placed: Placed) -> list[Path]:
        parts = self._ranges(len(placed))
        steps = [copies_stage.step_of(part) for part in range(parts)]
        tasks = [Task(step, copies_stage.copies, (placed, part, parts)) for part, step in enumerate(steps)]
        self._stage("copies", tasks, parts, "ranges")
        return [step_file(self._folder, step, "copies") for step in steps]

    def _met(self, placed: Placed, copies: list[Path]) -> tuple[list[Path], list[Path], Path, int]:
        """Candidate pairs and memberships, in order of their groups; the members of groups; how many groups."""
        bands = self._job.plan.banding.bands
        parts = self._ranges(len(placed) * bands)
        steps = [collide_stage.step_of(part) for part in range(parts)]
        tasks = [
            Task(step, collide_stage.collide, (placed, len(copies), part, parts)) for part, step in enumerate(steps)
        ]
        met = self._stage("collide", tasks, parts * bands, "bands")
        self._crowded = tallied(met, "memberships")
        stars = [step_file(self._folder, step, "connected") for step in steps]
        members, groups = self._connected(stars, copies, placed)
        found = [[step_file(self._folder, step, what) for what in ("pairs", "crowd")] for step in steps]
        routes = [(f"route-{step}", paths) for step, paths in zip(steps, found, strict=True)]
        routes.append(("route-copies", copies))
        tasks = [Task(step, route_stage.route, (step, members, tuple(paths))) for step, paths in routes]
        self._stage("route", tasks, len(tasks), "ranges")
        self._routed = [route_stage.routed(self._folder, "route-copies", path) for path in copies]
        routed = [
            [route_stage.routed(self._folder, step, path) for path in paths] for step, paths in routes[: len(steps)]
        ]
        return [pairs for pairs, _ in routed], [crowd for _, crowd in routed], members, groups

    def _connected(self, stars: list[Path], copies: list[Path], placed: Placed) -> tuple[Path, int]:
        """The members of groups, and how many groups: stars merged FAN at a time, until one task takes all."""
        for level in count():
            if len(stars) + len(copies) <= 2 * FAN:
                break
            tasks, merged = [], []
            for number, start in enumerate(range(0, max(len(stars), len(copies)), FAN)):
                some = slice(start, start + FAN)
                step = f"connect-{level}-{number:06d}"
                tasks.append(Task(step, connect, (step, tuple(stars[some]), tuple(copies[some]), None)))
                merged.append(step_file(self._folder, step, "members"))
            self._stage("connect", tasks, len(tasks), "ranges")
            stars, copies = merged, []
        last = Task("connect", connect, ("connect", tuple(stars), tuple(copies), placed))
        (facts,) = self._stage("connect", [last], 1, "ranges")
        self._members = int(facts["documents"])
        self._meeting = int(facts["meeting"])
        return step_file(self._folder, "connect", "members"), int(facts["groups"])

    def _gathered(self, partitions: Sequence[Partition], placed: Placed, members: Path) -> int:
        """In how many partitions texts were gathered: all, or none where no text is read again."""
        if not is_read(self._job.plan, self._crowded) or not self._meeting:
            return 0
        tasks = [Task(gather_step(partition.number), gather, (placed, partition, members)) for partition in partitions]
        self._stage("gather", tasks, self._meeting, "documents")
        return len(partitions)

    def _decided(
        self,
        placed: Placed,
        pairs: Sequence[Path],
        crowds: Sequence[Path],
        copies: Sequence[Path],
        groups: int,
        gathered: int,
    ) -> None:
        tasks = [
            Task(
                verify_stage.step_of(group),
                verify_stage.verify,
                (placed, group, tuple(pairs), tuple(crowds), tuple(copies), gathered),
            )
            for group in range(groups)
        ]
        facts = self._stage("verify", tasks, self._members, "documents")
        funnel = self._funnel
        for name in ("exact_copies", "crowded", "candidates", "verified", "dropped"):
            setattr(funnel, name, tallied(facts, name))
        funnel.kept = funnel.documents - funnel.dropped


def _starts(counts: Any) -> Any:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.asarray(counts, np.int64))])
