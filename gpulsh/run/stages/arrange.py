"""survey, rank: documents that an index decides in another order than that of the files, brought into it.

survey makes SIZES_AND_ORDER of a partition, as `sign` does, and signs nothing. rank makes RANKS, and MEMBERS in which
each group is a batch in that order: so `gather` writes every text beside those that are decided with it.
"""

from __future__ import annotations

import numpy as np

from gpulsh.io.files.file_texts import Partition, PartitionFacts
from gpulsh.io.rows import batch_cuts
from gpulsh.ragged import offsets
from gpulsh.run.job.layout import Layout
from gpulsh.run.job.order import kind_of
from gpulsh.run.job.task import Made, Workplace
from gpulsh.run.records.documents import ranks_of, sizes_of, write_facts
from gpulsh.run.records.rejections import PassedOver
from gpulsh.run.records.tables import MEMBERS, RANKS, Members, Ranks

RANK = "rank"  # the step


def survey(place: Workplace, partition: Partition) -> Made:
    """Read a partition for what its documents are ordered by."""
    size = 0
    with PassedOver(place.folder, partition.number) as rejected:
        facts = PartitionFacts(rejected=rejected)
        with place.unchanged(piece.file for piece in partition.pieces):
            for batch in place.texts().read(partition.pieces, place.ops.sizes().batch, facts):
                added = int(batch.offset[-1] - batch.offset[0])
                size += added
                place.progress.advance(added)
        known = write_facts(place, partition, facts, rejected)
    kinds = sorted(set(map(kind_of, facts.keys)))
    return Made(known.files, {**known.facts, "amount": size, "bytes": size, "kinds": kinds})


def rank(place: Workplace, layout: Layout) -> Made:
    """Put all documents in decision order, and cut that into groups of a batch each."""
    documents = np.arange(len(layout))
    ranks = ranks_of(documents, False, place.folder, layout)
    ordered = np.argsort(ranks)
    sizes = offsets(sizes_of(documents, place.folder, layout)[ordered])
    cuts = [start for start, _ in batch_cuts(sizes, place.ops.sizes().batch)]
    group = np.searchsorted(np.array(cuts, np.int64), ranks, side="right") - 1
    made = MEMBERS.write(place.folder, RANK, Members(documents, group, np.ones(len(documents), np.bool_)))
    made |= RANKS.write(place.folder, RANK, Ranks(ranks))
    return Made(made, {"amount": 1, "groups": len(cuts)})
