"""Benchmark items inside documents, from the definition alone: sets of tuples of tokens."""

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

Document = Sequence[str]
Window = tuple[str, ...]


class Found(NamedTuple):
    row: int
    item: int
    coverage: Fraction
    first: int  # token of the document
    stop: int


def windows(item: Document, size: int) -> Iterator[tuple[int, Window]]:
    """Each window with its first token; a shorter item is one window."""
    size = min(size, len(item))
    for at in range(len(item) - size + 1) if size else ():
        yield at, tuple(item[at : at + size])


def common(items: Sequence[Document], size: int, most: int | None) -> set[Window]:
    """The windows of more than `most` items."""
    counts = Counter(window for item in items for window in {window for _, window in windows(item, size)})
    return set() if most is None else {window for window, count in counts.items() if count > most}


def contamination(
    items: Sequence[Document], documents: Sequence[Document], size: int, coverage: Fraction, most: int | None = None
) -> list[Found]:
    """The matches by row, then by item."""
    left_out = common(items, size, most)
    counting = [[(at, window) for at, window in windows(item, size) if window not in left_out] for item in items]
    found = []
    for row, document in enumerate(documents):
        first: dict[Window, int] = {}
        for length in {len(window) for item in counting for _, window in item}:
            for at in range(len(document) - length + 1):
                first.setdefault(tuple(document[at : at + length]), at)
        for number, item in enumerate(counting):
            known = {token for at, window in item for token in range(at, at + len(window))}
            shared = {token for at, window in item if window in first for token in range(at, at + len(window))}
            if shared and Fraction(len(shared), len(known)) >= coverage:
                places = [(first[window], first[window] + len(window)) for _, window in item if window in first]
                bounds = min(place[0] for place in places), max(place[1] for place in places)
                found.append(Found(row, number, Fraction(len(shared), len(known)), *bounds))
    return found
