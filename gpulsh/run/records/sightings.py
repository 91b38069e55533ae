"""Where and when documents were seen: the values of `source_column` and `date_column`, in memory and of a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpulsh.arrays import Numbers
from gpulsh.decide.counts.counts import NO_DATE, UNKNOWN, Sightings, kept_sightings
from gpulsh.errors import InputError, InputTypeError, ParameterError
from gpulsh.io.arrow.buffers import null_mask, number_values, plain_values, take_rows, to_arrow
from gpulsh.io.arrow.ids import value_strings
from gpulsh.io.arrow.rows import is_text
from gpulsh.io.arrow.texts import as_strings
from gpulsh.io.arrow.validation import checked_column
from gpulsh.io.formats.blocks import SHOWN_CHARACTERS, Instant, parse_value, read_dates
from gpulsh.io.memory.tables import table_texts
from gpulsh.run.job import Job, Layout
from gpulsh.run.records.tables import SIGHTINGS, SeenRows, SightingRows

RowName = Callable[[int], str]  # how a message names a row


def source_texts(values: pa.Array) -> pa.Array:
    """Each source as a string: texts and bytes as they are, other values by `value_strings`."""
    values = plain_values(values)
    if pa.types.is_fixed_size_binary(values.type):
        values = values.cast(pa.binary())
    return as_strings(values) if is_text(values.type) else value_strings(values)


def sightings_of(sources: pa.Array | None, dates: Numbers | None) -> Sightings:
    """From the sources of n documents, as strings, and their dates."""
    if sources is None:
        return Sightings.from_one_source(dates)
    names = pc.unique(sources).drop_null()
    names = names.take(pc.sort_indices(names))
    places, names = pc.index_in(sources, value_set=names), names.cast(pa.string())  # all sources may have 2 GiB
    number = number_values(places).astype(np.int64)
    if (missing := null_mask(places)) is not None:
        number[missing] = UNKNOWN
    return Sightings(number, names, dates)


def instants(values: pa.Array, column: str, row_name: RowName) -> Numbers:
    """int64 [n]: dates, times of dates, or strings of ISO 8601, as microseconds since 1970 in UTC; null is NO_DATE.

    A time without an offset is one of UTC. InputTypeError for a column of another type, InputError for the first string
    that is not a date, or date of a year beyond 290,000.
    """
    values = plain_values(values)
    types, kind = pa.types, values.type
    if types.is_date(kind) or types.is_timestamp(kind):
        found = _microseconds(values, column, row_name).view(pa.int64())
    elif values.null_count == len(values):  # pandas gives a column without values the type float64
        found = pa.nulls(len(values), pa.int64())
    elif is_text(kind) and (dates := read_dates(texts := as_strings(values))) is not None:
        found = dates.view(pa.int64())
    elif is_text(kind):
        keys = [None if text is None else parse_value(text) for text in texts.to_pylist()]
        for row, key in enumerate(keys):
            if key is not None and not isinstance(key, Instant):
                given = repr(texts[row].as_py()[:SHOWN_CHARACTERS])
                raise InputError(
                    f"{row_name(row)}: column {column!r} is {given}; --date-column takes dates as 2024-01-31T12:00:00Z"
                )
        found = to_arrow(np.array([NO_DATE if key is None else key for key in keys], np.int64))
    else:
        raise InputTypeError(
            f"{row_name(0)}: column {column!r} is {kind}; --date-column takes dates, or strings of them"
        )
    null = null_mask(found)
    return number_values(found) if null is None else np.where(null, NO_DATE, number_values(found))


def _microseconds(values: pa.Array, column: str, row_name: RowName) -> pa.Array:
    zone = values.type.tz if pa.types.is_timestamp(values.type) else None
    found = values.cast(pa.timestamp("us", zone), safe=False)  # cuts nanoseconds off
    if values.type != pa.timestamp("ns", zone):
        row = pc.index(pc.not_equal(found.cast(values.type, safe=False), values), True).as_py()
        if row >= 0:
            raise InputError(
                f"{row_name(row)}: column {column!r} has a date that 64 bits of microseconds cannot hold;"
                " --date-column takes years from -290,000 to 290,000"
            )
    return found


def sightings_in_memory(texts: object, count: int, source: object, date: object) -> Sightings:
    """The sightings of documents in memory. `source` and `date` name a column of the table `texts`, or are n values.

    Raises ParameterError unless it is a column of n values, and the errors of `instants`.
    """
    sources = None if source is None else source_texts(_given_values("source_column", source, texts, count))
    if date is None:
        return sightings_of(sources, None)
    dates = _given_values("date_column", date, texts, count)
    return sightings_of(sources, instants(dates, date if isinstance(date, str) else "date", lambda row: f"row {row}"))


def _given_values(name: str, given: Any, texts: Any, count: int) -> pa.Array:
    if isinstance(given, str) and "," in given:
        raise ParameterError(f"{name} is {given!r}; give the name of one column")
    return checked_column(name, table_texts(texts, [given], name) if isinstance(given, str) else given, count)


def source_and_date(
    job: Job, layout: Layout, positions: Numbers, read: Callable[[int], SightingRows]
) -> tuple[pa.Array, Numbers]:
    """The name of the source, or null, and the date of ascending `positions` [m]; `read` gives a partition's."""
    counting = job.counting
    date = np.full(len(positions), NO_DATE)
    found = [pa.nulls(0, pa.string())]
    if counting.input_columns():
        for number, part in layout.by_partition(positions):
            known = read(number)
            rows = positions[part] - layout.partitions[number]
            date[part] = known.date[rows]
            found.append(take_rows(known.source, rows))
    if counting.source is not None:
        return pa.concat_arrays(found), date
    return job.inputs.take(to_arrow(layout.source_of(positions))), date


def sightings_at(job: Job, folder: Path, layout: Layout, positions: Numbers) -> Sightings:
    """Where and when the documents at ascending `positions` were seen."""
    source, date = source_and_date(job, layout, positions, partial(SIGHTINGS.read, folder))
    return sightings_of(source, None if job.counting.date is None else date)


def seen_in_group(job: Job, folder: Path, layout: Layout, members: Numbers, target: Numbers) -> SeenRows:
    """Where and when kept documents of a group, and the documents dropped for them, were seen.

    `members` are its documents, ascending; `target` is the place of each one's witness, or its own place.
    """
    takes_part = target != np.arange(len(members))
    takes_part[target[takes_part]] = True
    some, places = np.flatnonzero(takes_part), (np.cumsum(takes_part) - 1)[target[takes_part]]
    kept = np.flatnonzero(places == np.arange(len(some)))
    found = kept_sightings(places, kept, sightings_at(job, folder, layout, members[some]))
    return SeenRows(members[some[kept]], found.sources, found.source_names, found.first, found.last)
