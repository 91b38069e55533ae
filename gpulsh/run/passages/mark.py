"""Mark text that repeats, and convert the marks to bytes.

mark         a partition: its marked stretches -> STRETCHES, FIRSTS, KEPT
locate       a partition, also of earlier runs: the bytes of stretches and first occurrences -> BYTES, FIRST_PLACES
hold         a partition, with `--protect` instead of both: text that items of a test set cover -> PASSAGES, and the ids
             of its documents that hold some and of items. The stages `protect`, `screen` and `contamination` are the
             same as in a run that drops the documents
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch, on_host
from gpulsh.backends.repeats import FAR
from gpulsh.io.files.file_texts import Partition
from gpulsh.io.rows import normalized
from gpulsh.ragged import bundles, find_sorted, row_of, sorted_distinct, stable_order
from gpulsh.repeats.lines import WholeLines, ascending_reader, lines_of_batch, lines_of_parts, widen_to_lines
from gpulsh.repeats.places import NormalPieces, batch_byte_bounds, read_text_bounds
from gpulsh.repeats.windows import Marker, Repeats, TokenSpans, is_long, text_parts
from gpulsh.run.job import Layout, TaskResult
from gpulsh.run.passages import tables
from gpulsh.run.passages.documents import (
    PlacedRows,
    TokenPlaces,
    WantedDocuments,
    place_ranges,
    read_documents,
    unchanged_files,
)
from gpulsh.run.passages.evidence import Entry, frequent_candidates, most_frequent, with_reread_texts, with_texts
from gpulsh.run.passages.job import PassagesContext, PassagesJob
from gpulsh.run.records.tables import HELD, HELD_SPANS
from gpulsh.run.stages.write import write_ids
from gpulsh.text.documents import TextReading

RUN_FIRSTS = 1 << 20  # held before they are written: `locate` looks into each run of all partitions
RUN_LOCATED = 1 << 16  # likewise: `collect` looks into each run for each of its own
LOOKAHEAD = 4096  # tokens: the bytes of a character, or the characters of a stretch that is normalized together
CLASSES = (2, 3, 4, 5, 9, 17, 33, 65, 129, 257, 1025, 16385)  # occurrences: the least of each class
CLASS_COUNTS = ("distinct", "before", "after")  # the counts of each class


def mark_partition(context: PassagesContext, places: Layout, partition: int, parts: int) -> TaskResult:
    """Mark the tokens of a partition."""
    job, folder = context.job, context.folder
    token_places = TokenPlaces(context, places, partition)
    here = token_places.start, token_places.stop
    found = PlacedRows(tables.FOUND, folder, range(parts), *here)
    followers = PlacedRows(tables.FOLLOWERS, folder, [partition], *here)
    counts = Counter[str]()
    often = np.zeros((len(CLASS_COUNTS), len(CLASSES)), np.int64)
    there = np.zeros(job.earlier_partitions, np.bool_)  # whether it has first occurrences

    def all_firsts() -> Iterator[Numbers]:
        nonlocal often
        marker = Marker(job.tokens, job.keep, job.bridge)
        for low, high in [*place_ranges(*here), (here[1], FAR)]:
            _, base = token_places.between(low, high)
            spans, windows, apart = marker.add(_repeated_windows(found, followers, low, high), base, high)
            if len(spans.start):
                out.append(spans)
            first = sorted_distinct(spans.first[spans.first >= 0])
            of = row_of(places.partitions, first)
            there[of[of < len(there)]] = True
            is_first = windows.place == windows.first
            if job.keep == "first" and job.whole_lines:
                kept.append(tables.PlaceRows(windows.place[is_first]))
            often += class_counts(windows.occurrences, is_first, apart)
            counts.update(windows=len(windows.place), stretches=len(spans.start))
            yield first

    with (
        tables.STRETCHES.create(folder, partition) as out,
        tables.FIRSTS.create(folder, partition) as firsts,
        tables.KEPT.create(folder, partition) as kept,
    ):
        for some in bundles(all_firsts(), RUN_FIRSTS, len):
            firsts.append(tables.PlaceRows(sorted_distinct(np.concatenate(some))))
        made = out.finish_by_name() | firsts.finish_by_name() | kept.finish_by_name()
    classes = dict(zip(CLASS_COUNTS, often.tolist(), strict=True))
    return TaskResult(made, {**counts, **classes, "earlier": np.flatnonzero(there).tolist()})


def class_counts(occurrences: Numbers, is_first: NDArray[np.bool_], stays: NDArray[np.bool_]) -> Numbers:
    """int64 [CLASS_COUNTS, CLASSES]: of those that occur so often, the first ones, the others, the others that stay."""
    kinds = np.searchsorted(np.array(CLASSES), occurrences, side="right") - 1
    rows = (is_first, ~is_first, ~is_first & stays)
    return np.array([np.bincount(kinds[chosen], minlength=len(CLASSES)) for chosen in rows])


def _repeated_windows(
    found: PlacedRows[Repeats], followers: PlacedRows[tables.Followers], start: int, stop: int
) -> Repeats:
    """All windows of a range of places that occur more than once."""
    windows, others = found.between(start, stop), followers.between(start, stop)
    wanted, at = np.unique(others.first, return_inverse=True)
    first, occurrences = np.empty_like(wanted), np.empty_like(wanted)
    firsts = (int(wanted[0]), int(wanted[-1]) + 1) if len(wanted) else (0, 0)
    for known in found.runs(*firsts):  # the first of a run of windows, which is of the same partition
        there, rows = find_sorted(known.place, wanted)
        first[there], occurrences[there] = known.first[rows], known.occurrences[rows]
    both = tables.FOUND.joined([windows, Repeats(others.place, first[at], occurrences[at])])
    return tables.FOUND.rows(both, stable_order(both.place))


def locate_bytes(context: PassagesContext, layout: Layout, places: Layout, partition: Partition) -> TaskResult:
    """Find the bytes of a partition's stretches, and of first occurrences in it."""
    job, folder, number = context.job, context.folder, partition.number
    token_places, new = TokenPlaces(context, places, number), range(job.earlier_partitions, len(places.partitions) - 1)
    marked = [number] if number in new else []
    here = token_places.start, token_places.stop
    own, kept = PlacedRows(tables.STRETCHES, folder, marked, *here), PlacedRows(tables.KEPT, folder, marked, *here)
    firsts = PlacedRows(tables.FIRSTS, folder, new, *here)
    reading = TextReading(ops=context.ops, shingling=job.windows, folding=job.folding, of_bytes=job.of_bytes)

    def wanted_places(start: int, stop: int) -> Numbers:
        spans, first = own.between(start, stop), firsts.between(start, stop).place
        return sorted_distinct(np.concatenate([spans.start, spans.stop - 1, first]))

    def windows(start: int, stop: int) -> Numbers:
        return kept.between(start, stop).place

    counts = Counter[str]()
    frequent: list[Entry] = []

    def bytes_and_firsts() -> Iterator[tuple[tables.ByteStretches, tables.FirstPlaces]]:
        nonlocal frequent
        position = layout.partitions[number]
        for some in read_documents(context, layout, partition, token_places, wanted_places):
            document = -1
            is_one_long = len(some.text) == 1 and is_long(int(some.stop[0] - some.start[0]) - 1, job.tokens)
            given = job, reading, some, own, windows
            for part in _parts_of_document(*given) if is_one_long else [_whole_documents(*given)]:
                first = sorted_distinct(firsts.between(part.start, part.stop).place)
                passages, starts = _bytes_and_firsts(reading, some, part, first)
                passages = passages._replace(document=passages.document + position)
                counts.update(amounts_marked(passages, document))
                document = int(passages.document[-1]) if len(passages.document) else document
                found = with_texts(frequent_candidates(passages), partial(_document_text, some, int(position)))
                frequent = most_frequent([*frequent, *found])
                yield passages, starts._replace(document=starts.document + position)

    with tables.BYTES.create(folder, number) as out, tables.FIRST_PLACES.create(folder, number) as firsts_out:
        with unchanged_files(context, partition), context.ops.use_device():
            for run in bundles(bytes_and_firsts(), RUN_LOCATED, lambda both: sum(len(rows[0]) for rows in both)):
                out.append(tables.BYTES.joined(passages for passages, _ in run))
                firsts_out.append(tables.FIRST_PLACES.joined(starts for _, starts in run))
        return TaskResult(out.finish_by_name() | firsts_out.finish_by_name(), {**counts, "frequent": frequent})


