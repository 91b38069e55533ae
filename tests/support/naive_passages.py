"""Passages that repeat, from their definition alone: tuples of tokens in dictionaries, and the rules of other tools."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise

Document = Sequence[str]
Place = tuple[int, int]  # document, token
Marks = list[list[bool]]


def windows(documents: Sequence[Document], size: int) -> dict[Hashable, list[Place]]:
    """The places of each window, in order."""
    found: dict[Hashable, list[Place]] = defaultdict(list)
    for number, document in enumerate(documents):
        for start in range(len(document) - size + 1):
            found[tuple(document[start : start + size])].append((number, start))
    return found


def no_marks(documents: Sequence[Document]) -> Marks:
    return [[False] * len(document) for document in documents]


def set_marks(marks: Marks, places: Iterable[Place], size: int, value: bool = True) -> None:
    for number, start in places:
        marks[number][start : start + size] = [value] * size


def marked(documents: Sequence[Document], size: int, keep: str) -> Marks:
    """The marks of each document's tokens."""
    several = [places for places in windows(documents, size).values() if len(places) > 1]
    marks = no_marks(documents)
    set_marks(marks, [place for places in several for place in (places if keep == "none" else places[1:])], size)
    if keep == "first":
        set_marks(marks, [places[0] for places in several], size, False)
    return marks


def suffixes(documents: Sequence[Document]) -> list[tuple[list[str], Place]]:
    """A suffix array: every suffix of every document with its place, in order."""
    places = [(number, start) for number, document in enumerate(documents) for start in range(len(document))]
    return sorted((list(documents[number][start:]), (number, start)) for number, start in places)


def common(one: Sequence[str], other: Sequence[str]) -> int:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return length


def lee(documents: Sequence[Document], size: int) -> Marks:
    """Lee et al. 2022, section 4.1: every substring of `size` or more that two suffixes share goes, in both."""
    marks = no_marks(documents)
    for (one, place), (other, next_place) in pairwise(suffixes(documents)):
        if common(one, other) >= size:
            set_marks(marks, [place, next_place], common(one, other))
    return marks


def bsade(documents: Sequence[Document], size: int) -> Marks:
    """AI2's bsade: of suffixes that share `size` tokens, all but the first in the text lose them."""
    marks = no_marks(documents)
    group: list[Place] = []
    before: list[str] = []
    for suffix, place in [*suffixes(documents), ([], (0, 0))]:
        if common(before, suffix) < size:
            set_marks(marks, sorted(group)[1:], size)
            group = []
        if len(suffix) >= size:
            group.append(place)
        before = suffix
    return marks


def pieces(marks: Sequence[bool]) -> list[tuple[int, int]]:
    """The stretches [start, stop) of tokens that are not marked."""
    bounds = [0, *(place for place in range(1, len(marks)) if marks[place] != marks[place - 1]), len(marks)]
    return [(start, stop) for start, stop in pairwise(bounds) if start < stop and not marks[start]]


def unmarked_windows(documents: Sequence[Document], size: int, marks: Marks) -> list[tuple[Hashable, Place]]:
    """The windows of unmarked tokens, in order; marks are barriers."""
    return [
        (tuple(document[at : at + size]), (number, at))
        for number, (document, row) in enumerate(zip(documents, marks, strict=True))
        for start, stop in pieces(row)
        for at in range(start, stop - size + 1)
    ]


def lost(documents: Sequence[Document], size: int, marks: Marks) -> int:
    """The number of repeated windows without an unmarked copy."""
    whole = {window for window, _ in unmarked_windows(documents, size, marks)}
    return sum(len(places) > 1 and window not in whole for window, places in windows(documents, size).items())
