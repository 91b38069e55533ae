"""The passages of a report: those that take up most tokens, with the beginning of the text of each.

An entry has occurrences, tokens, first place, document, start, stop and text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpulsh.io.files.file_texts import Partition
from gpulsh.ragged import sorted_distinct
from gpulsh.run.job import Layout
from gpulsh.run.passages.job import ByteStretches, PassagesPlace
from gpulsh.run.records.texts import chosen_texts

FREQUENT, LISTED, SHOWN = 60, 20, 400  # passages that may be among those of the report, those, and bytes of each

Entry = list[Any]


def candidates(passages: ByteStretches) -> list[Entry]:
    """Passages that may be among the most frequent, without texts; the longest for each first occurrence."""
    repeats = np.flatnonzero(passages.first >= 0)
    weight = passages.occurrences[repeats] * passages.tokens[repeats]
    order = repeats[np.argsort(-weight, kind="stable")]
    _, at = np.unique(passages.first[order], return_index=True)
    chosen = order[np.sort(at)[:FREQUENT]]
    columns = (
        *(passages.occurrences, passages.tokens, passages.first),
        *(passages.document, passages.start, passages.stop),
    )
    return [[*numbers, ""] for numbers in zip(*(column[chosen].tolist() for column in columns), strict=True)]


def with_texts(entries: Sequence[Entry], text_of: Callable[[int], Any]) -> list[Entry]:
    """The same, with their texts; `text_of` a document, by position, gives its bytes."""
    found = []
    for *numbers, _ in entries:
        document, start, stop = numbers[3:]
        text = bytes(text_of(document)[start : min(stop, start + SHOWN)])
        found.append([*numbers, text.decode("utf-8", "replace")])
    return found


def with_texts_again(
    entries: Sequence[Entry], place: PassagesPlace, layout: Layout, partition: Partition
) -> list[Entry]:
    """The same of documents of a partition, which are read again."""
    documents = sorted_distinct(np.array([one[3] for one in entries], np.int64))
    with place.unchanged(piece.file for piece in partition.pieces):
        texts = [text for some in chosen_texts(place.texts(), layout, partition, documents) for text in some]
    return with_texts(entries, lambda document: texts[int(np.searchsorted(documents, document))])


def most_frequent(entries: Sequence[Entry]) -> list[Entry]:
    """The passages that take up most tokens; the longest, then the first, for each first occurrence."""
    found: dict[int, Entry] = {}
    for one in sorted(entries, key=lambda one: (-one[0] * one[1], one[3], one[4])):
        found.setdefault(one[2], one)
    return list(found.values())[:FREQUENT]


def apart(entries: Sequence[Entry]) -> list[Entry]:
    """The first LISTED passages of a list whose first occurrences do not overlap: windows of one text are one entry."""
    found: list[Entry] = []
    for one in entries:
        first, stop = one[2], one[2] + one[1]
        if all(stop <= other[2] or other[2] + other[1] <= first for other in found):
            found.append(one)
    return found[:LISTED]
