"""`gpulsh.contamination`: items of a benchmark in documents. Its windows are indexed, and documents stream past them.

A window is N consecutive tokens of an item; a shorter item is one window. A document covers the tokens of each window
that it holds. The coverage of an item is the share of covered tokens among the tokens in windows that count. A document
holds the item if the coverage reaches a threshold.

Windows are compared by fingerprints of 64 bits under the run's secret, so nobody can write a text that collides. Two
given windows collide by chance with a probability of about 2^-57. While the index is made, a window takes about
`WINDOW_BYTES` of memory. Documents take the memory of one batch, for any size of the benchmark.

Rejected: an index of the training set with items as queries takes a hundred times the memory. Similarity of whole
documents does not find a question on a long page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers, TextBatch, Values
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName
from gpulsh.cached import cached_value
from gpulsh.checks import MAX_INT64, check_integer, known_keywords
from gpulsh.errors import ParameterError
from gpulsh.io.memory.texts import texts_named
from gpulsh.io.rows import normalized
from gpulsh.params import Folding, NormalForm, Shingling, Unit, with_form
from gpulsh.ragged import (
    expand_ranges,
    find_sorted,
    first_of_runs,
    hash_order,
    mask_of,
    offsets,
    row_of,
    row_ranges,
    run_places,
    stable_order,
)
from gpulsh.repeats.places import byte_spans
from gpulsh.secret import LONGEST_SHINGLE, EvidenceKeys, chosen_secret, evidence_keys
from gpulsh.text.documents import BATCH_BYTES, Documents
from gpulsh.theory import checked_number

if TYPE_CHECKING:
    import pyarrow as pa

WINDOW_BYTES = 128  # of memory for each window, at most, while the index is made
FLAGS = 16  # of the filter, for each window
MIN_BITS, MAX_BITS = 10, 34  # of a place in the filter
HASHES_AT_ONCE = 1 << 18  # so many stay in a processor's caches
PLACES_AT_ONCE = 1 << 18  # places of items looked up together: more take longer, and much memory


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """How much of an item a document must hold: `coverage` of its tokens, in windows of `tokens` tokens.

    Windows of more than `ignore_common` items do not count; None: all count.
    """

    tokens: int = 13
    coverage: float = 0.8
    ignore_common: int | None = None

    @classmethod
    def from_arguments(cls, name: str, tokens: object, coverage: object, ignore_common: object) -> Overlap:
        """Checks a user's values. `name` is the name of `tokens` in a ParameterError."""
        size = check_integer(name, tokens, 1, LONGEST_SHINGLE)
        share = checked_number("coverage", coverage)
        if not 0 < share <= 1:
            raise ParameterError(f"coverage is {share!r}; give a number above 0 and at most 1")
        most = None if ignore_common is None else check_integer("ignore_common", ignore_common, 1, MAX_INT64)
        return cls(tokens=size, coverage=share, ignore_common=most)

    def to_json(self) -> Mapping[str, Any]:
        """The rule in a report, by the names of `deduplicate_files`."""
        most = {} if self.ignore_common is None else {"ignore_common": self.ignore_common}
        return {"passages": self.tokens, "coverage": self.coverage, **most}


class ItemWindows(NamedTuple):
    """The distinct windows that count, by fingerprint."""

    fingerprint: NDArray[np.uint64]
    tokens: Numbers
    stop: Numbers  # the end of its places in `ItemPlaces`


class ItemPlaces(NamedTuple):
    """The places of all windows, by window, item and token."""

    item: Numbers
    token: Numbers


class ItemTokens(NamedTuple):
    """The number of tokens of each item that are in windows that count."""

    counted: Numbers


class Flags(NamedTuple):
    """Whether a window that counts has a fingerprint with these upper bits: most others end here."""

    flag: NDArray[np.bool_]


class Matches(NamedTuple):
    """Windows of items that documents hold."""

    row: Numbers  # ascending
    token: Numbers  # where the window begins; ascends in each document and window
    window: Numbers  # its number in `ItemWindows`


class FoundItems(NamedTuple):
    """Items that documents hold, by row, then item."""

    row: Numbers
    item: Numbers
    coverage: NDArray[np.float64]
    first: Numbers  # the first token of the item's windows in the document, each where it first occurs
    stop: Numbers  # the token after the last

    @classmethod
    def concat(cls, parts: Iterable[FoundItems]) -> FoundItems:
        """Rows of all parts, end to end."""
        none = np.empty(0, np.int64)
        return cls(*map(np.concatenate, zip((none, none, np.empty(0), none, none), *parts, strict=True)))