class _Part(NamedTuple):
    """A range of places of some documents, with the stretches that begin there."""

    start: int
    stop: int
    lines: WholeLines  # and those behind it that may share a character with the last one
    until: int  # the place where the first of these begins
    bounds: Callable[[Numbers], Numbers]  # the bytes of the tokens at ascending places, as `batch_byte_bounds`


def _whole_documents(
    job: PassagesJob,
    reading: TextReading,
    some: WantedDocuments,
    own: PlacedRows[TokenSpans],
    windows: Callable[[int, int], Numbers],
) -> _Part:
    """All places of some documents."""
    start, stop = int(some.start[0]), int(some.stop[-1])

    def bounds(places: Numbers) -> Numbers:
        number = some.number(places)
        return batch_byte_bounds(reading, some.text, number, places - some.start[number])

    spans = own.between(start, stop)
    lines = WholeLines.from_spans(spans)
    if job.whole_lines and len(spans.start):
        kept = windows(start, stop)
        lines = lines_of_batch(reading, some.start, some.stop, some.text, spans, kept, job.tokens)
    return _Part(start, stop, lines, FAR, bounds)


def _parts_of_document(
    job: PassagesJob,
    reading: TextReading,
    some: WantedDocuments,
    own: PlacedRows[TokenSpans],
    windows: Callable[[int, int], Numbers],
) -> Iterator[_Part]:
    """All places of one long document, in parts: memory holds the stretches of one part."""
    start, stop, text = int(some.start[0]), int(some.stop[0]), some.text
    count = stop - start - 1
    form = None if reading.of_bytes else reading.folding.form
    read, of_form = normalized(text, form), None
    if form is not None and read is not text:
        one, other = (batch.values[batch.offset[0] : batch.offset[1]] for batch in (text.moved(on_host), read))
        of_form = NormalPieces.from_document(one, other, form)
    ranges = place_ranges(start, stop)

    def parts_of(first: Numbers, last: Numbers) -> Iterator[Callable[[Numbers], Numbers]]:
        """The bounds in parts of the text, with the tokens at places from `first` to before `last`."""
        parts: Iterable[tuple[TextBatch, int, int]] = ((text, token, 0) for token in (first - start).tolist())
        if not reading.of_bytes:
            stops = np.minimum(last - start, count)
            parts = text_parts(reading.ops, read, reading.shingling, first - start, stops, count)
        for (part, before, origin), place in zip(parts, first.tolist(), strict=True):
            yield partial(_bounds_in_part, reading, part, before - place, origin, of_form)

    lows, highs = np.array(ranges).T
    has_lines = job.whole_lines and any(len(own.between(low, high).start) for low, high in ranges)
    whole = list(parts_of(lows, highs)) if has_lines else []

    def all_lines() -> Callable[[int, int], WholeLines]:
        """The stretches that begin in a range of places, which ascend from call to call."""
        if not has_lines:
            return lambda low, high: WholeLines.from_spans(own.between(low, high))
        tokens = (np.arange(low, min(high, start + count)) for low, high in ranges)  # the last place is no token
        begins = ((low, bounds(all_)[:, 0]) for (low, _), all_, bounds in zip(ranges, tokens, whole, strict=True))
        host = text.moved(on_host)
        lines = lines_of_parts(host.values[host.offset[0] : host.offset[1]], begins)
        return ascending_reader(widen_to_lines(lines, own.between, windows, job.tokens, place_ranges))

    between = all_lines()
    ends = [max([high, *between(low, high).spans.stop[-1:].tolist()]) + LOOKAHEAD for low, high in ranges]
    between = all_lines()
    for (low, high), end, bounds in zip(ranges, ends, parts_of(lows, np.array(ends)), strict=True):
        lines, more = between(low, high), between(high, end)
        until = int(more.spans.start[0]) if len(more.start) else FAR
        clipped = more.spans._replace(stop=np.minimum(more.spans.stop, end))  # the part of the text ends there
        yield _Part(low, high, WholeLines.concat([lines, more._replace(spans=clipped)]), until, bounds)


