"""Find windows that occur more than once.

sample       a partition: its samples -> SAMPLES, MET_HERE, PLACES, and with an index REST
meet         a range of samples: repeated ones, also of earlier runs -> MET
window       a partition: the windows near them -> WINDOWS, FOLLOWERS
repeat       a range of windows: repeated ones -> FOUND

Samples and windows that are equal within a run leave it as one. So a text that occurs a million times takes as much
memory as one that occurs once in each run.

An index holds all samples of earlier runs. They are read in pieces, as are the new ones. Earlier samples without an
equal new one are skipped, because windows that only earlier documents have do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain, starmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch, Tokens
from gpulsh.backends.parallel import map_batches
from gpulsh.backends.protocol import Backend
from gpulsh.backends.repeats import groups
from gpulsh.io.files.file_texts import Partition, PartitionFacts
from gpulsh.io.rows import normalized
from gpulsh.ragged import bundles, find_sorted, mask_of, range_order, row_of, sorted_distinct, total_size
from gpulsh.repeats.places import WIDTH, read_text, spell_bytes
from gpulsh.repeats.windows import (
    Samples,
    as_digests,
    find_repeats,
    hash_runs,
    is_long,
    repeated_samples,
    sample_pieces,
    sample_windows,
    token_pieces,
    windows_near,
)
from gpulsh.run.job import Layout, TaskResult
from gpulsh.run.passages import tables
from gpulsh.run.passages.documents import PlacedRows, TokenPlaces, WantedDocuments, read_documents, unchanged_files
from gpulsh.run.passages.job import IndexContents, PassagesContext
from gpulsh.run.records.documents import RejectionsFile, reading_facts
from gpulsh.run.records.ranges import rows_of_file, sorted_range
from gpulsh.run.records.tables import Table
from gpulsh.store.columns import ColumnsFile, MappedColumns

RUN_SAMPLES, RUN_WINDOWS = 1 << 18, 1 << 18  # held before equal ones are joined
GIANT_BYTES = 4 << 20  # of a document whose windows are sampled piece by piece
RUN_MET = 1 << 20  # places in earlier runs, held before they are written


class Windows(NamedTuple):
    """Windows near samples that occur again."""

    proposed: NDArray[np.uint64]
    proven: NDArray[np.uint64]
    place: Numbers  # ascending


def sample_partition(context: PassagesContext, partition: Partition) -> TaskResult:
    """Sample the windows of a partition."""
    job, ops, folder, number = context.job, context.ops, context.folder, partition.number
    rejected = RejectionsFile(folder, number)
    facts = PartitionFacts(rejected=rejected)
    spell = spell_bytes if job.of_bytes else None
    start = samples = 0
    written: list[Table[Any]] = [tables.SAMPLES, tables.MET_HERE, *([] if job.index is None else [tables.REST])]

    def samples_of(ops: Backend, text: TextBatch) -> Iterable[Samples]:
        if len(text) == 1 and total_size(text) > GIANT_BYTES:
            return _samples_on_host(ops, sample_pieces(ops, text, job.windows, job.tokens, context.keys, spell))
        read = text if spell is None else spell(text)
        return list(_samples_on_host(ops, [sample_windows(ops, read, job.windows, job.tokens)]))

    def all_samples() -> Iterator[Samples]:
        nonlocal start
        most = ops.sizes().batch // (WIDTH if job.of_bytes else 1)
        how = None if job.of_bytes else partial(normalized, form=job.folding.form)
        batches = context.read(partition.pieces, facts, how, most)
        for found in chain.from_iterable(map_batches(ops, batches, samples_of)):
            yield found._replace(place=found.place + start)
            if len(found.lengths):  # a part of a long document has none
                places_out.append(tables.TakenPlaces(found.lengths))
                start += int(found.lengths.sum())

    with rejected, tables.PLACES.create(folder, number) as places_out, ExitStack() as files:
        outs = [files.enter_context(table.create(folder, number)) for table in written]
        with context.unchanged_pieces(partition.pieces), ops.use_device():
            for run in bundles(all_samples(), RUN_SAMPLES, lambda found: len(found.place)):
                samples += _write_samples(ops, run, *outs)
        bad = rejected.finish()
        made = places_out.finish_by_name() | bad
        for out in outs:
            made |= out.finish_by_name()
    pieces = {} if job.index is None else {"pieces": [list(piece) for piece in partition.pieces]}
    return TaskResult(made, {**reading_facts(facts, bad), "places": start, "samples": samples, **pieces})


def _samples_on_host(ops: Backend, found: Iterable[Samples]) -> Iterator[Samples]:
    return (Samples(*map(ops.asnumpy, one)) for one in found)


def _write_samples(
    ops: Backend, batches: list[Samples], samples_out: ColumnsFile, met_out: ColumnsFile, *rest_out: ColumnsFile
) -> int:
    value, where = (np.concatenate([one[column] for one in batches]) for column in range(2))
    with ops.use_device():
        buckets = ops.collisions(as_digests(ops.asarray(value)), ops.asarray(where))
        ids, offset = ops.asnumpy(buckets.ids), ops.asnumpy(buckets.offset)
    first, again = ids[offset[:-1]], np.delete(ids, offset[:-1])  # of equal samples
    met_out.append(tables.PlaceRows(np.sort(np.concatenate([first, again]))))
    left = ~mask_of(np.searchsorted(where, again), len(where))
    for out, some in ((samples_out, left), *((out, ~left) for out in rest_out)):
        order = range_order(value[some])
        out.append(tables.SampleRows(value[some][order], where[some][order]))
    return int(left.sum())


def find_repeated_samples(context: PassagesContext, places: Layout, part: int, parts: int) -> TaskResult:
    """Find the samples that occur in several runs, in one of `parts` equal ranges, and earlier ones equal to them."""
    new = range(context.job.earlier_partitions, len(places.partitions) - 1)
    samples, ops = sorted_range(tables.SAMPLES, context.folder, places, part, parts, new), context.ops
    with ops.use_device():
        met = ops.asnumpy(repeated_samples(ops, *map(ops.asarray, samples)))
    there = np.zeros(len(places.partitions), np.bool_)
    with tables.MET.create(context.folder, part) as out:
        if (held := context.job.held) is not None:
            known = sorted_distinct(samples.value)
            again = np.zeros(len(known), np.bool_)
            for found in _earlier_matches(held, places, part, parts, known, again):
                out.append(tables.PlaceRows(found))
                there[row_of(places.partitions, found)] = True
            _, at = find_sorted(known, samples.value)
            met = sorted_distinct(np.concatenate([met, samples.place[again[at]]]))
        out.append(tables.PlaceRows(met))
        return TaskResult(out.finish_by_name(), {"earlier": np.flatnonzero(there).tolist()})


def _earlier_matches(
    earlier: IndexContents, places: Layout, part: int, parts: int, known: NDArray[np.uint64], again: NDArray[np.bool_]
) -> Iterator[Numbers]:
    """The places of earlier samples of the `known` values, which ascend, in ascending runs; marks these in `again`."""

    def matches() -> Iterator[Numbers]:
        for run in earlier.runs:
            start = int(places.partitions[run.first])
            for _, (value,), where in rows_of_file(MappedColumns(run.samples, tables.SampleRows), start, part, parts):
                rows, at = find_sorted(known, value)
                again[at] = True
                yield where[rows]

    for met in bundles(matches(), RUN_MET, len):
        yield np.sort(np.concatenate(met))


def hash_partition(
    context: PassagesContext, layout: Layout, places: Layout, partition: Partition, parts: int
) -> TaskResult:
    """Hash the windows of a partition near repeated samples."""
    job, ops, folder, number = context.job, context.ops, context.folder, partition.number
    spell = spell_bytes if job.of_bytes else None
    token_places = TokenPlaces(context, places, number)
    origin, end, is_new = token_places.start, token_places.stop, number >= job.earlier_partitions
    here = PlacedRows(tables.MET_HERE, folder, [number] if is_new else [], 0, end - origin)
    elsewhere = PlacedRows(tables.MET, folder, range(parts), origin, end)

    def samples_between(start: int, stop: int) -> Numbers:
        own = here.between(start - origin, stop - origin).place + origin
        return sorted_distinct(np.concatenate([own, elsewhere.between(start, stop).place]))

    def hash_windows(ops: Backend, some: WantedDocuments) -> Iterable[Windows]:
        begin, stop = int(some.start[0]), int(some.stop[-1])
        count = stop - begin - 1
        if len(some.text) > 1 or not is_long(count, job.tokens):
            text = read_text(some.text, job.folding, job.of_bytes)
            return [windows_of(ops, some, ops.tokens(text, job.windows, context.keys), some.start, stop)]
        text = normalized(some.text, job.folding.form)  # bytes have no form
        parts = token_pieces(ops, text, job.windows, context.keys, count, job.tokens, spell)

        def windows_of_piece(at: int, found: Tokens) -> Windows:
            return windows_of(ops, some, found, np.array([begin + at]), begin + at + len(found.values) - job.tokens + 1)

        return starmap(windows_of_piece, parts)

    def windows_of(ops: Backend, some: WantedDocuments, tokens: Tokens, rows: Numbers, stop: int) -> Windows:
        """The windows from the first of `rows` to before `stop`; `rows` are the places of the first tokens."""
        start = int(rows[0])
        places = samples_between(start, min(stop + job.tokens, int(some.stop[-1])))
        runs = windows_near(places, some.start, some.stop, job.tokens).clip(start, stop)
        proposed, proven = map(ops.asnumpy, hash_runs(ops, tokens, rows, runs, job.tokens, context.keys))
        return Windows(proposed, proven, runs.places())

    windows = 0
    with tables.WINDOWS.create(folder, number) as windows_out, tables.FOLLOWERS.create(folder, number) as followers_out:
        with unchanged_files(context, partition), ops.use_device():
            texts = read_documents(context, layout, partition, token_places, samples_between)
            found = chain.from_iterable(ops.pipelined_map(texts, hash_windows))
            for run in bundles(found, RUN_WINDOWS, lambda some: len(some.place)):
                windows += _write_windows(run, origin, windows_out, followers_out)
        return TaskResult(windows_out.finish_by_name() | followers_out.finish_by_name(), {"windows": windows})


def _write_windows(batches: list[Windows], origin: int, windows_out: ColumnsFile, followers_out: ColumnsFile) -> int:
    proposed, proven, place = map(np.concatenate, zip(*batches, strict=True))
    count = 0
    for start in range(0, len(place), RUN_WINDOWS):  # a batch may have many
        run = slice(start, start + RUN_WINDOWS)
        first = groups(proposed[run], proven[run])
        left = first < 0
        rows = tables.WindowRows(proposed[run][left], proven[run][left], -first[left], place[run][left] - origin)
        order = range_order(rows.proposed)
        windows_out.append([column[order] for column in rows])
        followers_out.append(tables.Followers(place[run][~left], place[run][first[~left]]))
        count += len(order)
    return count


def find_repeated_windows(
    context: PassagesContext, places: Layout, partitions: Sequence[int], part: int, parts: int
) -> TaskResult:
    """Find the windows of `partitions` that occur more than once, in one of `parts` equal ranges."""
    proposed, proven, equal, where = sorted_range(tables.WINDOWS, context.folder, places, part, parts, partitions)
    return TaskResult(tables.FOUND.write(context.folder, part, find_repeats(proposed, proven, where, equal)))
