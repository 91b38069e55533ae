"""gather: a partition; the texts of its documents that met others, in order of their groups.

Makes `texts`, the texts end to end, and PLACES, a row a text, in the same order. A group reads its texts from all
partitions, where they lie.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.io.file import wrong_length
from gpulsh.io.files.file_texts import Partition
from gpulsh.run.job.layout import Layout
from gpulsh.run.job.task import Made, Workplace
from gpulsh.run.records.documents import sizes_of
from gpulsh.run.records.group_texts import runs_of, texts_file
from gpulsh.run.records.numbers import ascending, within
from gpulsh.run.records.tables import MEMBERS, PLACES, TextPlaces
from gpulsh.store.durable import completed, unfinished


def gather(place: Workplace, layout: Layout, partition: Partition, members: Path) -> Made:
    """Copy the texts of the partition's members that meet others."""
    start, stop = layout.partitions[partition.number : partition.number + 2]
    known = MEMBERS.open(members).whole()
    rows = slice(*np.searchsorted(known.document, [start, stop]).tolist())
    meets = known.meets[rows]
    document, group = known.document[rows][meets], known.group[rows][meets]
    ascending(place.folder, "documents", within(place.folder, "documents", document, int(start), int(stop)))
    size = sizes_of(document, place.folder, layout)
    order = np.argsort(group, kind="stable")
    offset = np.empty(len(order), np.int64)
    offset[order] = np.cumsum(size[order]) - size[order]
    places = TextPlaces(group[order], document[order], size[order], offset[order])
    made = PLACES.write(place.folder, partition.number, places)
    target = texts_file(place.folder, partition.number)
    with unfinished(target) as part:
        with open(part, "wb") as out, place.unchanged(piece.file for piece in partition.pieces):
            _copy(place, layout, partition, document, size, offset, out.fileno())
        made[target.name] = completed(part, target)
    return Made(made, {"amount": len(document), "bytes": int(size.sum())})


def _copy(
    place: Workplace,
    layout: Layout,
    partition: Partition,
    document: Numbers,
    size: Numbers,
    offset: Numbers,
    out: int,
) -> None:
    """The texts of ascending documents of a partition, of `size` bytes each, to their places in a file."""
    texts = place.texts()
    done = 0
    for piece in partition.pieces:
        start, stop = layout.files[piece.file : piece.file + 2].tolist()
        end = start + piece.start + piece.part.rows if piece.part else stop
        last = int(np.searchsorted(document, end))
        if done == last:
            continue
        for pieces in texts.chosen(piece, document[done:last] - start, stop - start):
            here = slice(done, done + len(pieces))
            # Sizes are of the first reading: a file that changed since would put one text over another.
            if [len(text) for text in pieces] != size[here].tolist():
                raise wrong_length(place.job.files[piece.file])
            for first, after in runs_of(size[here], offset[here]):
                _write(out, pieces[first:after], int(offset[done + first]))
            place.progress.advance(len(pieces))
            place.progress.count(size=int(size[here].sum()))
            done = here.stop


def _write(out: int, pieces: list[bytes | memoryview], offset: int) -> None:
    data = memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))
    while data:
        written = os.pwrite(out, data, offset)
        data, offset = data[written:], offset + written