def _bounds_in_part(
    reading: TextReading, part: TextBatch, before: int, origin: int, pieces: NormalPieces | None, places: Numbers
) -> Numbers:
    bounds = read_text_bounds(reading, part, np.zeros_like(places), places + before) + origin
    return bounds if pieces is None else pieces.original(bounds)


def amounts_marked(passages: tables.ByteStretches, before: int = -1) -> dict[str, int]:
    """How much was marked, for the report. A document in several parts counts once: `before` is the last one before."""
    size = passages.stop - passages.start
    documents = int(np.count_nonzero(sorted_distinct(passages.document) != before))
    amounts = {"tokens": int(passages.tokens.sum()), "bytes_marked": int(size.sum())}
    return {"passages": len(size), **amounts, "documents_marked": documents}


def _bytes_and_firsts(
    reading: TextReading, some: WantedDocuments, part: _Part, first: Numbers
) -> tuple[tables.ByteStretches, tables.FirstPlaces]:
    """Stretches of some documents, and places of first occurrences in them, with rows of the partition."""
    lines = part.lines
    places = sorted_distinct(np.concatenate([lines.spans.start, lines.spans.stop - 1, first]))
    bounds = part.bounds(places)
    spans, number, start, stop, tokens = lines.locate(some.start, places, bounds, reading.of_bytes)
    columns = some.rows[number], start, stop, spans.first, tokens, spans.occurrences
    here = (start < stop) & (spans.start < part.until)
    passages = tables.BYTES.rows(tables.ByteStretches(*columns), here)
    begin = bounds[np.searchsorted(places, first), 0]
    return passages, tables.FirstPlaces(first, some.rows[some.number(first)], begin)