class ItemSpans(NamedTuple):
    """Stretches of documents' tokens, by row, apart from one another."""

    row: Numbers
    item: Numbers  # the first to begin there
    first: Numbers
    stop: Numbers


@dataclass(frozen=True, eq=False)
class Benchmark:
    """The index of a benchmark."""

    overlap: Overlap
    windows: ItemWindows
    places: ItemPlaces
    items: ItemTokens
    flags: Flags

    @cached_value
    def sizes(self) -> list[int]:
        """The numbers of tokens that windows have."""
        return [int(size) for size in np.unique(self.windows.tokens)]

    @cached_value
    def _columns_by_backend(self) -> dict[Backend, list[Array]]:
        """The columns that documents are compared with, in the memory of each backend that has compared some."""
        return {}

    @cached_value
    def _windows_by_item(self) -> tuple[Numbers, Numbers]:
        """The items of all places, ascending, and the window of each."""
        windows = np.searchsorted(self.windows.stop, np.arange(len(self.places.item)), side="right")
        order = np.argsort(self.places.item, kind="stable")
        return self.places.item[order], windows[order]

    def matches(self, ops: Backend, text: TextBatch, reading: Shingling, keys: EvidenceKeys) -> list[Matches]:
        """The windows that documents of a batch hold, some documents at a time. `text` is normalized.

        Each part has at most about `PLACES_AT_ONCE` places of items, or one document.
        """
        row, token, window = self._matches(ops, text, reading, keys)
        order = stable_order(row)
        row, token, window = row[order], token[order], window[order]
        bounds = np.append(np.flatnonzero(first_of_runs(row)), len(row))  # of whole documents
        places = offsets(np.diff(self.windows.stop, prepend=0)[window])[bounds]
        parts = (slice(bounds[start], bounds[stop]) for start, stop in row_ranges(places, PLACES_AT_ONCE))
        return [Matches(row[some], token[some], window[some]) for some in parts]

    def find(self, matches: Matches) -> FoundItems:
        """The items that these documents hold."""
        row, token, window = matches
        _, first = np.unique(row * len(self.windows.stop) + window, return_index=True)  # ascending in each document
        return self._measure_coverage(row[first], token[first], window[first])

    def cover(self, matches: Matches) -> tuple[FoundItems, ItemSpans]:
        """The same, and the windows of these items that the documents hold, anywhere."""
        found, (row, token, window) = self.find(matches), matches
        if not len(found.row):
            return found, ItemSpans(*(found.row[:0] for _ in ItemSpans._fields))
        items, windows = self._windows_by_item
        begin, end = (np.searchsorted(items, found.item, side=side) for side in ("left", "right"))
        pair = np.repeat(np.arange(len(found.row)), end - begin)
        of_pair = windows[expand_ranges(begin, end - begin)]
        wanted, at = np.unique(found.row[pair] * len(self.windows.stop) + of_pair, return_index=True)
        rows, places = find_sorted(wanted, row * len(self.windows.stop) + window)
        row, item, first, size = (
            row[rows],
            found.item[pair[at[places]]],
            token[rows],
            self.windows.tokens[window[rows]],
        )
        return found, _merge_stretches(row, item, first, first + size)

    def _matches(
        self, ops: Backend, text: TextBatch, reading: Shingling, keys: EvidenceKeys
    ) -> tuple[Numbers, Numbers, Numbers]:
        """The columns of `Matches`. The windows of one size come after those of another."""
        none = np.empty(0, np.int64)
        row, token, window = [none], [none], [none]
        tokens = ops.tokens(text, reading, keys)
        with ops.use_device():
            if ops not in self._columns_by_backend:
                columns = self.flags.flag, self.windows.fingerprint, self.windows.tokens
                self._columns_by_backend[ops] = list(map(ops.asarray, columns))
            flags, known, sizes = self._columns_by_backend[ops]
            for size in self.sizes:
                rows = ops.shingles(tokens, size, keys)
                near = _find_flagged(rows.values, flags)
                at = np.minimum(np.searchsorted(known, rows.values[near]), len(known) - 1)
                # A document of fewer tokens has one shingle of all, which is no window of this size.
                equal = (known[at] == rows.values[near]) & (sizes[at] == size)
                near = near[equal]
                of = row_of(rows.offset, near)
                for column, part in zip((row, token, window), (of, near - rows.offset[of], at[equal]), strict=True):
                    column.append(ops.asnumpy(part))
        return np.concatenate(row), np.concatenate(token), np.concatenate(window)

    def _measure_coverage(self, row: Numbers, token: Numbers, window: Numbers) -> FoundItems:
        stop = self.windows.stop[window]
        counts = stop - np.where(window > 0, self.windows.stop[window - 1], 0)
        use, match = expand_ranges(stop - counts, counts), np.repeat(np.arange(len(row)), counts)
        order = np.lexsort((self.places.token[use], self.places.item[use], row[match]))
        use, match = use[order], match[order]
        item, size = self.places.item[use], self.windows.tokens[window][match]
        fresh = first_of_runs(row[match]) | first_of_runs(item)
        begins = np.flatnonzero(fresh)
        share = _count_tokens(fresh, self.places.token[use], size) / self.items.counted[item[begins]]
        held = np.flatnonzero(share >= self.overlap.coverage)
        first = np.minimum.reduceat(token[match], begins)[held]
        last = np.maximum.reduceat(token[match] + size, begins)[held]
        return FoundItems(row[match][begins][held], item[begins][held], share[held], first, last)


