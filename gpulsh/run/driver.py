"""The main job over files in partitions: the order of the stages, which `run.stages` lists, and their tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpulsh.backends.protocol import Backend
from gpulsh.budget import EXACT_COST
from gpulsh.decide.decide import reads_texts
from gpulsh.decide.edges import NO_SAMPLE, Sample
from gpulsh.io.files.file_texts import Partition
from gpulsh.run.engines import Runner
from gpulsh.run.job import FileJob, Job, Layout, Stage, Task, TaskResult, fact_sum, step_of
from gpulsh.run.policy import check_kinds
from gpulsh.run.records import tables
from gpulsh.run.records.documents import read_rejected
from gpulsh.run.records.results import IdColumn
from gpulsh.run.records.tables import Ranges, Table
from gpulsh.run.records.texts import beginnings
from gpulsh.run.stages.arrange import gather_texts, route_rows
from gpulsh.run.stages.collide import (
    POSTING_COST,
    WEIGH,
    choose_prefixes,
    find_collisions,
    find_exact_copies,
    find_key_copies,
    join_prefixes,
    weigh_slots,
)
from gpulsh.run.stages.connect import form_groups
from gpulsh.run.stages.contamination import PROTECT, index_protected_items, screen_partition, write_contamination
from gpulsh.run.stages.sign import read_sightings, sign_partition
from gpulsh.run.stages.verify import compare_share, decide_group
from gpulsh.run.stages.write import (
    collect_decisions,
    file_runs,
    step_of_run,
    write_clusters,
    write_evidence,
    write_files,
    written_files,
)
from gpulsh.stats.counts import SUMMED_COUNTS
from gpulsh.stats.stages import ALL_STAGES, TASK_UNITS, Funnel, Progress
from gpulsh.store.columns import release_memory

MAX_PARTITIONS = 4096  # each range and group looks into the files of all
ROW_BYTES = 512  # a partition has at most one document for so many of its most bytes: facts about each are held
MIN_PARTITIONS = 64  # to run in parallel, unless they would be very small: so many cores end at about the same time


@dataclass(frozen=True)
class RunDecisions:
    """All decisions, in the files of `collect`, and the texts and pairs for the report."""

    layout: Layout
    id_files: tuple[int, ...]  # how many files of ids each partition has
    beginnings: Callable[..., dict[tuple[int, int], bytes]] | None = None  # of texts that were read again
    sample: Sample = NO_SAMPLE  # of the pairs that were compared
    ranges: Ranges = field(default_factory=Ranges)
    kept: Mapping[int, int] = field(default_factory=dict)  # kept rows by file, with --min-sources


@dataclass(frozen=True)
class Stages:
    """Runs stages of a job. The funnel has their seconds, including stages that an earlier run had begun."""

    runner: Runner
    progress: Progress
    parallel: bool  # whether tasks that read texts run in parallel
    funnel: Funnel = field(default_factory=Funnel)

    def run(
        self,
        name: str,
        work: Callable[..., TaskResult],
        arguments: Iterable[tuple[object, ...]],
        total: int | None = None,
        *,
        parallel: bool = False,
        step: str | None = None,
    ) -> list[Mapping[str, Any]]:
        """The facts of the task of each partition, range, group or share, which is named by `step` or the stage."""
        tasks = [Task(step_of(step or name, number), work, given) for number, given in enumerate(arguments)]
        return self.run_tasks(name, tasks, total, parallel=parallel)

    def run_ranges(
        self, name: str, work: Callable[..., TaskResult], count: int, *arguments: object
    ) -> list[Mapping[str, Any]]:
        """The facts of the task of each of `count` ranges, which gets `arguments`, the range's number and the count."""
        return self.run(name, work, ((*arguments, part, count) for part in range(count)))

    def run_tasks(
        self, name: str, tasks: Sequence[Task], total: int | None = None, *, parallel: bool = False
    ) -> list[Mapping[str, Any]]:
        """Run these tasks; the facts of each. The total of a stage that counts tasks need not be given."""
        row = ALL_STAGES[name]
        if total is None and row.unit in TASK_UNITS:
            total = len(tasks)
        with self.funnel.stage(self.progress, row, total):
            facts = self.runner.run(Stage(row, tasks, parallel))
        self.funnel.resumed = sorted({*self.funnel.resumed, *self.runner.resumed})
        return facts

    def release_texts(self) -> None:
        """Release the texts that wait in memory, when no stage follows: a report of a million files needs it."""
        if self.runner.held is not None:
            self.runner.held.close()
            release_memory()