def _document_text(some: WantedDocuments, position: int, document: int) -> NDArray[np.uint8]:
    """The text of a document; `position` is the position of the partition."""
    text: NDArray[np.uint8] = some.text.values
    start, stop = some.text.offset[int(np.searchsorted(some.rows, document - position)) :][:2].tolist()
    return text[start:stop]


def mark_items(context: PassagesContext, layout: Layout, partition: Partition) -> TaskResult:
    """Mark the stretches of a partition's documents that items cover."""
    number = partition.number
    spans = HELD_SPANS.read(context.folder, number)
    document = spans.row + layout.partitions[number]
    occurrences = 1 + _holder_counts(context, len(layout.partitions) - 1, spans.item)
    columns = document, spans.start, spans.stop, spans.item, np.zeros_like(spans.item), spans.tokens, occurrences
    made = tables.PASSAGES.write(context.folder, number, tables.Passages(*columns))
    ids = write_ids(context, layout, number, sorted_distinct(document))
    passages = tables.ByteStretches(document, spans.start, spans.stop, spans.item, spans.tokens, occurrences)
    frequent = with_reread_texts(frequent_candidates(passages), context, layout, partition)
    return TaskResult(made | ids, {"ids": len(ids), **amounts_marked(passages), "frequent": frequent})


def _holder_counts(context: PassagesContext, partitions: int, items: Numbers) -> Numbers:
    """How many documents of all partitions hold each of `items`."""
    wanted = sorted_distinct(items)
    counts = np.zeros(len(wanted), np.int64)
    for partition in range(partitions) if len(wanted) else ():
        for run in HELD.open(context.folder, partition).runs():
            _, at = find_sorted(wanted, run.item)
            counts += np.bincount(at, minlength=len(counts))
    return counts[np.searchsorted(wanted, items)]
