"""`gpulsh.cut`: texts without marked spans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch, on_host
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName
from gpulsh.checks import MAX_INT64, check_integer, known_keywords, shown_type
from gpulsh.errors import ParameterError
from gpulsh.io.rows import normalized
from gpulsh.params import Folding, NormalForm, Shingling, Unit, with_form
from gpulsh.ragged import concat_rows, distinct, merge_ranges, offsets, select_rows, slice_between
from gpulsh.text.documents import BATCH_BYTES, Documents

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("row", "start", "stop")

_NO_TEXT = TextBatch(np.empty(0, np.uint8), np.zeros(1, np.int64))


@dataclass(frozen=True, eq=False, repr=False)
class Cut:
    """The texts of n documents after `cut`.

    texts   pyarrow large_string [n]: without the spans; null for a null
    keep    bool [n]: whether to keep a document; False if a cut left too few tokens
    tokens  int64 [n]: tokens left in documents that were cut; -1 in the others

    `cut` makes it, and raises ParameterError and InputTypeError.

    >>> import pyarrow as pa
    >>> span = pa.table({"row": [1], "start": [3], "stop": [7]})
    >>> left = cut(["one", "two three"], span, min_left=1, min_occurrences=1, backend="cpu")
    >>> left.texts.to_pylist(), left.keep
    (['one', 'twoee'], array([ True,  True]))
    """

    texts: pa.Array
    keep: NDArray[np.bool_]
    tokens: Numbers

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        dropped = len(self) - int(self.keep.sum())
        return f"Cut(documents={len(self)}, cut={int((self.tokens >= 0).sum())}, dropped={dropped})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cut):
            return NotImplemented
        same = np.array_equal(self.keep, other.keep) and np.array_equal(self.tokens, other.tokens)
        return same and bool(self.texts.equals(other.texts))

    def __len__(self) -> int:
        return len(self.keep)


@known_keywords
def cut(
    texts: object,
    spans: object,
    *,
    min_left: int = 20,
    min_occurrences: int = 2,
    unit: Unit = "word",
    symbols: bool = False,
    folding: Folding | None = None,
    normalize: NormalForm | None = None,
    backend: BackendName = "auto",
    threads: int | None = None,
) -> Cut:
    """Remove marked spans from texts.

    A cut joins the bytes before a span to the bytes after it. This may create new repeats, which `passages` of the
    result finds. In a text that is not UTF-8, bytes from both sides of a span may form a character together.

    texts            the texts that the spans were found in
    spans            the result of `passages`, or any pyarrow, polars or pandas table with its row, start and stop
    min_left         documents that lose text and have fewer tokens left are not kept; by default, tokens are words
    min_occurrences  spans that occur less often stay; a value above 1 needs the column occurrences
    unit, symbols, folding, normalize, backend, threads  as `passages`; they count the tokens left

    Returns a Cut. Raises ParameterError if a span is outside of its text, and InputTypeError if a row is not a text.

    >>> from gpulsh import passages
    >>> texts = ["One: please read this!", "Two. Please read this? No."]
    >>> cut(texts, passages(texts, tokens=3), min_left=1, backend="cpu").texts.to_pylist()
    ['One: please read this!', 'Two. ? No.']
    """
    from gpulsh.io.arrow.texts import strings_of

    min_left, min_occurrences = checked_limits(min_left, min_occurrences)
    reading = Shingling(unit=unit, symbols=symbols)
    documents = Documents.open(texts, reading, with_form(folding, normalize), backend, threads)
    count, ops = len(documents.source), documents.ops
    row, start, stop = _columns(spans, count, min_occurrences)
    parts, tokens, first = [_NO_TEXT], np.full(count, -1, np.int64), 0
    for batch in documents.source.batches(BATCH_BYTES):
        here = slice_between(row, first, first + len(batch))
        if here.start == here.stop:
            parts.append(batch.moved(on_host))
        else:
            parts.append(remove_spans(ops, batch, row[here] - first, start[here], stop[here]))
            changed = distinct(row[here][start[here] < stop[here]])
            read = normalized(select_rows(parts[-1], changed - first), documents.folding.form)
            tokens[changed] = ops.asnumpy(ops.tokens(read, documents.shingling).lengths)
        first += len(batch)
    keep = (tokens < 0) | (tokens >= min_left)
    return Cut(strings_of(concat_rows(parts), documents.source.null_rows()), keep, tokens)


def checked_limits(min_left: int, min_occurrences: int) -> tuple[int, int]:
    """`min_left` and `min_occurrences` of a cut; ParameterError for other values than integers from 0 and from 1."""
    min_left = check_integer("min_left", min_left, 0, MAX_INT64)
    return min_left, check_integer("min_occurrences", min_occurrences, 1, MAX_INT64)


def remove_spans(ops: Backend, text: TextBatch, row: Numbers, start: Numbers, stop: Numbers) -> TextBatch:
    """A batch on the host without the spans [start, stop), in bytes of documents `row`, ascending, which must exist."""
    offset = ops.asnumpy(text.offset)
    begin, end = offset[row] + start, offset[row] + stop
    wrong = np.flatnonzero((start < 0) | (stop < start) | (end > offset[row + 1]))
    if len(wrong):
        span = f"{start[wrong[0]]} to {stop[wrong[0]]} of a text of {offset[row + 1][wrong[0]] - offset[row][wrong[0]]}"
        raise ParameterError(f"spans have bytes {span}; give the spans of these texts")
    row, begin, end = merge_ranges(row, begin, np.maximum.accumulate(end))
    first, last = np.sort(np.concatenate([offset[:-1], end])), np.sort(np.concatenate([begin, offset[1:]]))
    pieces = ops.gather(ops.asarray(text.values), ops.asarray(first), ops.asarray(last)).moved(ops.asnumpy)
    return TextBatch(pieces.values, pieces.offset[offsets(1 + np.bincount(row, minlength=len(text)))])


def _columns(spans: object, count: int, min_occurrences: int) -> tuple[Numbers, Numbers, Numbers]:
    """Row, start and stop of the spans that occur often enough, by row and then start."""
    import pyarrow as pa

    try:
        table = spans if isinstance(spans, pa.Table) else pa.table(spans)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise ParameterError(f"spans is {shown_type(spans)}; give the table of gpulsh.passages") from error
    for name in (*COLUMNS, *(["occurrences"] if min_occurrences > 1 else [])):
        if name not in table.column_names or table[name].type != pa.int64() or table[name].null_count:
            raise ParameterError(
                f"spans has no column {name} of int64 without nulls; give the spans of gpulsh.passages"
            )
    if min_occurrences > 1:
        table = table.filter(pa.array(table["occurrences"].to_numpy() >= min_occurrences))
    row, start, stop = (table[name].to_numpy() for name in COLUMNS)
    order = np.lexsort((start, row))
    row = row[order]
    if len(row) and not 0 <= row[0] <= row[-1] < count:
        raise ParameterError(f"spans name rows {row[0]} to {row[-1]} of {count} texts; give the spans of these texts")
    return row, start[order], stop[order]
