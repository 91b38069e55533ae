"""`gpulsh.passages`: text that repeats inside documents in memory, as spans of the original texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, cast, get_args

import numpy as np

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName
from gpulsh.checks import MAX_INT64, check_choice, check_integer, check_type, known_keywords
from gpulsh.errors import refuse_given
from gpulsh.params import Folding, NormalForm, Shingling, Unit, with_form
from gpulsh.ragged import distinct, offsets, row_of, slice_between, sorted_distinct
from gpulsh.repeats.copies import Part, find_copies, group_numbers, parts_of
from gpulsh.repeats.lines import WholeLines
from gpulsh.repeats.lines import whole_lines as widened
from gpulsh.repeats.places import BYTES_FOLDING, BYTES_READING, WIDTH, byte_bounds, read_text, row_batches, spell_bytes
from gpulsh.repeats.windows import (
    Keep,
    Repeats,
    Samples,
    WindowRuns,
    bridge_gaps,
    find_repeats,
    hash_windows,
    mark,
    repeated_samples,
    sample_windows,
    windows_near,
)
from gpulsh.secret import EvidenceKeys, chosen_secret, evidence_keys
from gpulsh.text.documents import Documents, normalized_batches

if TYPE_CHECKING:
    import pyarrow as pa

MAX_TOKENS = 4096  # of a window


@known_keywords
def passages(
    texts: object,
    *,
    tokens: int = 50,
    keep: Keep = "first",
    bridge: int = 0,
    whole_lines: bool = False,
    unit: Unit | Part = "word",
    max_copies: int | None = None,
    within: object = None,
    bytes: int | None = None,
    symbols: bool = False,
    folding: Folding | None = None,
    normalize: NormalForm | None = None,
    backend: BackendName = "auto",
    threads: int | None = None,
    secret: bytes | None = None,
) -> pa.Table:
    """Find text that repeats inside documents, and mark it exactly.

    A window is `tokens` consecutive tokens of one document. It repeats if an equal window comes earlier, in the same
    document or an earlier one. A document with fewer tokens has no window. The marks depend only on the documents and
    their order.

    texts      any kind that `deduplicate` takes
    tokens     of a window, 1 to 4096
    keep       "first": mark the tokens of each window that repeats, except tokens in the first of several equal
               windows. So the first occurrence of every marked window stays whole. "minimal": mark every token of every
               window that repeats. "none": mark every token of every window that occurs more than once
    bridge     also mark gaps of fewer than this many tokens between two marks, 0 to `tokens`
    whole_lines also mark the rest of every line that contains a mark, including the line end. With keep="first", a line
               with a token of a first occurrence stays as it is
    unit       of tokens, "word" or "char". With "line" or "paragraph", a whole line or paragraph is marked if
               `max_copies` equal ones come before it. Equal ones have the same words; a paragraph ends with blank
               lines. `keep`, `bridge` and `whole_lines` then do not apply
    max_copies  number of equal lines or paragraphs that stay, at least 1; None: 6
    within     a column of n values, such as web hosts: only copies in documents with an equal value count. Null and
               empty values are equal
    bytes      instead of `tokens`: a window is this many consecutive bytes of UTF-8, 1 to 4096, without any folding. A
               span then has only whole characters: an end within a character moves inwards. A character that two spans
               share is a span of its own, with first_row null. `tokens` of a span counts its bytes
    symbols    whether each symbol is a token
    folding    applied to texts first; None: Folding(), which folds case
    normalize  "NFC" or "NFKC", short for folding=Folding(form=...)
    backend    "auto" (CUDA if it works, otherwise "cpu"), "cpu", "cuda" or "reference" (NumPy)
    threads    of the CPU backend; None: all processors
    secret     32 bytes that key the evidence, for tests; no result depends on them

    Returns a pyarrow.Table with a row for each span, ordered by row, then start. All columns are int64:

        row          the document
        start, stop  bytes of its original text as UTF-8, at boundaries of characters
        first_row    the document with the first occurrence; null for an addition, which does not repeat
        first_start  the byte at which the first token of that occurrence begins, or the byte after the character in
                     which it begins
        tokens       the marked tokens, as read after `normalize`: one character may be several, even of two spans, and
                     stays if one of them is not marked
        occurrences  how often its windows occur, including the first

    Raises ParameterError, InputTypeError, or BackendError if CUDA was requested and does not work.
    Source: exact substring deduplication, Lee, Ippolito, Nystrom, Zhang, Eck, Callison-Burch, Carlini 2022 ("none");
    winnowing, Schleimer, Wilkerson, Aiken 2003.

    >>> text = "please read the licence"
    >>> passages([f"One: {text}!", f"Two. {text.upper()}?"], tokens=3, backend="cpu").to_pylist()
    [{'row': 1, 'start': 5, 'stop': 28, 'first_row': 0, 'first_start': 5, 'tokens': 4, 'occurrences': 2}]
    """
    tokens = window_size(tokens, bytes, unit, symbols, folding, normalize, whole_lines)
    check_choice("keep", keep, get_args(Keep))
    bridge = check_integer("bridge", bridge, 0, tokens)
    check_type("whole_lines", whole_lines, bool)
    folding, keys = with_form(folding, normalize), evidence_keys(chosen_secret(secret))
    most = checked_max_copies(unit, tokens, keep, bridge, whole_lines, max_copies, within)
    if most is not None:
        documents = Documents.open(texts, Shingling(size=1, symbols=symbols), folding, backend, threads)
        return _mark_copies(documents, cast("Part", unit), most, within, keys)
    reading = Shingling(unit=cast("Unit", unit), symbols=symbols)
    if bytes is not None:
        reading, folding = BYTES_READING, BYTES_FOLDING
    documents = replace(Documents.open(texts, reading, folding, backend, threads), of_bytes=bytes is not None)
    found, base = repeats_in_documents(documents, tokens, keys)
    spans = bridge_gaps(mark(found, tokens, keep), base, bridge)
    kept = found.place[found.place == found.first] if keep == "first" else found.place[:0]
    lines = widened(documents, base, spans, kept, tokens) if whole_lines else WholeLines.from_spans(spans)
    return span_table(documents, base, lines)


def window_size(
    tokens: int,
    of_bytes: int | None,
    unit: object,
    symbols: bool,
    folding: Folding | None,
    normalize: NormalForm | None,
    whole_lines: bool,
) -> int:
    """The size of a window in tokens, or in bytes where that is given; ParameterError for what does not go with it."""
    if of_bytes is None:
        return check_integer("tokens", tokens, 1, MAX_TOKENS)
    given = {"tokens": tokens != 50, "unit": unit != "word", "symbols": symbols, "whole_lines": whole_lines}
    is_form = normalize is not None or getattr(folding, "form", None) is not None  # which --normalize sets
    given |= {"normalize": is_form, "folding": folding is not None}
    refuse_given(given, "--bytes and {} cannot be combined; leave one of them out")
    return check_integer("bytes", of_bytes, 1, MAX_TOKENS)


def checked_max_copies(
    unit: object, tokens: int, keep: str, bridge: int, whole_lines: bool, max_copies: int | None, within: object
) -> int | None:
    """`max_copies` of lines or paragraphs, None for windows of tokens; ParameterError for what does not go with it."""
    check_choice("unit", unit, (*get_args(Unit), *get_args(Part)))
    if unit in get_args(Part):
        given = {"tokens": tokens != 50, "keep": keep != "first", "bridge": bridge != 0, "whole_lines": whole_lines}
        refuse_given(given, f"{{}} and --unit {unit!r} cannot be combined; leave {{}} out")
        return check_integer("max_copies", 6 if max_copies is None else max_copies, 1, MAX_INT64)
    given = {"max_copies": max_copies is not None, "within": within is not None}
    refuse_given(given, "{} is given for words; give --unit 'line' or 'paragraph', or leave it out")
    return None


def _mark_copies(documents: Documents, unit: Part, most: int, within: object, keys: EvidenceKeys) -> pa.Table:
    import pyarrow as pa

    count = len(documents.source)
    groups = group_numbers(within, count)
    parts = parts_of(documents, unit, keys)
    copies = find_copies(parts, groups)
    marked = copies.earlier >= most
    part, first = copies.part[marked], copies.first[marked]
    columns = {
        "row": parts.row[part],
        "start": parts.start[part],
        "stop": parts.stop[part],
        "first_row": parts.row[first],
        "first_start": parts.start[first],
        "tokens": parts.tokens[part],
        "occurrences": copies.occurrences[marked],
    }
    return pa.table(columns)


def repeats_in_documents(documents: Documents, tokens: int, keys: EvidenceKeys) -> tuple[Repeats, Numbers]:
    """The windows that occur more than once; and int64 [n + 1]: the place of each document's first token, and the place
    after all.
    """
    ops, reading = documents.ops, documents.shingling
    batches = _batches(documents, ops.sizes().tile)
    samples = ops.pipelined_map(batches, lambda ops, text: sample_windows(ops, text, reading, tokens))
    met, base = repeated_places(ops, samples)
    runs = windows_near(met, base[:-1], base[1:], tokens)
    ends = offsets(runs.windows)
    proposed, proven = (np.empty(int(ends[-1]), np.uint64) for _ in range(2))
    rows = distinct(row_of(base, runs.begin))

    def hashed(ops: Backend, chosen: tuple[slice, TextBatch]) -> None:
        part, text = chosen
        here = slice_between(runs.begin, base[rows[part][0]], base[rows[part][-1] + 1])
        some = WindowRuns(runs.begin[here], runs.windows[here])
        hashes = hash_windows(
            ops, read_text(text, documents.folding, documents.of_bytes), base[rows[part]], some, reading, tokens, keys
        )
        filled = slice(ends[here.start], ends[here.stop])
        proposed[filled], proven[filled] = map(ops.asnumpy, hashes)

    for _ in ops.pipelined_map(row_batches(documents, rows), hashed):
        pass
    return find_repeats(proposed, proven, runs.places()), base


def _batches(documents: Documents, most: int) -> Iterator[TextBatch]:
    """All documents as the backend reads them, of about `most` bytes per batch."""
    if not documents.of_bytes:
        yield from normalized_batches(documents.source, documents.folding, most)
        return

    def spell(batch: TextBatch) -> TextBatch:
        with documents.ops.use_device():  # not around a yield: another thread may close this generator
            return spell_bytes(batch)

    yield from map(spell, documents.source.batches(most // WIDTH))


def repeated_places(ops: Backend, batches: Iterable[Samples]) -> tuple[Numbers, Numbers]:
    """The places of the samples that occur again, and the places of the documents, of samples of batch after batch."""
    values, places, lengths, start = [np.empty(0, np.uint64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    for samples in batches:
        values.append(ops.asnumpy(samples.values))
        places.append(ops.asnumpy(samples.place) + start)
        lengths.append(ops.asnumpy(samples.lengths))
        start += int(lengths[-1].sum())
    met = repeated_samples(ops, ops.asarray(np.concatenate(values)), ops.asarray(np.concatenate(places)))
    return ops.asnumpy(met), offsets(np.concatenate(lengths))


def span_table(documents: Documents, base: Numbers, lines: WholeLines) -> pa.Table:
    """Spans of places as the table of `passages`."""
    import pyarrow as pa

    from gpulsh.io.arrow.buffers import to_arrow

    spans = lines.spans
    places = sorted_distinct(np.concatenate([spans.start, spans.stop - 1, spans.first[spans.first >= 0]]))
    bounds = byte_bounds(documents, base, places)
    spans, row, start, stop, tokens = lines.locate(base, places, bounds, documents.of_bytes)
    repeat = spans.first >= 0
    first = np.where(repeat, spans.first, places[0] if len(places) else 0)
    columns = {
        "row": row,
        "start": start,
        "stop": stop,
        "first_row": to_arrow(row_of(base, first), ~repeat),
        "first_start": to_arrow(bounds[np.searchsorted(places, first), 0], ~repeat),
        "tokens": tokens,
        "occurrences": spans.occurrences,
    }
    table = pa.table(columns)
    return table if bool((start < stop).all()) else table.filter(pa.array(start < stop))
