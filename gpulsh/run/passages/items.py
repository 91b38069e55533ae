"""Mark what items of a test set cover in documents, with `--protect`.

hold         a partition: its documents that hold items -> PASSAGES, and their ids

The stages `protect` and `screen` before it, and `contamination` behind it, are those of a run that drops the documents.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.io.files.file_texts import Partition
from gpulsh.ragged import sorted_distinct
from gpulsh.run.job import Layout, Made
from gpulsh.run.passages.evidence import write_ids
from gpulsh.run.passages.job import PASSAGES, Passages, PassagesPlace
from gpulsh.run.passages.mark import FREQUENT, SHOWN
from gpulsh.run.records.tables import HELD, HELD_SPANS, HeldSpans
from gpulsh.run.records.texts import chosen_texts


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
    place.progress.advance(1)
    counts = {
        "passages": len(document),
        "tokens": int(spans.tokens.sum()),
        "bytes_marked": int((spans.stop - spans.start).sum()),
        "documents_marked": len(documents),
    }
    shown = _shown(place, layout, partition, spans, occurrences)
    return Made(made | ids, {"amount": 1, "ids": len(ids), **counts, "frequent": shown})


def _shown(
    place: PassagesPlace, layout: Layout, partition: Partition, spans: HeldSpans, occurrences: Numbers
) -> list[list[Any]]:
    """Entries of `most_frequent`: of each item the first stretch, with the beginning of its text."""
    order = np.argsort(-(occurrences * spans.tokens), kind="stable")
    _, at = np.unique(spans.item[order], return_index=True)
    chosen = np.sort(order[np.sort(at)[:FREQUENT]])
    rows, first = sorted_distinct(spans.row[chosen]), int(layout.partitions[partition.number])
    with place.unchanged(piece.file for piece in partition.pieces):
        texts = [bytes(text) for some in chosen_texts(place.texts(), layout, partition, rows + first) for text in some]
    found = []
    for one in chosen.tolist():
        row, start, stop = (int(column[one]) for column in (spans.row, spans.start, spans.stop))
        text = texts[int(np.searchsorted(rows, row))][start : min(stop, start + SHOWN)].decode("utf-8", "replace")
        numbers = (occurrences, spans.tokens, spans.item)
        found.append([*(int(column[one]) for column in numbers), row + first, start, stop, text])
    return found


def _holding(place: PassagesPlace, partitions: int, items: Numbers) -> Numbers:
    """How many documents of all partitions hold each of `items`."""
    wanted = sorted_distinct(items)
    counts = np.zeros(len(wanted) + 1, np.int64)
    for partition in range(partitions) if len(wanted) else ():
        found = HELD.read(place.folder, partition).item
        at = np.searchsorted(wanted, found)
        known = at < len(wanted)
        known[known] = wanted[at[known]] == found[known]
        counts += np.bincount(at[known], minlength=len(counts))
    return counts[np.searchsorted(wanted, items)]