def _merge_stretches(row: Numbers, item: Numbers, first: Numbers, stop: Numbers) -> ItemSpans:
    """Stretches of tokens; overlapping stretches are one."""
    if not len(row):
        return ItemSpans(row, item, first, stop)
    order = np.lexsort((-stop, first, row))
    row, item, first, stop = row[order], item[order], first[order], stop[order]
    fresh = first_of_runs(row)
    # The furthest end so far in each document: a larger number for each document keeps them apart.
    width = int(stop.max()) + 1
    document = np.cumsum(fresh) * width
    fresh[1:] |= document[1:] + first[1:] >= np.maximum.accumulate(document + stop)[:-1]
    begins = np.flatnonzero(fresh)
    return ItemSpans(row[begins], item[begins], first[begins], np.maximum.reduceat(stop, begins))


def _find_flagged(values: Array, flags: Array) -> Array:
    """int64 [m]: the places of the fingerprints whose upper bits are flagged."""
    shift = np.uint64(64 - (len(flags).bit_length() - 1))
    found = [np.flatnonzero(flags[:0])]
    for start in range(0, len(values), HASHES_AT_ONCE):
        found.append(np.flatnonzero(flags[values[start : start + HASHES_AT_ONCE] >> shift]) + start)
    return np.concatenate(found)


def _count_tokens(fresh: Values, token: Numbers, size: Numbers) -> Numbers:
    """How many tokens the windows of each group have together, by token; `fresh` marks the first of each group."""
    step = size.copy()
    step[:-1] = np.where(fresh[1:], size[:-1], np.minimum(size[:-1], token[1:] - token[:-1]))
    return np.add.reduceat(step, np.flatnonzero(fresh)) if len(step) else step


def index_items(
    ops: Backend,
    batches: Iterable[TextBatch],
    reading: Shingling,
    keys: EvidenceKeys,
    overlap: Overlap,
    memory: int | None = None,
) -> Benchmark:
    """The index of all items; `batches` are normalized. ParameterError if it needs more than `memory` bytes."""
    none = np.empty(0, np.int64)
    hashes, sizes, per_item, held = [none.view(np.uint64)], [none], [none], 0
    for text in batches:
        tokens = ops.tokens(text, reading, keys)
        found = ops.shingles(tokens, overlap.tokens, keys).moved(ops.asnumpy)
        held += len(found.values) - int(found.offset[0])
        counts = found.lengths
        per_item.append(counts)
        if memory is None or held * WINDOW_BYTES <= memory:
            hashes.append(found.values)
            sizes.append(np.repeat(np.minimum(ops.asnumpy(tokens.lengths), overlap.tokens), counts))
    if memory is not None and held * WINDOW_BYTES > memory:
        raise ParameterError(
            f"the protected files have {held:,} windows of {overlap.tokens} tokens, which need {held * WINDOW_BYTES:,}"
            f" bytes of memory, and there are {memory:,}; give more --memory, or a smaller benchmark"
        )
    counts = np.concatenate(per_item)
    item, token = np.repeat(np.arange(len(counts)), counts), run_places(counts)
    return _index_windows(np.concatenate(hashes), np.concatenate(sizes), item, token, len(counts), overlap)


def _index_windows(
    hashes: NDArray[np.uint64], size: Numbers, item: Numbers, token: Numbers, items: int, overlap: Overlap
) -> Benchmark:
    """The index of windows, each with its tokens, item and first token, by item and token."""
    order = hash_order(hashes)
    fresh = first_of_runs(hashes[order])
    if overlap.ignore_common is not None:
        group = np.cumsum(fresh) - 1
        having = np.bincount(group[fresh | first_of_runs(item[order])])
        order = order[having[group] <= overlap.ignore_common]
        fresh = first_of_runs(hashes[order])
    counts = np.zeros(items, np.int64)
    kept = np.sort(order)
    opens = first_of_runs(item[kept])
    counts[item[kept][opens]] = _count_tokens(opens, token[kept], size[kept])
    stop = np.append(np.flatnonzero(fresh)[1:], len(order)) if len(order) else np.empty(0, np.int64)
    distinct = hashes[order][fresh]
    bits = min(max((len(distinct) * FLAGS).bit_length(), MIN_BITS), MAX_BITS)
    flags = mask_of(distinct >> np.uint64(64 - bits), 1 << bits)
    windows = ItemWindows(distinct, size[order][fresh], stop)
    return Benchmark(overlap, windows, ItemPlaces(item[order], token[order]), ItemTokens(counts), Flags(flags))


