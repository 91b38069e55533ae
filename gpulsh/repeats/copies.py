"""Lines and paragraphs that occur often: a copy beyond a number of them is marked.

A line ends with its line feed, a paragraph with the blank lines after it. Two are equal if they have the same tokens,
by the 128-bit hash under a secret that proves exact copies of documents. One without a token is equal to none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from gpulsh.arrays import Numbers, TextBatch, Values, on_host
from gpulsh.backends.protocol import Backend
from gpulsh.backends.repeats import groups as equal_windows
from gpulsh.errors import ParameterError
from gpulsh.io.rows import normalized
from gpulsh.params import NormalForm, Shingling
from gpulsh.ragged import first_of_runs, own_values, row_of, run_places, sorted_distinct, stable_order, total_size
from gpulsh.repeats.lines import LINE_END
from gpulsh.secret import EvidenceKeys
from gpulsh.text.documents import Documents

Part = Literal["line", "paragraph"]

PIECE_BYTES = 1 << 20  # of a longer document, whose parts are hashed some at a time
WHITE = np.isin(np.arange(256), list(b" \t\n\v\f\r"))


class Parts(NamedTuple):
    """The lines or paragraphs of documents that have a token, in order."""

    hashes: Values  # uint64 [m, 2]
    row: Numbers  # int64 [m]: the document
    start: Numbers  # int64 [m]: bytes of the document
    stop: Numbers  # int64 [m]
    tokens: Numbers  # int64 [m]


class Copies(NamedTuple):
    """Parts that occur more than once: int64 [c] each, ascending."""

    part: Numbers  # its number
    first: Numbers  # the number of the first equal one
    earlier: Numbers  # how many equal ones come before
    occurrences: Numbers


def parts_of(documents: Documents, unit: Part, keys: EvidenceKeys) -> Parts:
    """The parts of all documents."""
    ops = documents.ops
    found = [Parts(np.empty((0, 2), np.uint64), *(np.empty(0, np.int64) for _ in range(4)))]
    first = 0
    for batch in documents.source.batches(ops.sizes().tile):
        parts = parts_of_batch(ops, documents.shingling, documents.folding.form, batch, unit, keys)
        found.append(parts._replace(row=parts.row + first))
        first += len(batch)
    return Parts(*map(np.concatenate, zip(*found, strict=True)))


def parts_of_batch(
    ops: Backend, reading: Shingling, form: NormalForm | None, batch: TextBatch, unit: Part, keys: EvidenceKeys
) -> Parts:
    """The parts of a batch."""
    text = batch.moved(on_host)
    offset, row = part_offsets(text, unit)
    read = normalized(TextBatch(text.values, offset), form)
    hashes, tokens = map(ops.asnumpy, ops.exact_hashes(read, reading, keys))
    has = tokens > 0
    begin = offset[:-1] - text.offset[row]
    stop = offset[1:] - text.offset[row]
    return Parts(*(column[has] for column in (hashes, row, begin, stop, tokens)))


def pieces_of(batch: TextBatch, unit: Part) -> Iterator[tuple[int, TextBatch]]:
    """A batch, or a long document, which is a batch of its own, in pieces of whole parts; and where each begins."""
    size = total_size(batch)
    if len(batch) > 1 or size <= PIECE_BYTES:
        yield 0, batch
        return
    text = batch.moved(on_host)
    values, start, length = own_values(text), 0, PIECE_BYTES
    while start < size:
        here = values[start : start + length]
        if start + length < size:
            last = int(part_offsets(TextBatch(here, np.array([0, length])), unit)[0][-2])  # the last part may go on
            if last == 0:
                length *= 2
                continue
            here = here[:last]
        if len(here) <= PIECE_BYTES:
            here = here.copy()  # so the document can go before its pieces
        yield start, TextBatch(here, np.array([0, len(here)]))
        start, length = start + len(here), PIECE_BYTES


def part_offsets(text: TextBatch, unit: Part) -> tuple[Numbers, Numbers]:
    """int64 [m + 1], int64 [m]: where parts begin in a batch on the host, and the document of each.

    >>> text = TextBatch(np.frombuffer(b"one\\n\\ntwo\\nthree", np.uint8), np.array([0, 14]))
    >>> part_offsets(text, "line")[0], part_offsets(text, "paragraph")[0]
    (array([ 0,  4,  5,  9, 14]), array([ 0,  5, 14]))
    """
    first, last = text.offset[0], text.offset[-1]
    values = text.values[first:last]
    ends = np.flatnonzero(values == LINE_END) + first + 1
    begins = text.offset[:-1][text.lengths > 0]
    starts = sorted_distinct(np.concatenate([begins, ends[ends < last]]))
    row = row_of(text.offset, starts)
    if unit == "paragraph" and len(starts):
        is_blank = np.add.reduceat(~WHITE[values], starts - first, dtype=np.int64) == 0
        chosen = first_of_runs(row)
        chosen[1:] |= is_blank[:-1] & ~is_blank[1:]
        starts, row = starts[chosen], row[chosen]
    return np.append(starts, last), row


def find_copies(parts: Parts, groups: Numbers | None) -> Copies:
    """The parts that occur more than once, or within one of `groups` int64 [n], a number for each document."""
    first = equal_windows(*np.ascontiguousarray(parts.hashes.T))
    part = np.flatnonzero(first != -1)
    equal = np.where(first[part] < 0, part, first[part])
    if groups is not None:  # both numbers are below 2^32, so they fit in one word
        equal = equal * (int(groups.max(initial=0)) + 2) + groups[parts.row[part]] + 1
    order = stable_order(equal)
    begins = np.flatnonzero(first_of_runs(equal[order]))
    sizes = np.diff(np.append(begins, len(order)))
    back = np.argsort(order)
    back = back[np.repeat(sizes, sizes)[back] > 1]
    columns = part[order], np.repeat(part[order[begins]], sizes), run_places(sizes), np.repeat(sizes, sizes)
    return Copies(*(column[back] for column in columns))


def group_numbers(within: object, count: int) -> Numbers | None:
    """int64 [n]: equal numbers for equal values of `within`, nulls and empty ones as one value; None without it."""
    import pyarrow as pa

    from gpulsh.io.arrow.buffers import plain_values
    from gpulsh.io.arrow.validation import checked_column

    if within is None:
        return None
    values = plain_values(checked_column("within", within, count))  # a dictionary may repeat its values
    try:
        encoded = values.dictionary_encode()
    except pa.ArrowNotImplementedError as error:
        raise ParameterError(f"within is a column of {values.type}; give texts, numbers or dates") from error
    empty = [number for number, value in enumerate(encoded.dictionary.to_pylist()) if value in ("", b"")]
    codes: Numbers = np.asarray(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
    return np.where(np.isin(codes, empty), -1, codes)
