"""Which of two duplicates is kept, and which may be dropped: `--keep`, `--protect`, `--within`, `--across`.

Also the columns that a run adds to the rows it writes, and where it finds sources and dates of documents.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, Values
from gpulsh.checks import plural, shown
from gpulsh.decide.counts.retention import Retention
from gpulsh.decide.counts.weights import Recipe, WeightBy
from gpulsh.errors import Advice, InputError, ParameterError
from gpulsh.io.arrow.buffers import null_mask, number_values
from gpulsh.io.conversion import FormatName
from gpulsh.io.file import File
from gpulsh.io.files.file_texts import PartitionFacts
from gpulsh.io.format import OrderValues
from gpulsh.io.formats.arrow_ipc import Ipc
from gpulsh.io.formats.endings import known_format
from gpulsh.io.formats.jsonl import JsonLines
from gpulsh.io.formats.parquet import Parquet
from gpulsh.params import Folding, Shingling
from gpulsh.repeats.benchmark import Overlap
from gpulsh.stats.counts import CLUSTERS, MARKS, WEIGHT

_log = logging.getLogger("gpulsh")


@dataclass(frozen=True)
class Screening:
    """How documents are compared with the items of a test set, which are the protected documents."""

    overlap: Overlap
    shingling: Shingling  # how tokens are read
    folding: Folding
    marks: bool = False  # whether all that documents hold of items is wanted, too


@dataclass(frozen=True)
class Policy:
    """The policy of a run over `inputs`; ParameterError if `keep` names nothing that could be kept by."""

    keep: str
    inputs: tuple[str, ...]
    protect: tuple[str, ...] = ()  # their files come before those of the inputs, and are only read
    within: bool = False
    across: bool = False
    overlap: Overlap | None = None  # with items of the protected files, from which a document is dropped
    retention: Retention = field(default_factory=Retention)
    order_column: str | None = field(init=False)  # the column that `keep` names
    ranks: dict[str, int] | None = field(init=False)  # the inputs' places, where `keep` lists them

    def __post_init__(self) -> None:
        keep: object = self.keep
        column = keep.removeprefix("column:") if isinstance(keep, str) else ""
        if not column:
            raise ParameterError(
                f"keep is {shown(keep)}; give first, longest, source:INPUT,INPUT... or the name of a column"
            )
        is_listed = self.keep.startswith(SOURCE)
        order_column = None if is_listed or keep in ("first", "longest") else column
        object.__setattr__(self, "order_column", order_column)
        object.__setattr__(self, "ranks", _source_ranks(self.keep, self.inputs) if is_listed else None)
        if self.within and self.across:
            raise ParameterError("--within and --across are both given; give one, or none for duplicates of both kinds")

    def check_sources(self, files: Sequence[File], source_column: str | None) -> None:
        """Warn if no document can be dropped for another, ParameterError if none can have `min_sources`."""
        sources, least = len({file.source for file in files}), self.retention.min_sources
        if self.across and sources < 2:
            _log.warning(Advice("--across drops nothing, because all documents are of one INPUT; give several INPUTs"))
        if self.within and least > 1 and source_column is None:
            raise ParameterError(
                f"min_sources is {least}, and --within compares only documents of one INPUT;"
                " give --source-column, or leave --within out"
            )
        if sources < least and source_column is None:
            raise ParameterError(
                f"min_sources is {least}, and the documents are of {plural(sources, 'INPUT')};"
                " give more INPUTs, or --source-column"
            )

    def to_json(self) -> Mapping[str, Any]:
        """The policy in a report, by which runs are compared."""
        protect = list(self.protect)
        overlap = {} if self.overlap is None else self.overlap.to_json()
        plain = {"keep": self.keep, "protect": protect, "within": self.within, "across": self.across}
        return {**plain, **overlap, **self.retention.to_json()}

    def by_source(self) -> bool:
        """Whether it matters which INPUT a document is of."""
        return self.within or self.across

    def order(self, facts: PartitionFacts, files: Sequence[File], row_name: Callable[[int], str]) -> Order | None:
        """The decision order of the documents of a partition of `files`; None if that is their position."""
        if self.keep == "first":
            return None
        if self.ranks is not None:
            places = [self.ranks.get(files[number].source, 0) for number in facts.rows]
            place = np.repeat(places, list(facts.rows.values())).astype(np.uint64)
            return Order(place, np.zeros(len(place), np.uint64))
        if self.order_column is None:
            sizes: Numbers = np.concatenate([np.empty(0, np.int64), *facts.sizes])
            return Order(~sizes.view(np.uint64), np.zeros(len(sizes), np.uint64))  # longest first
        found, start = [], 0
        for values in facts.order:
            at = partial(lambda start, row: row_name(start + row), start)
            found.append(highest_first(values, self.order_column, at))
            start += len(values)
        none = np.empty(0, np.uint64)
        return Order(*map(np.concatenate, zip((none, none), *found, strict=True)))


Write = Literal["data", "duplicates", "marked"]


@dataclass(frozen=True)
class Counting:
    """Uses of counts in a run, besides `clusters.parquet`."""

    source: str | None = None  # the column of sources; None: each INPUT is one
    date: str | None = None
    add_counts: bool = False
    weights: Recipe | None = None
    weight_by: WeightBy = "verified"

    def to_json(self) -> Mapping[str, Any]:
        """The parameters that are given, as a report has them."""
        return {
            **({} if self.source is None else {"source_column": self.source}),
            **({} if self.date is None else {"date_column": self.date}),
            **({"add_counts": True} if self.add_counts else {}),
            **({} if self.weights is None else {"weights": self.weights.to_json(), "weight_by": self.weight_by}),
        }

    def input_columns(self) -> Mapping[str, str]:
        """The columns that are read, and the option of each."""
        options = {"--source-column": self.source, "--date-column": self.date}
        return {name: option for option, name in options.items() if name is not None}

    def added_columns(self, write: Write) -> tuple[str, ...]:
        """The names of the columns that are added to written rows, in order."""
        marked = write == "marked"
        counts = [row.name for row in CLUSTERS if row.counted] if marked or self.add_counts else []
        weight = [WEIGHT.name] if self.weights is not None and write != "duplicates" else []
        return (*([row.name for row in MARKS] if marked else []), *counts, *weight)


def refuse_without_columns(files: Sequence[File], format: FormatName | None) -> None:
    """InputError for a file whose format takes no more columns."""
    if format is not None:
        return
    for file in files:
        if file.as_text or not isinstance(known_format(file.plain_path), (Parquet, Ipc, JsonLines)):
            raise InputError(
                f"{file.name}: its rows take no more columns in this format; run with --format parquet or jsonl"
            )


ONE, SIGN = np.uint64(1), np.uint64(63)
BELOW_SIGN = np.uint64((1 << 63) - 1)
LAST = np.uint64((1 << 64) - 1)
NUMBER, DATE, NULL = "number", "date", "null"
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SOURCE = "source:"
SHOWN = 5  # INPUTs in a message


def _source_ranks(keep: str, inputs: Sequence[str]) -> dict[str, int]:
    """For `source:A,B,...` the place of each INPUT: those listed as listed, then the others.

    An INPUT is listed as it was given or by an end of its path. ParameterError if a name means none of them, or
    several.
    """
    ranks: dict[str, int] = {}
    for name in keep.removeprefix(SOURCE).split(","):
        wanted = name.rstrip("/") or name
        ends = [given for given in inputs if f"/{given.rstrip('/')}".endswith(f"/{wanted}")]
        meant = [given for given in ends if given.rstrip("/") == wanted] or ends
        if len(meant) != 1 or meant[0] in ranks:
            what = "an INPUT listed before" if len(meant) == 1 else f"{len(meant) or 'none'} of the INPUTs"
            more = f" and {len(inputs) - SHOWN:,} more" if len(inputs) > SHOWN else ""
            some = ", ".join(inputs[:SHOWN])
            raise ParameterError(f"keep is {keep!r} and {name!r} matches {what}; the INPUTs are: {some}{more}")
        ranks[meant[0]] = len(ranks)
    return {given: ranks.get(given, len(ranks)) for given in inputs}


class Order(NamedTuple):
    """Decision order of n documents by two numbers each, uint64 [n]: the less comes first, ties by position."""

    major: NDArray[np.uint64]
    minor: NDArray[np.uint64]

    def rank(self, protected: NDArray[np.bool_]) -> Numbers:
        """int64 [n]: the place of each in decision order, rows being in order of position; `protected` come first."""
        ordered = np.lexsort((self.minor, self.major, ~protected))
        rank = np.empty(len(ordered), np.int64)
        rank[ordered] = np.arange(len(ordered))
        return rank


def kind_of(values: OrderValues) -> str:
    """The type that a block of values is compared as: `number`, `date`, another type of time, or `null`."""
    if not isinstance(values, pa.Array):
        return NUMBER
    if values.null_count == len(values):
        return NULL
    if _is_date(values.type):
        return DATE
    return str(values.type) if pa.types.is_temporal(values.type) else NUMBER


def _is_date(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def check_kinds(kinds: Iterable[str], column: str) -> None:
    """InputError if values of these types do not compare with one another."""
    several = sorted(set(kinds) - {NULL})
    if len(several) > 1:
        raise InputError(f"column {column!r} is {' and '.join(several)} in different files; make it one type")


def highest_first(values: OrderValues, column: str, row_name: Callable[[int], str]) -> Order:
    """Highest value first, null last, for a pyarrow.Array of integers, floats, dates or times, or for Python numbers.

    Integers and floats compare exactly: `major` is the nearest float, `minor` how far the value is above it. So do
    dates of all units, as seconds and nanoseconds. `row_name` names a row in messages. InputError at a NaN, and at an
    integer so large that the rest is, too.
    """
    if isinstance(values, pa.Array):
        values = values.cast(pa.int64()) if pa.types.is_null(values.type) else values
        mask = null_mask(values)
        null = np.zeros(len(values), np.bool_) if mask is None else mask
        kind = values.type
        if pa.types.is_temporal(kind):  # dates and times are integers below
            values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
        numbers = np.where(null, 0, number_values(values))
        nearest, rest = _seconds(numbers, kind) if _is_date(kind) else _nearest_floats(numbers)
    else:
        null = np.array([value is None for value in values], np.bool_)
        nearest, rest = _nearest_floats_of_numbers(values, column, row_name)
    strange = np.isnan(nearest) & ~null
    if strange.any():
        raise InputError(
            f"{row_name(int(np.argmax(strange)))}: column {column!r} is NaN; make it a number, or null to be kept last"
        )
    bits = (nearest + 0.0).view(np.uint64)  # -0.0 is 0.0
    major = np.where(bits >> SIGN, bits, bits ^ BELOW_SIGN)  # descending
    minor = ~(rest.view(np.uint64) ^ (ONE << SIGN))
    return Order(np.where(null, LAST, major), np.where(null, LAST, minor))


def _seconds(values: Numbers, kind: pa.DataType) -> tuple[NDArray[np.float64], Numbers]:
    """float64 [n], int64 [n]: the seconds and nanoseconds of dates. Seconds are exact for 285 million years."""
    if pa.types.is_date32(kind):
        return values.astype(np.float64) * 86_400, np.zeros(len(values), np.int64)
    per_second = PER_SECOND["ms" if pa.types.is_date64(kind) else kind.unit]
    return (values // per_second).astype(np.float64), values % per_second * (10**9 // per_second)


def _nearest_floats(values: Values) -> tuple[NDArray[np.float64], Numbers]:
    """float64 [n], int64 [n]: the nearest float of each and the rest, which order like `values`."""
    nearest = values.astype(np.float64)
    if values.dtype.kind == "f":
        return nearest, np.zeros(len(values), np.int64)
    # The difference is small, so it is right modulo 2^64 for any sign and size of the number.
    whole = values.astype(np.uint64)
    least, most = -(2.0**63), 2.0**63
    low = np.where((nearest >= least) & (nearest < most), nearest, 0.0).astype(np.int64).view(np.uint64)
    high = np.where((nearest >= most) & (nearest < 2 * most), nearest, 0.0).astype(np.uint64)
    return nearest, (whole - (low + high)).view(np.int64)


def _nearest_floats_of_numbers(
    values: Sequence[int | float | None], column: str, row_name: Callable[[int], str]
) -> tuple[NDArray[np.float64], Numbers]:
    nearest, rest = np.zeros(len(values)), np.zeros(len(values), np.int64)
    for place, value in enumerate(values):
        if value is None:
            continue
        try:
            nearest[place] = float(value)
            rest[place] = value - int(nearest[place]) if isinstance(value, int) else 0
        except OverflowError:
            raise InputError(
                f"{row_name(place)}: column {column!r} is an integer of {len(str(abs(value)))} digits;"
                " make it a smaller one"
            ) from None
    return nearest, rest
