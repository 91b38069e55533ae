"""The main job over files in partitions: the order of the stages, which `run.stages` lists, and their tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpulsh.backends.protocol import Backend
from gpulsh.budget import EXACT_COST, Cut
from gpulsh.decide.decide import is_read
from gpulsh.decide.sample import NOTHING, Sample
from gpulsh.io.files.file_texts import FileTexts, Partition
from gpulsh.run.engines import Runner
from gpulsh.run.job import Job, Layout, Made, Stage, Task, step_of, tallied
from gpulsh.run.policy import check_kinds
from gpulsh.run.records import tables
from gpulsh.run.records.documents import rejected
from gpulsh.run.records.results import IdColumn
from gpulsh.run.records.tables import Ranges, Table
from gpulsh.run.records.texts import GatheredTexts
from gpulsh.run.stages.arrange import gather, route
from gpulsh.run.stages.collide import POSTING_COST, WEIGH, collide, copies, join, keys, prefix, weigh
from gpulsh.run.stages.connect import group
from gpulsh.run.stages.contamination import PROTECT, contamination, protect, screen
from gpulsh.run.stages.sign import sight, sign
from gpulsh.run.stages.verify import compare, verify
from gpulsh.run.stages.write import clusters, collect, evidence, runs_of, step_of_run, write, written
from gpulsh.stats.counts import TALLIED
from gpulsh.stats.stages import KNOWN, Funnel, Progress

Groups = Mapping[str, int]  # the counts of `stages.connect.group`
Met = tuple[int, int]  # ranges, and members of large buckets

MOST_PARTITIONS = 4096  # each range and group looks into the files of all
FEWEST_PARTITIONS = 64  # that run in parallel, unless they are very small: the last ones of many cores are short


@dataclass(frozen=True)
class Decided:
    """All decisions, in the files of `collect`, and the texts and pairs for the report."""

    layout: Layout
    id_files: tuple[int, ...]  # how many files of ids each partition has
    gathered: GatheredTexts | None = None  # texts read again, while the work folder exists
    sample: Sample = NOTHING  # of the pairs that were compared
    ranges: Ranges = field(default_factory=Ranges)
    kept: Mapping[int, int] = field(default_factory=dict)  # kept rows by file, with --min-sources


@dataclass(frozen=True)
class Stages:
    """Runs stages of a job. The funnel has their seconds, including stages that an earlier run had begun."""

    runner: Runner
    progress: Progress
    funnel: Funnel = field(default_factory=Funnel)

    def run(
        self,
        name: str,
        work: Callable[..., Made],
        arguments: Iterable[tuple[object, ...]],
        total: int | None,
        *,
        parallel: bool = False,
        step: str | None = None,
    ) -> list[Mapping[str, Any]]:
        """The facts of the task of each partition, range, group or share, which is named by `step` or the stage."""
        tasks = [Task(step_of(step or name, number), work, given) for number, given in enumerate(arguments)]
        return self.tasks(name, tasks, total, parallel=parallel)

    def tasks(
        self, name: str, tasks: Sequence[Task], total: int | None, *, parallel: bool = False
    ) -> list[Mapping[str, Any]]:
        """Run these tasks; the facts of each."""
        row = KNOWN[name]
        with self.funnel.stage(self.progress, row, total):
            facts = self.runner.run(Stage(row, tasks, parallel))
        self.funnel.resumed = sorted({*self.funnel.resumed, *self.runner.resumed})
        return facts


# Decides instead of the stages before `write`, with documents of earlier runs. The decisions are durable then.
Decider = Callable[[Sequence[Partition], int | None, Stages], Decided]


def deduplicate_partitions(
    job: Job, folder: Path, ops: Backend, stages: Stages, decider: Decider | None = None
) -> Decided:
    """All stages from the files to the results in `folder`; `ops` only decides how the work is divided."""
    texts = job.texts(ops)
    total = texts.check()
    partitions = partitions_of(texts, job.cut, total, parallel=decider is None)
    run = _Run(job, folder, stages, stages.funnel)
    decided = decider(partitions, total, stages) if decider else run.decide(partitions, total)
    return replace(decided, kept=run.write(decided))


def partitions_of(
    texts: FileTexts, cut: Cut, total: int | None, *, parallel: bool = True, first: int = 0
) -> list[Partition]:
    """The partitions of a run, of about `total` bytes of text; smaller ones where several may be read in parallel.

    They begin with the file `first`.
    """
    partition = cut.partition
    if cut.parallel is not None and total is not None and parallel:
        partition = min(partition, max(total // FEWEST_PARTITIONS, cut.parallel))
    return texts.partitions(max(partition, (total or 0) // MOST_PARTITIONS), first)


@dataclass(frozen=True)
class _Run:
    """The stages of one job, in order. Each makes its tasks, and counts their results."""

    job: Job
    folder: Path
    stages: Stages
    funnel: Funnel

    def decide(self, partitions: Sequence[Partition], total: int | None) -> Decided:
        """All stages before `write`."""
        self.screen(partitions, total)
        signed = self.sign(partitions, total)
        layout = self.job.layout(signed)
        if self.job.counting.read():
            sighted = ((layout, number) for number in range(len(partitions)))
            self.stages.run("sight", sight, sighted, len(partitions), parallel=True)
        ranges = Ranges(keys=0 if self.job.key is None else self.keys(layout))
        if self.job.key is not None and self.job.key.only:
            self.funnel.dropped = self.funnel.key_copies
            self._count_kept(layout)
            return Decided(layout, self.collect(layout, ranges.keys, signed), ranges=ranges)
        ranges = replace(ranges, copies=self.copies(layout, ranges))
        meet = self.join if self.job.method.measure == "containment" else self.collide
        met, in_large = meet(layout, ranges)
        ranges = replace(ranges, met=met)
        (groups,) = self.stages.tasks("connect", [Task(tables.CONNECT, group, (layout, ranges))], 1)
        self.route(ranges)
        read = groups["meeting"] > 0 and is_read(self.job.method, in_large)
        if read:
            given = ((layout, partition, tables.CONNECT) for partition in partitions)
            self.stages.run("gather", gather, given, groups["meeting"], parallel=True)
        if groups["shares"]:
            self.compare(layout, groups, ranges)
        self.verify(layout, groups, ranges, len(partitions) if read else 0)
        texts = GatheredTexts(self.folder, layout) if read else None
        ids = self.collect(layout, groups["groups"], signed)
        return Decided(layout, ids, texts, self.sample(groups), ranges)

    def screen(self, partitions: Sequence[Partition], total: int | None) -> None:
        """Index the protected files, and find the documents that hold their items, with --passages. Counts these."""
        job = self.job
        if job.policy.overlap is None:
            return
        pieces = [piece for partition in partitions for piece in partition.pieces]
        items = tuple(piece for piece in pieces if job.policy.protects(job.files[piece.file]))
        self.stages.tasks("protect", [Task(PROTECT, protect, (items,))], None)
        given = ((partition,) for partition in partitions)
        facts = self.stages.run("screen", screen, given, total, parallel=job.cut.parallel is not None)
        self.funnel.contaminated = tallied(facts, "dropped")

    def sign(self, partitions: Sequence[Partition], total: int | None) -> list[Mapping[str, Any]]:
        """Sign every partition. Counts documents."""
        job, funnel = self.job, self.funnel
        given = ((partition,) for partition in partitions)
        signed = self.stages.run("sign", sign, given, total, parallel=job.cut.parallel is not None)
        if job.policy.key is not None:
            check_kinds((kind for facts in signed for kind in facts["kinds"]), job.policy.key)
        for name in ("documents", "nulls", "empty", "bytes", "not_utf8", "stray_bytes", "shingles"):
            setattr(funnel, name, tallied(signed, name))
        funnel.wordless = funnel.empty - funnel.nulls
        return signed

    def keys(self, layout: Layout) -> int:
        """Find and count documents with equal keys; the number of ranges of hashes that they are looked for in."""
        parts = self.job.ranges(EXACT_COST * len(layout))
        facts = self.stages.run("keys", keys, ((layout, part, parts) for part in range(parts)), parts)
        self.funnel.key_copies = tallied(facts, "copies")
        return parts

    def copies(self, layout: Layout, ranges: Ranges) -> int:
        """Find exact copies; the number of ranges of hashes that they are looked for in."""
        parts = self.job.ranges(EXACT_COST * len(layout))
        self.stages.run("copies", copies, ((layout, ranges, part, parts) for part in range(parts)), parts)
        return parts

    def collide(self, layout: Layout, ranges: Ranges) -> Met:
        """Find shared buckets; the number of ranges of digests, and of members of large buckets."""
        bands = self.job.method.banding.bands
        parts = self.job.ranges(len(layout) * bands)
        given = ((layout, ranges, part, parts) for part in range(parts))
        return parts, tallied(self.stages.run("collide", collide, given, parts * bands), "memberships")

    def join(self, layout: Layout, ranges: Ranges) -> Met:
        """Find documents that may contain others. Returns the number of ranges, and 0: there are no large buckets."""
        self.stages.tasks("weigh", [Task(WEIGH, weigh, (layout, ranges, self.funnel.shingles))], 1)
        partitions = len(layout.partitions) - 1
        given = ((layout, ranges, number) for number in range(partitions))
        facts = self.stages.run("prefix", prefix, given, partitions)
        parts = self.job.ranges(POSTING_COST * tallied(facts, "chosen"))
        self.stages.run("join", join, ((layout, ranges, part, parts) for part in range(parts)), parts)
        return parts, 0

    def route(self, ranges: Ranges) -> None:
        """Put the rows of every range, in each table, in order of their groups."""
        counts: Mapping[Table[Any], int] = {
            tables.PAIRS: ranges.met,
            tables.MEMBERSHIPS: ranges.met,
            tables.COPIES: ranges.copies,
            tables.TWINS: ranges.copies if self.job.policy.by_source() else 0,
            tables.KEY_COPIES: ranges.keys,
        }
        tasks = [
            Task(table.routed(number), route, (table, number))
            for table, count in counts.items()
            for number in range(count)
        ]
        self.stages.tasks("route", tasks, len(tasks), parallel=True)

    def compare(self, layout: Layout, groups: Groups, ranges: Ranges) -> None:
        """Compare the pairs of groups that are too large for one task. Counts them."""
        given = ((layout, ranges, share) for share in range(groups["shares"]))
        self.funnel.candidates = tallied(self.stages.run("compare", compare, given, groups["pairs"]), "candidates")

    def verify(self, layout: Layout, groups: Groups, ranges: Ranges, gathered: int) -> None:
        """Compare, where that is not done, and resolve every group. Counts pairs."""
        given = ((layout, ranges, gathered, number) for number in range(groups["groups"]))
        facts, funnel = self.stages.run("verify", verify, given, groups["documents"]), self.funnel
        for name in TALLIED:
            setattr(funnel, name, getattr(funnel, name) + tallied(facts, name))
        funnel.dissimilar = funnel.candidates - funnel.similar
        self._count_kept(layout)
        if self.job.policy.retention.min_sources > 1:  # documents in no candidate pair have one source
            funnel.few_sources, funnel.kept = funnel.kept - tallied(facts, "kept"), tallied(facts, "kept")

    def sample(self, groups: Groups) -> Sample:
        """Bring samples of all shares and groups together."""
        found = NOTHING
        for step in (*(step_of("compare", share) for share in range(groups["shares"])), *range(groups["groups"])):
            found = found.and_of(tables.SAMPLE.read(self.folder, step))
        return found

    def collect(self, layout: Layout, groups: int, signed: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        """Collect the decisions of so many groups about every partition; the number of files of ids of each."""
        given = ((layout, number, groups) for number in range(len(signed)))
        facts = self.stages.run("collect", collect, given, len(signed), parallel=True)
        return tuple(int(fact["ids"]) for fact in facts)

    def write(self, decided: Decided) -> Mapping[int, int]:
        """Write every file's rows, and the evidence; by the number of each written file, how many rows are kept."""
        job, layout = self.job, decided.layout
        ids = None
        if job.added():
            known = IdColumn.of(job, self.folder, layout, decided.id_files, rejected(self.folder, layout))
            ids = decided.id_files, known.type
        tasks = [Task(step_of_run(run), write, (layout, run, ids)) for run in runs_of(job)]
        if job.earlier is None:
            tasks.append(Task("clusters", clusters, (layout, decided.id_files)))
        if job.policy.overlap is not None:
            tasks.append(Task("contamination", contamination, (layout,)))
        tasks.append(Task("evidence", evidence, (layout, decided.id_files, decided.ranges)))
        total = int(np.diff(layout.files)[written(job)].sum())
        *written_files, facts = self.stages.tasks("write", tasks, total, parallel=True)
        if job.on_error == "skip":
            bad_rows = (facts[name] for name in ("records", "rejected_rows", "rejected_protected"))
            self.funnel.leave_out(*bad_rows, few_sources=job.policy.retention.min_sources > 1)
        return {int(number): rows for found in written_files for number, rows in found.get("kept", {}).items()}

    def _count_kept(self, layout: Layout) -> None:
        funnel = self.funnel
        funnel.protected = layout.protected
        funnel.kept = funnel.documents - funnel.protected - funnel.contaminated - funnel.dropped
