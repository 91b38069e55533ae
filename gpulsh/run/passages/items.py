"""Mark text that items of a test set cover in documents, with `--protect`.

hold         a partition: its documents that hold items -> PASSAGES, and their ids

The stages `protect`, `screen` and `contamination` are the same as in a run that drops the documents.
"""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.io.files.file_texts import Partition
from gpulsh.ragged import found_in, sorted_distinct
from gpulsh.run.job import Layout, Made
from gpulsh.run.passages.frequent import candidates, with_texts_again
from gpulsh.run.passages.job import PASSAGES, ByteStretches, Passages, PassagesPlace
from gpulsh.run.passages.mark import counts_of
from gpulsh.run.records.tables import HELD, HELD_SPANS
from gpulsh.run.stages.write import write_ids


def hold(place: PassagesPlace, layout: Layout, partition: Partition) -> Made:
    """Mark the stretches of a partition's documents that items cover."""
    number = partition.number
    spans = HELD_SPANS.read(place.folder, number)
    document = spans.row + layout.partitions[number]
    occurrences = 1 + _holding(place, len(layout.partitions) - 1, spans.item)
    columns = document, spans.start, spans.stop, spans.item, np.zeros_like(spans.item), spans.tokens, occurrences
    made = PASSAGES.write(place.folder, number, Passages(*columns))
    documents = sorted_distinct(document)
    ids = write_ids(place, layout, number, documents)
    passages = ByteStretches(document, spans.start, spans.stop, spans.item, spans.tokens, occurrences)
    frequent = with_texts_again(candidates(passages), place, layout, partition)
    return Made(made | ids, {"ids": len(ids), **counts_of(passages), "frequent": frequent})


def _holding(place: PassagesPlace, partitions: int, items: Numbers) -> Numbers:
    """How many documents of all partitions hold each of `items`."""
    wanted = sorted_distinct(items)
    counts = np.zeros(len(wanted), np.int64)
    for partition in range(partitions) if len(wanted) else ():
        _, at = found_in(wanted, HELD.read(place.folder, partition).item)
        counts += np.bincount(at, minlength=len(counts))
    return counts[np.searchsorted(wanted, items)]