@known_keywords
def contamination(
    texts: object,
    benchmark: object,
    *,
    tokens: int = 13,
    coverage: float = 0.8,
    ignore_common: int | None = None,
    unit: Unit = "word",
    symbols: bool = False,
    folding: Folding | None = None,
    normalize: NormalForm | None = None,
    backend: BackendName = "auto",
    threads: int | None = None,
    secret: bytes | None = None,
) -> pa.Table:
    """Find the items of a benchmark that texts contain, without estimates.

    A window is `tokens` consecutive tokens of an item; a shorter item is one window. A text covers the tokens of each
    window that it contains. It contains the item if it covers at least `coverage` of the tokens in windows that count.
    Punctuation, case and line ends do not matter: gpulsh compares words.

    texts          any kind that `deduplicate` takes
    benchmark      the items, also of any such kind; their windows stay in memory
    tokens         of a window, 1 to 64. An item of one word is in every text with that word
    coverage       above 0, at most 1
    ignore_common  ignore windows of more than this many items, such as instructions at the beginning of all questions.
                   None: ignore none
    unit           of tokens, "word" or "char"
    symbols        whether each symbol is a token
    folding        applied first; None: Folding(), which folds case
    normalize      "NFC" or "NFKC", short for folding=Folding(form=...)
    backend        "auto" (CUDA if it works, otherwise "cpu"), "cpu", "cuda" or "reference" (NumPy)
    threads        of the CPU backend; None: all processors
    secret         32 bytes that key the fingerprints, for tests; no result depends on them

    Returns a pyarrow.Table with a row for each item in a text, ordered by row, then item:

        row          int64: the text
        item         int64: the item's position in `benchmark`
        coverage     float64: the share of its tokens
        start, stop  int64: bytes of the text as UTF-8, from the first window of the item in it to the last, each at its
                     first occurrence

    Raises ParameterError, InputTypeError, or BackendError if CUDA was requested and does not work.
    Source: overlap of 13 words, Brown et al. 2020, *Language Models are Few-Shot Learners*, appendix C; the share of
    covered tokens, Touvron et al. 2023, *Llama 2*, appendix A.6.

    >>> question = "What is the largest city on the river that runs past the old mill?"
    >>> page = "A quiz\\nWhat is the largest city on the river\\nthat runs past the old mill\\nAnswers: page 9."
    >>> contamination(["Nothing of it.", page], [question], backend="cpu").to_pylist()
    [{'row': 1, 'item': 0, 'coverage': 1.0, 'start': 7, 'stop': 72}]
    """
    import pyarrow as pa

    overlap = Overlap.from_arguments("tokens", tokens, coverage, ignore_common)
    shingling, folding = Shingling(unit=unit, symbols=symbols), with_form(folding, normalize)
    keys = evidence_keys(chosen_secret(secret))
    documents = Documents.open(texts, shingling, folding, backend, threads)
    ops, reading, form = documents.ops, documents.shingling, documents.folding.form
    with texts_named("benchmark"):
        items = Documents.open(benchmark, shingling, folding, backend, threads)
        index = index_items(ops, items.batches(), reading, keys, overlap)

    def held(ops: Backend, text: TextBatch) -> tuple[FoundItems, Numbers, int]:
        matches = index.matches(ops, normalized(text, form), reading, keys)
        found = FoundItems.concat(map(index.find, matches))
        return found, byte_spans(replace(documents, ops=ops), text, found.row, found.first, found.stop), len(text)

    parts, spans, first = [], [np.empty((0, 2), np.int64)], 0
    for found, span, count in ops.pipelined_map(documents.source.batches(BATCH_BYTES), held):
        parts.append(found._replace(row=found.row + first))
        spans.append(span)
        first += count
    whole, (start, stop) = FoundItems.concat(parts), np.concatenate(spans).T
    columns = {"row": whole.row, "item": whole.item, "coverage": whole.coverage, "start": start, "stop": stop}
    return pa.table({name: pa.array(column) for name, column in columns.items()})
