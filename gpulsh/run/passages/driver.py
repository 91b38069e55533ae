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
from gpulsh.run.passages.evidence import LIST, LISTED, apart, collect, most_frequent, write_list
from gpulsh.run.passages.find import meet, repeat, sample, window
from gpulsh.run.passages.job import PassagesJob
from gpulsh.run.passages.mark import CLASSES, CLASSIFIED, hold, locate, mark
from gpulsh.run.stages.contamination import write_contamination

# Memory, in digests, for a sample, one of a run with an index, a window, and a line or paragraph.
SAMPLE_COST, HELD_COST, WINDOW_COST, PART_COST = 2, 3, 2, 4


@dataclass(frozen=True)
class Marked:
    """All passages of a run, in the work folder, and facts about them."""

    layout: Layout
    counts: Mapping[str, int]
    classes: Sequence[Mapping[str, Any]]  # windows by their occurrences
    frequent: Sequence[Sequence[Any]]  # of `most_frequent`


def mark_partitions(job: PassagesJob, ops: Backend, stages: Stages) -> Marked:
    """All stages from the files to `passages.parquet`; `ops` only decides how the work is divided."""
    partitions, total = make_partitions(job, ops)
    sampled = stages.run("sample", sample, zip(partitions), total, parallel=stages.parallel)
    facts = [*(() if job.held is None else job.held.facts), *sampled]
    layout = job.layout(facts)
    places = replace(layout, partitions=offsets([found["places"] for found in facts]))
    ranges = job.ranges(fact_sum(facts, "samples") * (SAMPLE_COST if job.held is None else HELD_COST))
    met = stages.run_ranges("meet", meet, ranges, places)
    read = _with_earlier(job, met, partitions)
    hashing = ((layout, places, each, ranges) for each in read)
    windows = stages.run("window", window, hashing, parallel=stages.parallel)
    number, hashed = job.ranges(WINDOW_COST * fact_sum(windows, "windows")), tuple(each.number for each in read)
    stages.run_ranges("repeat", repeat, number, places, hashed)
    marked = stages.run("mark", mark, ((places, each.number, number) for each in partitions), parallel=True)
    read = _with_earlier(job, marked, partitions)
    located = stages.run("locate", locate, ((layout, places, each) for each in read), parallel=stages.parallel)
    bad = _list(job, stages, layout, places)
    counts = _counts(bad, sampled, marked, located)
    if job.held is not None:
        earlier = {"earlier_documents": int(layout.partitions[job.earlier_partitions])}
        counts = {**counts, **earlier, "first_earlier": bad["first_earlier"]}
    return Marked(layout, counts, _classes(marked), apart(_frequent(located)))


def pick_parts(job: PassagesJob, ops: Backend, stages: Stages) -> Marked:
    """All stages for lines or paragraphs, as `mark_partitions` has them for windows."""
    partitions, total = make_partitions(job, ops)
    hashed = stages.run("part", parts.part, zip(partitions), total, parallel=stages.parallel)
    layout = job.layout(hashed)
    places = replace(layout, partitions=offsets([facts["parts"] for facts in hashed]))
    number = job.ranges(PART_COST * fact_sum(hashed, "parts"))
    stages.run_ranges("count", parts.count, number, places)
    picked = stages.run("pick", parts.pick, ((layout, places, each, number) for each in partitions), parallel=True)
    bad = _list(job, stages, layout, places)
    return Marked(layout, _counts(bad, hashed, picked), _classes(picked), _frequent(picked)[:LISTED])


def hold_items(job: PassagesJob, ops: Backend, stages: Stages) -> Marked:
    """Mark text that items of the protected files cover; also write `contamination.parquet`."""
    partitions, total = make_partitions(job, ops)
    indexed, facts = screen_partitions(job, stages, partitions, total)
    layout = job.layout(facts)
    held = stages.run("hold", hold, ((layout, each) for each in partitions), parallel=stages.parallel)
    ids = tuple(int(facts["ids"]) for facts in held)
    lists = Task(LIST, write_list, (layout, ids)), Task("contamination", write_contamination, (layout,))
    bad, _ = stages.run_tasks("list", lists)
    counts, items = _counts(bad, facts, held), int(indexed["documents"])
    others = {"documents": counts["documents"] - items, "bytes": counts["bytes"] - int(indexed["amount"])}
    return Marked(layout, {**counts, **others, "items": items}, [], _frequent(held)[:LISTED])


def _with_earlier(
    job: PassagesJob, facts: Sequence[Mapping[str, Any]], partitions: Sequence[Partition]
) -> Sequence[Partition]:
    """The partitions of earlier runs with results of tasks, and the new partitions."""
    if job.held is None:
        return partitions
    numbers = sorted({number for found in facts for number in found["earlier"]})
    return [*(job.held.partitions[number] for number in numbers), *partitions]


def _list(job: PassagesJob, stages: Stages, layout: Layout, places: Layout) -> Mapping[str, Any]:
    """From the bytes of passages to `passages.parquet`; how many records were bad, and how many rows they are."""
    numbers = range(job.earlier_partitions, len(layout.partitions) - 1)
    collected = stages.run("collect", collect, ((layout, places, part) for part in numbers), parallel=True)
    ids = (*[0] * numbers.start, *(int(facts["ids"]) for facts in collected))
    (facts,) = stages.run_tasks("list", [Task(LIST, write_list, (layout, ids))])
    return {**facts, "first_earlier": fact_sum(collected, "first_earlier")}


def _counts(bad: Mapping[str, Any], *stages: Sequence[Mapping[str, Any]]) -> Mapping[str, int]:
    names = ("documents", "nulls", "bytes", "windows", "passages", "tokens", "bytes_marked", "documents_marked")
    found = {name: sum(fact_sum(facts, name) for facts in stages) for name in names}
    return {**found, "documents": found["documents"] - bad["rejected_rows"], "rejected": bad["rejected"]}


def _classes(marked: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    sums = {name: np.sum([facts[name] for facts in marked], axis=0).tolist() for name in CLASSIFIED}
    last = [*(least - 1 for least in CLASSES[1:]), None]
    found = [
        {"least": least, "most": last[at], **{name: sums[name][at] for name in CLASSIFIED}}
        for at, least in enumerate(CLASSES)
    ]
    return [entry for entry in found if entry["distinct"] or entry["before"]]


def _frequent(located: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    return most_frequent([one for facts in located for one in facts["frequent"]])
