"""The tables that tasks of `passages_files` pass on in the work folder."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.repeats.copies import Copies
from gpulsh.repeats.windows import Repeats, TokenSpans
from gpulsh.run.records.tables import Table


class SampleRows(NamedTuple):
    """Samples, one for all equal ones of a run, in runs ordered by the first as `store.columns` has it."""

    value: NDArray[np.uint64]
    place: Numbers  # from the first place of the partition on


class PlaceRows(NamedTuple):
    """Places of tokens, ascending in each run."""

    place: Numbers


class TakenPlaces(NamedTuple):
    """How many places each document of the partition takes."""

    places: Numbers


class WindowRows(NamedTuple):
    """Windows, one for all equal ones of a run, in runs ordered by the first as `store.columns` has it."""

    proposed: NDArray[np.uint64]
    proven: NDArray[np.uint64]
    equal: Numbers  # how many of the run are equal, itself included
    place: Numbers  # of the first of them, from the first place of the partition on


class Followers(NamedTuple):
    """The other windows of a run, ascending, and for each the place of the one in `WindowRows`."""

    place: Numbers
    first: Numbers


class PartRows(NamedTuple):
    """Lines or paragraphs, one for all equal ones of a run, in runs ordered by the first as `store.columns` has it."""

    hash: NDArray[np.uint64]
    lower: NDArray[np.uint64]
    equal: Numbers  # how many of the run are equal, itself included
    number: Numbers  # of the first of them, from the first of the partition on


class CopiesHere(NamedTuple):
    """The other copies of a run, ascending; for each its number in `PartRows`, and how many come before it."""

    number: Numbers
    first: Numbers
    rank: Numbers


class Spots(NamedTuple):
    """All lines or paragraphs of a partition: documents in it, bytes of their texts, tokens."""

    document: Numbers
    start: Numbers
    stop: Numbers
    tokens: Numbers


class ByteStretches(NamedTuple):
    """Marked stretches of documents by position, in bytes of texts; `first` is a place of a token, or negative."""

    document: Numbers
    start: Numbers
    stop: Numbers
    first: Numbers
    tokens: Numbers
    occurrences: Numbers


class FirstPlaces(NamedTuple):
    """First tokens of first occurrences, ascending: their documents and bytes."""

    place: Numbers
    document: Numbers
    start: Numbers


class Passages(NamedTuple):
    """The rows of `passages.parquet`, with documents by position; `first_document` is -1 where there is none."""

    document: Numbers
    start: Numbers
    stop: Numbers
    first_document: Numbers
    first_start: Numbers
    tokens: Numbers
    occurrences: Numbers


# Each with the stage that writes it, then in a comment the stages that read it.
SAMPLES = Table("sample", "samples", SampleRows)  # meet
REST = Table("sample", "rest", SampleRows)  # read where the run joins an index; the samples that SAMPLES lacks
MET_HERE = Table("sample", "met", PlaceRows)  # window; from the first place of the partition on
PLACES = Table("sample", "places", TakenPlaces)  # window, mark, locate
MET = Table("meet", "met", PlaceRows)  # window
WINDOWS = Table("window", "windows", WindowRows)  # repeat
FOLLOWERS = Table("window", "followers", Followers)  # mark
FOUND = Table("repeat", "found", Repeats)  # mark
PARTS = Table("part", "hashes", PartRows)  # count
COPIES_HERE = Table("part", "copies", CopiesHere)  # pick
SPOTS = Table("part", "spots", Spots)  # pick
COUNTED = Table("count", "counted", Copies)  # pick
STRETCHES = Table("mark", "stretches", TokenSpans)  # locate; in runs of documents
FIRSTS = Table("mark", "firsts", PlaceRows)  # locate
KEPT = Table("mark", "kept", PlaceRows)  # locate
BYTES = Table("locate", "bytes", ByteStretches)  # collect; of lines and paragraphs by `pick`
FIRST_PLACES = Table("locate", "firsts", FirstPlaces)  # collect; likewise
PASSAGES = Table("collect", "passages", Passages)  # list