# Decides instead of the stages before `write`, with documents of earlier runs. The decisions are durable then.
Decider = Callable[[Sequence[Partition], int | None, Stages], RunDecisions]


def deduplicate_partitions(
    job: Job, folder: Path, ops: Backend, stages: Stages, decider: Decider | None
) -> RunDecisions:
    """All stages from the files to the results in `folder`; `ops` only decides how the work is divided."""
    partitions, total = make_partitions(job, ops, parallel=decider is None)
    decided = decider(partitions, total, stages) if decider else _decide(job, folder, stages, partitions, total)
    return replace(decided, kept=_write(job, folder, stages, decided))


def make_partitions(job: FileJob, ops: Backend, *, parallel: bool = True) -> tuple[list[Partition], int | None]:
    """The partitions of the job's own files, smaller ones where several may be read in parallel; and the bytes of text
    of all, if they are known.
    """
    texts = job.texts(ops)
    total = texts.check(job.earlier_files)
    partition = most = max(job.cut.partition, (total or 0) // MAX_PARTITIONS)
    if job.cut.parallel is not None and total is not None and parallel:
        partition = min(most, max(total // MIN_PARTITIONS, job.cut.parallel))
    found = texts.partitions(partition, job.earlier_files, most // ROW_BYTES)
    return [replace(each, number=each.number + job.earlier_partitions) for each in found], total


def screen_partitions(
    job: FileJob, stages: Stages, partitions: Sequence[Partition], total: int | None
) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """Find the documents that hold protected items; the facts of the items, and of each partition."""
    pieces = tuple(piece for each in partitions for piece in each.pieces if job.protects(piece.file))
    (items,) = stages.run_tasks("protect", [Task(PROTECT, index_protected_items, (pieces,))])
    return items, stages.run("screen", screen_partition, zip(partitions), total, parallel=stages.parallel)


def _sign(job: Job, stages: Stages, partitions: Sequence[Partition], total: int | None) -> Layout:
    """Find the documents that quote protected ones, sign all others, and count them in the funnel."""
    funnel = stages.funnel
    if job.policy.overlap is not None:
        _, facts = screen_partitions(job, stages, partitions, total)
        funnel.contaminated = fact_sum(facts, "dropped")
    signed = stages.run("sign", sign_partition, zip(partitions), total, parallel=stages.parallel)
    if job.policy.order_column is not None:
        check_kinds((kind for facts in signed for kind in facts["kinds"]), job.policy.order_column)
    for name in ("documents", "nulls", "empty", "bytes", "not_utf8", "stray_bytes", "shingles"):
        setattr(funnel, name, fact_sum(signed, name))
    funnel.wordless = funnel.empty - funnel.nulls
    layout = job.layout(signed)
    funnel.protected = layout.protected
    if job.counting.input_columns():
        stages.run("sight", read_sightings, ((layout, number) for number in range(len(partitions))), parallel=True)
    return layout


def _decide(job: Job, folder: Path, stages: Stages, partitions: Sequence[Partition], total: int | None) -> RunDecisions:
    """All stages before `write`."""
    layout = _sign(job, stages, partitions, total)
    funnel, numbers = stages.funnel, range(len(partitions))
    ranges, parts = Ranges(), job.ranges(EXACT_COST * len(layout))
    if job.key is not None:
        funnel.key_copies = fact_sum(stages.run_ranges("keys", find_key_copies, parts, layout), "copies")
        ranges = Ranges(keys=parts)
        if job.key.only:
            funnel.dropped = funnel.key_copies
            funnel.kept = _kept_documents(funnel)
            return RunDecisions(layout, _collect(stages, layout, numbers, parts), ranges=ranges)
    stages.run_ranges("copies", find_exact_copies, parts, layout, ranges)
    ranges = replace(ranges, copies=parts)
    if job.method.measure == "containment":
        met, in_large = _join(job, stages, layout, ranges), 0  # no large buckets
    else:
        bands = job.method.banding.bands
        met = job.ranges(len(layout) * bands)
        given = ((layout, ranges, part, met) for part in range(met))
        in_large = fact_sum(stages.run("collide", find_collisions, given, met * bands), "memberships")
    ranges = replace(ranges, met=met)

    (groups,) = stages.run_tasks("connect", [Task(tables.CONNECT, form_groups, (layout, ranges))])
    _route(job, stages, ranges)
    read = groups["meeting"] > 0 and reads_texts(job.method, in_large)
    if read:
        wanted = ((layout, partition, tables.CONNECT) for partition in partitions)
        stages.run("gather", gather_texts, wanted, groups["meeting"], parallel=True)
    if groups["shares"]:
        shares = ((layout, ranges, share) for share in range(groups["shares"]))
        funnel.candidates = fact_sum(stages.run("compare", compare_share, shares, groups["pairs"]), "candidates")
    gathered = len(partitions) if read else 0
    each = ((layout, ranges, gathered, number) for number in range(groups["groups"]))
    verified = stages.run("verify", decide_group, each, groups["documents"])
    for name in SUMMED_COUNTS:
        setattr(funnel, name, getattr(funnel, name) + fact_sum(verified, name))
    funnel.dissimilar = funnel.candidates - funnel.similar
    funnel.kept = _kept_documents(funnel)
    if job.policy.retention.min_sources > 1:  # documents in no candidate pair have one source
        funnel.few_sources, funnel.kept = funnel.kept - fact_sum(verified, "kept"), fact_sum(verified, "kept")
    sample = NO_SAMPLE
    for step in (*(step_of("compare", share) for share in range(groups["shares"])), *range(groups["groups"])):
        sample = sample.merge(tables.SAMPLE.read(folder, step))
    texts = partial(beginnings, folder, layout) if read else None
    return RunDecisions(layout, _collect(stages, layout, numbers, groups["groups"]), texts, sample, ranges)


def _join(job: Job, stages: Stages, layout: Layout, ranges: Ranges) -> int:
    """Find documents that may contain others; the number of ranges of fingerprints."""
    stages.run_tasks("weigh", [Task(WEIGH, weigh_slots, (layout, ranges, stages.funnel.shingles))])
    partitions = range(len(layout.partitions) - 1)
    facts = stages.run("prefix", choose_prefixes, ((layout, ranges, number) for number in partitions))
    parts = job.ranges(POSTING_COST * fact_sum(facts, "chosen"))
    stages.run_ranges("join", join_prefixes, parts, layout, ranges)
    return parts


def _route(job: Job, stages: Stages, ranges: Ranges) -> None:
    """Put the rows of every range, in each table, in order of their groups."""
    counts: Mapping[Table[Any], int] = {
        tables.PAIRS: ranges.met,
        tables.MEMBERSHIPS: ranges.met,
        tables.COPIES: ranges.copies,
        tables.TWINS: ranges.copies if job.policy.by_source() else 0,
        tables.KEY_COPIES: ranges.keys,
    }
    files = ((table, number) for table, count in counts.items() for number in range(count))
    tasks = [Task(table.route_step(number), route_rows, (table, number)) for table, number in files]
    stages.run_tasks("route", tasks, parallel=True)


def _kept_documents(funnel: Funnel) -> int:
    return funnel.documents - funnel.protected - funnel.contaminated - funnel.dropped


def _collect(stages: Stages, layout: Layout, partitions: range, groups: int) -> tuple[int, ...]:
    """Collect the decisions of so many groups about every partition; the number of files of ids of each."""
    facts = stages.run("collect", collect_decisions, ((layout, number, groups) for number in partitions), parallel=True)
    return tuple(int(fact["ids"]) for fact in facts)


def _write(job: Job, folder: Path, stages: Stages, decided: RunDecisions) -> Mapping[int, int]:
    """Write every file's rows, and the evidence; by the number of each written file, how many rows are kept."""
    layout, ids = decided.layout, None
    if job.added_columns():
        known = IdColumn.of(job, folder, layout, decided.id_files, read_rejected(folder, layout))
        ids = decided.id_files, known.type
    tasks = [Task(step_of_run(run), write_files, (layout, run, ids)) for run in file_runs(job, written_files(job))]
    if job.earlier is None:
        tasks.append(Task("clusters", write_clusters, (layout, decided.id_files)))
    if job.policy.overlap is not None:
        tasks.append(Task("contamination", write_contamination, (layout, decided.id_files)))
    tasks.append(Task("evidence", write_evidence, (layout, decided.id_files, decided.ranges)))
    total = int(np.diff(layout.files)[written_files(job)].sum())
    *facts_of_files, facts = stages.run_tasks("write", tasks, total, parallel=True)
    if job.on_error == "skip":
        bad_rows = (facts[name] for name in ("records", "rejected_rows", "rejected_protected"))
        stages.funnel.subtract_rejected(*bad_rows, few_sources=job.policy.retention.min_sources > 1)
    return {int(number): rows for found in facts_of_files for number, rows in found.get("kept", {}).items()}
