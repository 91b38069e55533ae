"""The stages of `passages_files`: their order and tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpulsh.backends.protocol import Backend
from gpulsh.io.files.file_texts import Partition
from gpulsh.ragged import offsets
from gpulsh.run.driver import Stages, make_partitions, screen_partitions
from gpulsh.run.job import Layout, Task, fact_sum
from gpulsh.run.passages import parts
from gpulsh.run.passages.evidence import LIST, MAX_LISTED, collect_firsts, first_disjoint, most_frequent, write_list
from gpulsh.run.passages.find import find_repeated_samples, find_repeated_windows, hash_partition, sample_partition
from gpulsh.run.passages.job import PassagesJob
from gpulsh.run.passages.mark import CLASS_COUNTS, CLASSES, locate_bytes, mark_items, mark_partition
from gpulsh.run.stages.contamination import write_contamination

# Memory, in digests, for a sample, one of a run with an index, a window, and a line or paragraph.
SAMPLE_COST, HELD_COST, WINDOW_COST, PART_COST = 2, 3, 2, 4


@dataclass(frozen=True)
class FoundPassages:
    """All passages of a run, in the work folder, and facts about them."""

    layout: Layout
    counts: Mapping[str, int]
    classes: Sequence[Mapping[str, Any]]  # windows by their occurrences
    frequent: Sequence[Sequence[Any]]  # of `most_frequent`


def mark_partitions(job: PassagesJob, ops: Backend, stages: Stages) -> FoundPassages:
    """All stages from the files to `passages.parquet`; `ops` only decides how the work is divided."""
    partitions, total = make_partitions(job, ops)
    sampled = stages.run("sample", sample_partition, zip(partitions), total, parallel=stages.parallel)
    facts = [*(() if job.held is None else job.held.facts), *sampled]
    layout = job.layout(facts)
    places = replace(layout, partitions=offsets([found["places"] for found in facts]))
    ranges = job.ranges(fact_sum(facts, "samples") * (SAMPLE_COST if job.held is None else HELD_COST))
    met = stages.run_ranges("meet", find_repeated_samples, ranges, places)
    read = _partitions_to_read(job, met, partitions)
    hashing = ((layout, places, each, ranges) for each in read)
    windows = stages.run("window", hash_partition, hashing, parallel=stages.parallel)
    number, hashed = job.ranges(WINDOW_COST * fact_sum(windows, "windows")), tuple(each.number for each in read)
    stages.run_ranges("repeat", find_repeated_windows, number, places, hashed)
    marked = stages.run("mark", mark_partition, ((places, each.number, number) for each in partitions), parallel=True)
    read = _partitions_to_read(job, marked, partitions)
    located = stages.run("locate", locate_bytes, ((layout, places, each) for each in read), parallel=stages.parallel)
    bad = _list_passages(job, stages, layout, places)
    counts = _counts(bad, sampled, marked, located)
    if job.held is not None:
        earlier = {"earlier_documents": int(layout.partitions[job.earlier_partitions])}
        counts = {**counts, **earlier, "first_earlier": bad["first_earlier"]}
    return FoundPassages(layout, counts, _classes(marked), first_disjoint(_frequent(located)))


def pick_parts(job: PassagesJob, ops: Backend, stages: Stages) -> FoundPassages:
    """All stages for lines or paragraphs, as `mark_partitions` has them for windows."""
    partitions, total = make_partitions(job, ops)
    hashed = stages.run("part", parts.hash_parts, zip(partitions), total, parallel=stages.parallel)
    layout = job.layout(hashed)
    places = replace(layout, partitions=offsets([facts["parts"] for facts in hashed]))
    number = job.ranges(PART_COST * fact_sum(hashed, "parts"))
    stages.run_ranges("count", parts.count_parts, number, places)
    picked = stages.run(
        "pick", parts.pick_copies, ((layout, places, each, number) for each in partitions), parallel=True
    )
    bad = _list_passages(job, stages, layout, places)
    return FoundPassages(layout, _counts(bad, hashed, picked), _classes(picked), _frequent(picked)[:MAX_LISTED])


def mark_protected_items(job: PassagesJob, ops: Backend, stages: Stages) -> FoundPassages:
    """Mark text that items of the protected files cover; also write `contamination.parquet`."""
    partitions, total = make_partitions(job, ops)
    indexed, facts = screen_partitions(job, stages, partitions, total)
    layout = job.layout(facts)
    held = stages.run("hold", mark_items, ((layout, each) for each in partitions), parallel=stages.parallel)
    ids = tuple(int(facts["ids"]) for facts in held)
    lists = Task(LIST, write_list, (layout, ids)), Task("contamination", write_contamination, (layout, ids))
    bad, _ = stages.run_tasks("list", lists)
    counts, items = _counts(bad, facts, held), int(indexed["documents"])
    others = {"documents": counts["documents"] - items, "bytes": counts["bytes"] - int(indexed["amount"])}
    return FoundPassages(layout, {**counts, **others, "items": items}, [], _frequent(held)[:MAX_LISTED])


def _partitions_to_read(
    job: PassagesJob, facts: Sequence[Mapping[str, Any]], partitions: Sequence[Partition]
) -> Sequence[Partition]:
    """The partitions of earlier runs with results of tasks, and the new partitions."""
    if job.held is None:
        return partitions
    numbers = sorted({number for found in facts for number in found["earlier"]})
    return [*(job.held.partitions[number] for number in numbers), *partitions]


def _list_passages(job: PassagesJob, stages: Stages, layout: Layout, places: Layout) -> Mapping[str, Any]:
    """From the bytes of passages to `passages.parquet`; how many records were bad, and how many rows they are."""
    numbers = range(job.earlier_partitions, len(layout.partitions) - 1)
    collected = stages.run("collect", collect_firsts, ((layout, places, part) for part in numbers), parallel=True)
    ids = (*[0] * numbers.start, *(int(facts["ids"]) for facts in collected))
    (facts,) = stages.run_tasks("list", [Task(LIST, write_list, (layout, ids))])
    return {**facts, "first_earlier": fact_sum(collected, "first_earlier")}


def _counts(bad: Mapping[str, Any], *stages: Sequence[Mapping[str, Any]]) -> Mapping[str, int]:
    names = ("documents", "nulls", "bytes", "windows", "passages", "tokens", "bytes_marked", "documents_marked")
    found = {name: sum(fact_sum(facts, name) for facts in stages) for name in names}
    return {**found, "documents": found["documents"] - bad["rejected_rows"], "rejected": bad["rejected"]}


def _classes(marked: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    sums = {name: np.sum([facts[name] for facts in marked], axis=0).tolist() for name in CLASS_COUNTS}
    last = [*(least - 1 for least in CLASSES[1:]), None]
    found = [
        {"least": least, "most": last[at], **{name: sums[name][at] for name in CLASS_COUNTS}}
        for at, least in enumerate(CLASSES)
    ]
    return [entry for entry in found if entry["distinct"] or entry["before"]]


def _frequent(located: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    return most_frequent([one for facts in located for one in facts["frequent"]])
