"""Put texts and candidate pairs in the order of the decision.

route        a file of PAIRS, MEMBERSHIPS, COPIES or TWINS, in order of groups: the columns of GROUPS, then its own
gather       a partition: the texts of its documents in groups, end to end in order of groups, and PLACES
survey       a partition, for an index that does not decide in the order of the files: SIZES_AND_ORDER
rank         all documents: RANKS, and MEMBERS with a group for each batch of that order, which `gather` then writes
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.io.file import wrong_row_count
from gpulsh.io.files.file_texts import Partition, PartitionFacts, Piece
from gpulsh.io.rows import batch_cuts
from gpulsh.ragged import offsets, row_of, slice_between
from gpulsh.run.job import JobContext, Layout, TaskResult
from gpulsh.run.records.documents import RejectionsFile, ranks_of, sizes_of, write_facts
from gpulsh.run.records.tables import CONNECT, GROUPS, MEMBERS, PLACES, RANKS, Members, Ranks, Row, Table, TextPlaces
from gpulsh.run.records.texts import adjacent_runs, chosen_pieces, texts_file, texts_of_piece
from gpulsh.store.columns import columns_file
from gpulsh.store.durable import rename_durably, temporary_path

ROWS_AT_ONCE = 1 << 20


def route_rows(context: JobContext, table: Table[Row], number: int) -> TaskResult:
    """Route a file of a table whose first column holds documents."""
    documents, groups, _ = MEMBERS.read(context.folder, CONNECT)
    source = table.open(context.folder, number)
    target = GROUPS.path(context.folder, table.route_step(number))
    with columns_file(target, pa.schema([*GROUPS.schema(), *table.schema()])) as out:
        for columns in source.runs():
            for start in range(0, len(columns[0]), ROWS_AT_ONCE):
                part = [column[start : start + ROWS_AT_ONCE] for column in columns]
                group = groups[np.searchsorted(documents, part[0])].astype(np.int64)
                order = np.argsort(group, kind="stable")
                out.append([group[order], *(column[order] for column in part)])
            source.release()
        return TaskResult(out.finish_by_name())


def gather_texts(context: JobContext, layout: Layout, partition: Partition, step: str) -> TaskResult:
    """Copy the texts of the partition's documents that meet others; `step` has put them into groups."""
    start, stop = layout.bounds(partition.number)
    known = MEMBERS.read(context.folder, step)
    rows = slice_between(known.document, start, stop)
    meets = known.meets[rows]
    document, group = known.document[rows][meets], known.group[rows][meets]
    size = sizes_of(document, context.folder, layout)
    order = np.argsort(group, kind="stable")
    offset = np.empty(len(order), np.int64)
    offset[order] = np.cumsum(size[order]) - size[order]
    places = TextPlaces(group[order], document[order], size[order], offset[order])
    made = PLACES.write(context.folder, partition.number, places)
    target, filled = texts_file(context.folder, partition.number), size > 0  # a bad record has no text
    context.progress.advance(int(np.count_nonzero(~filled)))
    with temporary_path(target) as part:
        with open(part, "wb") as out, context.unchanged_pieces(partition.pieces):
            _copy_texts(context, layout, partition, document[filled], size[filled], offset[filled], out.fileno())
        made[target.name] = rename_durably(part, target)
    return TaskResult(made, {"amount": len(document), "bytes": int(size.sum())})


def _copy_texts(
    context: JobContext, layout: Layout, partition: Partition, document: Numbers, size: Numbers, start: Numbers, fd: int
) -> None:
    """The texts of ascending documents of a partition, of `size` bytes each, to their places in a file."""
    texts = context.texts()

    def copy(wanted: tuple[Piece, slice]) -> slice:
        piece, chosen = wanted
        done = chosen.start
        for pieces in texts_of_piece(texts, layout, piece, document[chosen]):
            here = slice(done, done + len(pieces))
            # Sizes are of the first reading: a file that changed since would put one text over another.
            if [len(text) for text in pieces] != size[here].tolist():
                raise wrong_row_count(context.job.files[piece.file])
            for first, after in adjacent_runs(size[here], start[here]):
                _write_at(fd, pieces[first:after], int(start[done + first]))
            done = here.stop
        return chosen

    # One partition feeds a device: few are gathered in parallel, so each takes threads of its own.
    tasks = context.parallel - (context.held is not None)
    threads = context.ops.sizes().readers // max(tasks, 1)
    with ThreadPoolExecutor(threads) if threads > 1 else nullcontext() as pool:
        for chosen in (pool.map if pool else map)(copy, chosen_pieces(layout, partition, document)):
            context.progress.advance(chosen.stop - chosen.start)
            context.progress.count(size=int(size[chosen].sum()))


def _write_at(out: int, pieces: list[bytes | memoryview], offset: int) -> None:
    data = memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))
    while data:
        written = os.pwrite(out, data, offset)
        data, offset = data[written:], offset + written


RANK = "rank"  # the step


def read_order_values(context: JobContext, partition: Partition) -> TaskResult:
    """Read the values that order the documents of a partition."""
    with RejectionsFile(context.folder, partition.number) as rejected:
        facts = PartitionFacts(rejected=rejected)
        with context.unchanged_pieces(partition.pieces):
            for _ in context.read(partition.pieces, facts):
                pass
        return write_facts(context, partition, facts, rejected)


def rank_documents(context: JobContext, layout: Layout) -> TaskResult:
    """Put all documents in decision order, and cut that into groups of a batch each."""
    documents = np.arange(len(layout))
    ranks = ranks_of(documents, context, layout)
    ordered = np.argsort(ranks)
    sizes = offsets(sizes_of(documents, context.folder, layout)[ordered])
    cuts = [start for start, _ in batch_cuts(sizes, context.ops.sizes().batch)]
    group = row_of(np.array(cuts, np.int64), ranks)
    made = MEMBERS.write(context.folder, RANK, Members(documents, group, np.ones(len(documents), np.bool_)))
    made |= RANKS.write(context.folder, RANK, Ranks(ranks))
    context.progress.advance(len(layout))
    return TaskResult(made, {"groups": len(cuts), "amount": len(layout)})
