"""prefix: a partition; so many of the rarest fingerprints of each document that whoever contains it has one of them.

Makes PREFIXES, and SET_SIZES of the same documents. Copies have none, and protected documents, which are never dropped,
no prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers
from gpulsh.backends.prefixes import least_share, prefix_lengths
from gpulsh.ragged import first_of_runs
from gpulsh.run.job.layout import Layout
from gpulsh.run.job.task import Made, Workplace
from gpulsh.run.records.numbers import tampered, within
from gpulsh.run.records.postings import Participants, postings_file
from gpulsh.run.records.tables import POSTINGS, PREFIXES, SET_SIZES, WEIGHTS, PostingRows, SetSizes


def prefix(place: Workplace, layout: Layout, copies: Sequence[Path], weights: int, partition: int) -> Made:
    """Choose the prefixes of a partition by the `weights` of so many ranges."""
    start, stop = layout.partitions[partition : partition + 2].tolist()
    takes_part = Participants(place.folder, layout, copies).of(partition)
    postings = POSTINGS.open(POSTINGS.path(place.folder, partition))
    sizes = np.zeros(stop - start, np.int64)
    for run in postings.runs():
        rows = within(place.folder, "documents", run.row, 0, stop - start)
        sizes += np.bincount(rows[takes_part[rows]], minlength=len(sizes))
        postings.let_go()
    lengths = prefix_lengths(sizes, least_share(place.job.method.threshold))
    owns = takes_part & (np.arange(start, stop) >= layout.protected)
    counts = _counts(place.folder, weights)
    ops, chosen = place.ops, 0
    with ops.here(), postings_file(PREFIXES, place.folder, partition) as out:
        here = ops.asarray(counts)
        for run in postings.runs():
            documents, sets = _sets(run, owns)
            postings.let_go()
            # Of a document in several runs each has its part of the prefix: any of its fingerprints do.
            parts = -(-lengths[documents] * sets.lengths // sizes[documents])
            found = ops.prefixes(ops.unique(sets.moved(ops.asarray)), here, ops.asarray(parts))
            values, of = ops.asnumpy(found.values), np.diff(ops.asnumpy(found.offset))
            out.add(values, np.repeat(documents, of))
            chosen += len(values)
        made = out.finish()
    place.progress.advance(1)
    made |= SET_SIZES.write(place.folder, partition, SetSizes(sizes))
    return Made(made, {"amount": 1, "chosen": chosen})


def _counts(folder: Path, weights: int) -> NDArray[np.uint8]:
    """uint8 [2^b]: the weights of all ranges, of which one is mapped at a time."""
    counts = np.empty(0, np.uint8)
    for part in range(weights):
        columns = WEIGHTS.open(WEIGHTS.path(folder, part))
        here = columns.whole().documents
        if part == 0:
            counts = np.empty(weights * len(here), np.uint8)
        if len(here) & (len(here) - 1) or len(here) * weights != len(counts) or not len(here):
            raise tampered(folder, f"weights of {len(here)} slots")
        counts[part * len(here) : (part + 1) * len(here)] = here
        columns.let_go()
    return counts


def _sets(run: PostingRows, owns: NDArray[np.bool_]) -> tuple[Numbers, Fingerprints]:
    """The documents of a run that have prefixes, ascending, and their fingerprints in it, in any order."""
    chosen = np.flatnonzero(owns[run.row])
    rows = run.row[chosen]
    beyond = rows - rows.min(initial=len(owns))
    # Two passes of a radix sort, unless the documents of a run are very many.
    order = np.argsort(beyond.astype(np.uint16) if beyond.max(initial=0) < 1 << 16 else beyond, kind="stable")
    chosen, rows = chosen[order], rows[order]
    begins = np.flatnonzero(first_of_runs(rows))
    return rows[begins].astype(np.int64), Fingerprints(run.fingerprint[chosen], np.append(begins, len(rows)))
