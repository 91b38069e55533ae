"""Sign the documents of a partition, and record facts about them.

sign         a partition: DIGESTS, a record batch for each run and band, or POSTINGS where the measure is containment;
             EXACT, one for each run; SIZES, and ORDER unless that is by position; KEYS with --key; and a file of
             rejected records, if there are any. With --key-only nothing is signed
sight        a partition: the sources and the dates of its documents -> SIGHTINGS
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers, SignedBatch
from gpulsh.backends.parallel import pipelined_map
from gpulsh.backends.protocol import Backend
from gpulsh.decide.counts.counts import NO_DATE
from gpulsh.io.arrow.buffers import to_arrow
from gpulsh.io.file import File
from gpulsh.io.files.file_texts import Partition, PartitionFacts
from gpulsh.io.formats.endings import format_of, row_name
from gpulsh.lsh.signing import sign_batches, sign_by_method, sign_sets
from gpulsh.ragged import mask_of, range_order, run_bounds, slice_between
from gpulsh.run.job import JobContext, Layout, TaskResult
from gpulsh.run.key_rule import KeyHashes
from gpulsh.run.records.documents import RejectionsFile, contaminated_rows, read_rejected, write_facts
from gpulsh.run.records.ranges import PostingsFile
from gpulsh.run.records.sightings import instants, source_texts
from gpulsh.run.records.tables import DIGESTS, EXACT, KEYS, POSTINGS, SIGHTINGS, DigestRows, ExactRows, SightingRows
from gpulsh.stats.stages import Funnel, with_progress
from gpulsh.store.columns import ColumnsFile
from gpulsh.store.durable import FileFact

RUN_DIGESTS = 1 << 22  # words held before they are sorted and written
NO_ROWS = np.empty(0, np.int64)
OTHER_WORDS = 4  # of a row, besides its digests: an exact hash, its number, and the order

# Documents with a token: digests uint64 [m, bands], exact hashes uint64 [m, 2], rows of the partition uint32 [m].
Part = tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint32]]


def sign_partition(context: JobContext, partition: Partition) -> TaskResult:
    """Sign a partition."""
    job, where = context.job, (context.folder, partition.number)
    left_out = contaminated_rows(context, partition.number)
    is_signed = job.key is None or not job.key.only
    if not is_signed:  # texts are read only where --keep or a search for damage needs them
        unread = job.policy.keep != "longest" and job.on_error != "skip"
        context = replace(context, job=replace(job, columns=replace(job.columns, unread=unread)), held=None)
    hashes = None if job.key is None else KeyHashes(context.keys, job.key.normalize_url)
    made: dict[str, FileFact] = {}
    with RejectionsFile(*where) as bad:
        facts = PartitionFacts(rejected=bad)
        if hashes is not None:
            facts.copy_keys = hashes
        batches = context.texts().read(partition.pieces, context.ops.sizes().batch, facts)
        given = batches, job.method, context.keys, context.ops, Funnel(), context.progress
        with context.unchanged_pieces(partition.pieces):
            if not is_signed:
                for _ in with_progress(batches, context.progress):
                    pass
                counts = {"shingles": 0, "empty": facts.nulls + facts.bad}
            elif job.method.measure == "containment":
                with PostingsFile(POSTINGS, *where) as postings:
                    signed = _write_postings(sign_batches(*given, sign_sets), postings, left_out)
                    made, counts = _write_runs(*where, signed, 0, context.ops, left_out)
                    made |= postings.finish()
            else:
                signed = sign_batches(*given, sign_by_method)
                made, counts = _write_runs(*where, signed, job.method.banding.bands, context.ops, left_out)
        if hashes is not None:
            halves, rows = hashes.non_null()
            takes_part = np.flatnonzero(~np.isin(rows, left_out))
            chosen = takes_part[range_order(halves[takes_part, 0])]
            first, second = halves[chosen].T.copy()
            made |= KEYS.write(*where, ExactRows(first, second, rows[chosen].astype(np.uint32)))
        known = write_facts(context, partition, facts, bad)
    return TaskResult({**made, **known.files}, {**known.facts, **counts})


def _write_postings(
    found: Iterable[tuple[SignedBatch, Sequence[Fingerprints]]], postings: PostingsFile, left_out: Numbers
) -> Iterator[SignedBatch]:
    """The signed batches; their fingerprints go to `postings`, but of rows that are `left_out`."""
    documents = 0
    for signed, parts in found:
        for sets in parts:
            rows = np.repeat(documents + np.arange(len(sets)), sets.lengths)
            takes_part = ~np.isin(rows, left_out)
            postings.add(sets.values[takes_part], rows[takes_part])
        documents += len(signed.exact)
        yield signed


def _write_runs(
    folder: Path, partition: int, signed: Iterable[SignedBatch], bands: int, ops: Backend, left_out: Numbers = NO_ROWS
) -> tuple[dict[str, FileFact], dict[str, int]]:
    """The files of digests, none of rows `left_out`, and of exact hashes; how many shingles and empty documents."""
    documents = shingles = empty = rows = 0
    run: list[Part] = []
    threads = ops.sizes().readers  # more than one if a device signs, which leaves them time
    with DIGESTS.create(folder, partition) as digests_out, EXACT.create(folder, partition) as exact_out:
        with background_writer(threads > 1) as do:
            for part in signed:
                digests, exact, counts = map(ops.asnumpy, (part.digests, part.exact, part.shingles))
                takes_part = counts > 0
                here = slice_between(left_out, documents, documents + len(counts))
                takes_part[left_out[here] - documents] = False
                numbers = np.flatnonzero(takes_part)
                if len(numbers) < len(counts):
                    digests, exact = digests.T.take(numbers, axis=1).T, exact[numbers]
                run.append((digests, exact, (numbers + documents).astype(np.uint32)))
                rows += len(numbers)
                documents += len(counts)
                shingles += int(counts.sum())
                empty += len(counts) - int(np.count_nonzero(counts))
                if rows * (bands + OTHER_WORDS) >= RUN_DIGESTS:
                    do(partial(_write_run, run, bands, digests_out, exact_out, threads))
                    run, rows = [], 0
            if rows:
                do(partial(_write_run, run, bands, digests_out, exact_out, threads))
        made = digests_out.finish_by_name() | exact_out.finish_by_name()
    return made, {"shingles": shingles, "empty": empty}


def _write_run(
    parts: Sequence[Part], bands: int, digests_out: ColumnsFile, exact_out: ColumnsFile, threads: int
) -> None:
    """Write the digests and hashes of documents; so many threads put the bands in order."""
    digests, exact, numbers = zip(*parts, strict=True)
    row = np.concatenate(numbers)

    def band_rows(band: int) -> DigestRows:
        column = np.concatenate([part[:, band] for part in digests])
        order = range_order(column)
        return DigestRows(column[order], row[order])

    for columns in pipelined_map(range(bands), [band_rows] * threads) if threads > 1 else map(band_rows, range(bands)):
        digests_out.append(columns)
    first, second = (np.concatenate([part[:, half] for part in exact]) for half in (0, 1))
    order = range_order(first)
    exact_out.append(ExactRows(first[order], second[order], row[order]))


Work = Callable[[], None]


@contextmanager
def background_writer(threaded: bool) -> Iterator[Callable[[Work], None]]:
    """Yields a function that does work piece after piece: if `threaded` on a thread of its own, otherwise at once.

    A piece waits for the one before it, so memory holds at most one besides the piece that the caller makes. All work
    is done when the context ends. An error in a piece is raised with the next piece, or at the end.
    """
    if not threaded:
        yield lambda work: work()
        return
    with ThreadPoolExecutor(1) as thread:
        doing = thread.submit(lambda: None)

        def do(work: Work) -> None:
            nonlocal doing
            doing.result()
            doing = thread.submit(work)

        yield do
        doing.result()


def read_sightings(context: JobContext, layout: Layout, partition: int) -> TaskResult:
    """Read the sources and the dates of a partition; rejected records have neither."""
    (start, stop), job, counting = layout.bounds(partition), context.job, context.job.counting
    ends = layout.file_of(np.array([start, stop - 1])).tolist() if start < stop else (0, -1)
    bad = read_rejected(context.folder, layout, range(ends[0], ends[1] + 1)).positions(layout.files)
    valid = ~mask_of(bad[(start <= bad) & (bad < stop)] - start, stop - start)
    documents, date = np.flatnonzero(valid) + start, np.full(stop - start, NO_DATE)
    names, files = [pa.nulls(0, pa.string())], layout.file_of(documents)
    for first, last in run_bounds(files):
        number, here = int(files[first]), documents[first:last]
        file, rows = job.files[number], here - layout.files[number]

        def name_of(row: int, file: File = file, rows: Numbers = rows) -> str:
            return row_name(file, int(rows[row]))

        with job.stamps.unchanged([number]):
            if counting.source is not None:
                names.append(source_texts(format_of(file).values(file, counting.source, rows)).cast(pa.string()))
            if counting.date is not None:
                date[here - start] = instants(format_of(file).values(file, counting.date, rows), counting.date, name_of)
    at = np.cumsum(valid) - 1
    source = pa.concat_arrays(names).take(to_arrow(at, ~valid | (counting.source is None)))
    return TaskResult(SIGHTINGS.write(context.folder, partition, SightingRows(source, date)))
