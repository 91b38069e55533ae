"""Lines and paragraphs that occur often: hash them, count them, list the copies beyond a number.

part         a partition: the hashes and the places of its lines or paragraphs -> PARTS, COPIES_HERE, SPOTS
count        a range of hashes: the lines or paragraphs that occur more than once -> COUNTED
pick         a partition: the copies beyond `max_copies` -> BYTES, FIRST_PLACES

Lines and paragraphs are numbered in input order. `places` has the first number of each partition. A run writes one row
for all equal lines in it. So a line with a million copies takes no more memory than a line that each run has once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import TextBatch, Values
from gpulsh.backends.parallel import map_batches
from gpulsh.backends.protocol import Backend
from gpulsh.backends.repeats import groups
from gpulsh.io.files.file_texts import Partition, PartitionFacts
from gpulsh.ragged import bundles, first_of_runs, offsets, range_order, run_places, stable_order
from gpulsh.repeats.copies import Copies, Parts, parts_of_batch, pieces_of
from gpulsh.run.job import Layout, TaskResult
from gpulsh.run.key_rule import KeyHashes
from gpulsh.run.passages import tables
from gpulsh.run.passages.documents import PlacedRows
from gpulsh.run.passages.evidence import frequent_candidates, most_frequent, with_reread_texts
from gpulsh.run.passages.job import PassagesContext
from gpulsh.run.passages.mark import CLASS_COUNTS, CLASSES, amounts_marked, class_counts
from gpulsh.run.records.documents import RejectionsFile, reading_facts
from gpulsh.run.records.ranges import sorted_range

RUN_PARTS = 1 << 18  # held before equal ones are joined


def hash_parts(context: PassagesContext, partition: Partition) -> TaskResult:
    """Hash the lines or paragraphs of a partition."""
    job, folder, number = context.job, context.folder, partition.number
    within = None if job.columns.copy_key is None else KeyHashes(context.keys)
    rejected = RejectionsFile(folder, number)
    facts = PartitionFacts(rejected=rejected, copy_keys=[] if within is None else within)
    parts, unit = 0, job.part
    assert unit is not None
    begins = deque[int]()  # of the pieces in work: bytes of a long document

    def pieces() -> Iterator[TextBatch]:
        for batch in context.read(partition.pieces, facts):
            for begin, piece in pieces_of(batch, unit):
                begins.append(begin)
                yield piece
                del piece
            del batch  # before the next one is read

    def hash_batch(ops: Backend, text: TextBatch) -> tuple[int, Parts]:
        return len(text), parts_of_batch(ops, job.shingling, job.folding.form, text, unit, context.keys)

    def all_parts() -> Iterator[tuple[Values, tables.Spots]]:
        documents, count, groups = 0, 0, np.empty((0, 2), np.uint64)
        for read, found in map_batches(context.ops, pieces(), hash_batch):
            begin = begins.popleft()
            if begin == 0:  # otherwise the document of the piece before goes on
                documents, count = documents + count, read
                groups = groups if within is None else within.take(count)
            hashes = found.hashes if within is None else found.hashes + groups[found.row]
            yield hashes, tables.Spots(found.row + documents, found.start + begin, found.stop + begin, found.tokens)

    with (
        rejected,
        tables.PARTS.create(folder, number) as out,
        tables.COPIES_HERE.create(folder, number) as copies_out,
        tables.SPOTS.create(folder, number) as spots_out,
    ):
        with context.unchanged_pieces(partition.pieces), context.ops.use_device():
            for run in bundles(all_parts(), RUN_PARTS, lambda one: len(one[0])):
                hashes = np.concatenate([one for one, _ in run])
                rows, copies = _part_rows(hashes, parts)
                out.append(rows)
                copies_out.append(copies)
                spots_out.append(tables.SPOTS.joined(spots for _, spots in run))
                parts += len(hashes)
        bad = rejected.finish()
        made = out.finish_by_name() | copies_out.finish_by_name() | spots_out.finish_by_name()
    return TaskResult(made | bad, {**reading_facts(facts, bad), "parts": parts})


def _part_rows(hashes: NDArray[np.uint64], start: int) -> tuple[tables.PartRows, tables.CopiesHere]:
    """A row for all equal ones of a run, whose first has the number `start`, and the others."""
    equal = groups(*np.ascontiguousarray(hashes.T))
    first, others = np.flatnonzero(equal < 0), np.flatnonzero(equal >= 0)
    rank = np.empty_like(others)
    rank[stable_order(equal[others])] = run_places(-equal[first] - 1) + 1
    copies = tables.CopiesHere(others + start, equal[others] + start, rank)
    first = first[range_order(hashes[first, 0])]
    return tables.PartRows(hashes[first, 0], hashes[first, 1], -equal[first], first + start), copies


def count_parts(context: PassagesContext, places: Layout, part: int, parts: int) -> TaskResult:
    """Count the lines or paragraphs in one of `parts` equal ranges of hashes."""
    upper, lower, copies, number = sorted_range(tables.PARTS, context.folder, places, part, parts)
    equal = groups(upper, lower, copies)
    first = np.where(equal < 0, np.arange(len(equal)), equal)
    order = stable_order(first)
    before = offsets(copies[order])[:-1]
    earlier = np.empty_like(number)
    earlier[order] = before - np.maximum.accumulate(np.where(first_of_runs(first[order]), before, 0))
    rows = Copies(number, number[first], earlier, -equal[first])
    return TaskResult(tables.COUNTED.write(context.folder, part, tables.COUNTED.rows(rows, rows.occurrences > 1)))


def pick_copies(
    context: PassagesContext, layout: Layout, places: Layout, partition: Partition, parts: int
) -> TaskResult:
    """List the copies beyond `max_copies` in a partition, and the places of first copies."""
    job, folder, number = context.job, context.folder, partition.number
    position = int(layout.partitions[number])
    origin, end = places.bounds(number)
    counted, start = PlacedRows(tables.COUNTED, folder, range(parts), origin, end), origin
    counts = Counter[str]()
    often = np.zeros((len(CLASS_COUNTS), len(CLASSES)), np.int64)
    frequent: list[list[Any]] = []
    marked = -1  # the last document
    with tables.BYTES.create(folder, number) as out, tables.FIRST_PLACES.create(folder, number) as firsts_out:
        spots_of, copies_of = tables.SPOTS.open(folder, number), tables.COPIES_HERE.open(folder, number)
        for spots, copies in zip(spots_of.runs(), copies_of.runs(), strict=True):
            all_ = _repeated_parts(counted.between(start, start + len(spots.document)), copies, origin)
            at = all_.part - start
            document = spots.document[at] + position
            is_first, stays = all_.part == all_.first, all_.earlier < job.max_copies
            firsts_out.append(tables.FirstPlaces(all_.part[is_first], document[is_first], spots.start[at[is_first]]))
            rows = document, spots.start[at], spots.stop[at], all_.first, spots.tokens[at], all_.occurrences
            picked = tables.BYTES.rows(tables.ByteStretches(*rows), ~stays)
            out.append(picked)
            often += class_counts(all_.occurrences, is_first, stays)
            counts.update(windows=len(at), stretches=len(picked.document), **amounts_marked(picked, marked))
            marked = int(picked.document[-1]) if len(picked.document) else marked
            frequent = most_frequent([*frequent, *frequent_candidates(picked)])
            start += len(spots.document)
            spots_of.release()
            copies_of.release()
        made = out.finish_by_name() | firsts_out.finish_by_name()
    facts = {**counts, **dict(zip(CLASS_COUNTS, often.tolist(), strict=True))}
    return TaskResult(made, {**facts, "frequent": with_reread_texts(frequent, context, layout, partition)})


def _repeated_parts(counted: Copies, copies: tables.CopiesHere, origin: int) -> Copies:
    """The ones of a run that occur more than once, ascending; the partition begins with the number `origin`."""
    order = np.argsort(counted.part)
    known = tables.COUNTED.rows(counted, order)
    at = np.searchsorted(known.part, copies.first + origin)
    others = Copies(copies.number + origin, known.first[at], known.earlier[at] + copies.rank, known.occurrences[at])
    both = tables.COUNTED.joined([known, others])
    return tables.COUNTED.rows(both, np.argsort(both.part))
