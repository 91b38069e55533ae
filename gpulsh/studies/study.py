"""The common part of `gpulsh.sample`, `gpulsh.study` and `gpulsh.compare`: a sample of a corpus, and a table about it.

A sample is drawn in one pass over the corpus, in the memory of twice the sample. Every document gets a random number;
the documents with the least numbers are the sample. The numbers come from positions, or from the texts, so that similar
documents are drawn together.

`brute_force` gives the exact answer: how many shingles any two documents share, without a sketch or a filter. Each
shingle has a list of its documents. Most lists are short, and all pairs in them are counted one by one. Shingles in a
large part of all documents are counted as a product of matrices. A block of documents is counted against all later ones
at a time, so memory depends on the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Arrays, Fingerprints, Numbers, TextBatch, html_table
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import check_integer, plural
from gpulsh.errors import ParameterError
from gpulsh.io.columns import Columns, text_named
from gpulsh.io.files.file_texts import FileTexts
from gpulsh.io.files.read_options import ReadOptions
from gpulsh.io.memory.texts import open_texts
from gpulsh.io.rows import TextSource, gather_texts
from gpulsh.params import MAX_SEED, Folding, Shingling
from gpulsh.permutations import words_at
from gpulsh.ragged import concat_texts, expand_ranges, offsets, own_values, row_ranges, slice_between
from gpulsh.run.index.jobs import open_inputs
from gpulsh.text.documents import BATCH_BYTES, shingle
from gpulsh.theory import SCurve

FINE_STEPS = 1000  # steps of similarity in which pairs are counted
FREQUENT = 16  # a shingle is frequent if one of so many documents has it
CELLS = 1 << 22  # counts of a block, and steps along lists
COLUMNS = 512  # frequent shingles in a product


@dataclass(frozen=True, eq=False, repr=False)
class Spread(Arrays):
    """The similarities of all pairs of n documents: `pairs` is their number.

    For the pairs that share a shingle, `counts` int64 [FINE_STEPS] and `sums` float64 [FINE_STEPS] have the number and
    the sum of the similarities in each step of similarity.
    """

    pairs: int
    counts: Numbers = field(repr=False)
    sums: NDArray[np.float64] = field(repr=False)

    def expected(self, curve: SCurve, below: float = np.inf) -> float:
        """The expected number of candidate pairs of a banding, of similarity less than `below`."""
        some = self.counts > 0
        means = np.minimum(self.sums[some] / self.counts[some], 1.0)
        # The mean of equal similarities may be a little less than they are.
        return float((self.counts[some] * curve.probability(means))[means < below - 1e-9].sum())

    def histogram(self, bins: int) -> Numbers:
        """int64 [bins]: the pairs that share a shingle, in equal steps of similarity; `bins` divides FINE_STEPS."""
        if FINE_STEPS % check_integer("bins", bins, 1, FINE_STEPS):
            raise ParameterError(f"bins is {bins}; give a divisor of {FINE_STEPS}")
        counts: Numbers = self.counts.reshape(bins, -1).sum(axis=1)
        return counts


def brute_force(sets: Fingerprints, threshold: float) -> tuple[Spread, Numbers]:
    """The spread of all pairs of `sets`, and the pairs with a Jaccard similarity of at least `threshold`.

    Rows of `sets` ascend without repeats, on the host. The pairs are int64 [m, 2], i < j, lexicographic.
    """
    pairs = [np.empty((0, 2), np.int64)]

    def keep(i: Numbers, j: Numbers, similarity: NDArray[np.float64]) -> None:
        enough = similarity >= threshold
        pairs.append(np.stack([i[enough], j[enough]], axis=1))

    return spread_of(sets, keep), np.concatenate(pairs)


def spread_of(sets: Fingerprints, look: Callable[[Numbers, Numbers, NDArray[np.float64]], None]) -> Spread:
    """The spread of all pairs of `sets`, given as to `brute_force`.

    `look` gets the pairs i < j that share a shingle, in lexicographic order, and their similarities, block by block.
    """
    count, sizes = len(sets), sets.lengths
    counts, sums = np.zeros(FINE_STEPS, np.int64), np.zeros(FINE_STEPS)
    for i, j, both in shared_counts(sets):
        similarity = both / (sizes[i] + sizes[j] - both)
        step = np.minimum((similarity * FINE_STEPS).astype(np.int64), FINE_STEPS - 1)
        counts += np.bincount(step, minlength=FINE_STEPS)
        sums += np.bincount(step, similarity, FINE_STEPS)
        look(i, j, similarity)
    return Spread(count * (count - 1) // 2, counts, sums)


def shared_counts(sets: Fingerprints) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
    """Every pair of rows i < j that share a value, and how many they share: int64 [m] each, a block of rows at a time.

    Rows hold distinct values. Pairs are lexicographic.
    """
    count = len(sets)
    owner = np.repeat(np.arange(count), sets.lengths)
    _, slot, met = np.unique(own_values(sets), return_inverse=True, return_counts=True)
    often = met * FREQUENT > max(count, FREQUENT)
    frequent = np.zeros((int(often.sum()), count), bool)  # whether a document has a frequent value
    known = often[slot]
    frequent[(np.cumsum(often) - 1)[slot[known]], owner[known]] = True

    # The lists of rare values, end to end: for each document of a list, the later ones in it are
    # documents[begin : begin + later].
    rare = (met[slot] > 1) & ~known
    owner, slot = owner[rare], slot[rare]
    order = np.argsort(slot, kind="stable")
    documents = owner[order]
    begin = np.empty(len(order), np.int64)
    begin[order] = np.arange(1, len(order) + 1)
    later = np.cumsum(np.where(often | (met < 2), 0, met))[slot] - begin
    work = offsets(np.bincount(owner, later, count).astype(np.int64))

    for start, stop in row_ranges(work, CELLS, max(CELLS // max(count, 1), 1)):
        some = slice_between(owner, start, stop)
        others = documents[expand_ranges(begin[some], later[some])]
        steps = np.repeat((owner[some] - start) * count, later[some]) + others
        shared = np.bincount(steps, minlength=(stop - start) * count).reshape(-1, count)
        for first in range(0, len(frequent), COLUMNS):
            part = frequent[first : first + COLUMNS].astype(np.float32)
            product = part[:, start:stop].T @ part  # below 2^24, exact
            shared += np.triu(product, start + 1).astype(np.int64)
        cells = np.flatnonzero(shared)
        i, j = np.divmod(cells, count)
        yield i + start, j, shared.ravel()[cells]


LARGEST_SAMPLE = 1 << 16  # documents in a sample; all pairs of them are counted
SAMPLE = 10_000
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)  # shown by default
NOT_DRAWN = np.uint64(2**64 - 1)  # the random number of a document that is never drawn


class Backends(TypedDict):
    """The backend that does the work."""

    backend: BackendName
    threads: int | None


class Options(Backends):
    """The backend, and how texts are read."""

    shingling: Shingling
    folding: Folding


@dataclass(frozen=True, repr=False, eq=False)
class Study:
    """A study of `sample` of the `documents` of a corpus. `str` gives one sentence without a full stop."""

    documents: int
    sample: int

    @property
    def drawn(self) -> str:
        """How many documents were compared, such as "100 of 2,000 documents"."""
        return f"{self.sample:,} of {plural(self.documents, 'document')}"

    def table(self) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
        """The names of the columns, and the rows."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """The study as JSON values."""
        return asdict(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def _repr_html_(self) -> str:
        return html_table(str(self), *self.table())


def open_corpus(
    inputs: Sequence[str],
    *,
    text_column: str | Sequence[str] = "text",
    backend: BackendName = "auto",
    threads: int | None = None,
    **read_options: Any,
) -> FileTexts:
    """The documents of files, folders, globs and URLs, not read yet; `read_options` says how the files are read."""
    ops = select_backend(backend, threads=threads)
    return open_inputs(inputs, Columns(text=text_named(text_column)), ReadOptions(**read_options), ops)


def fingerprints(texts: TextBatch, options: Options) -> Fingerprints:
    """The fingerprints of the texts on the host, each row ascending without repeats."""
    ops = select_backend(options["backend"], threads=options["threads"])
    with ops.use_device():
        return ops.unique(shingle(texts, **options)).moved(ops.asnumpy)


@dataclass(frozen=True, eq=False)
class Sample:
    """Documents of a corpus: `texts` [n], and their `positions` int64 [n], ascending, among all `documents`."""

    texts: TextBatch
    positions: Numbers
    documents: int
    share: float  # probability of a document to be drawn

    def pairs_in_sample(self, pairs: Numbers) -> Numbers:
        """The `pairs` [m, 2] of positions in the corpus that are in the sample, int64 [k, 2], as places in it."""
        place = np.full(self.documents, -1, np.int64)
        place[self.positions] = np.arange(len(self.positions))
        found = place[pairs]
        return found[(found >= 0).all(axis=1)]


def draw_sample(texts: object, size: int, seed: int) -> Sample:
    """Draw `size` documents of any kind that `deduplicate` takes, or of `open_corpus`, the same each time; or all."""
    seed = check_integer("seed", seed, 0, MAX_SEED)
    return _draw(texts, size, lambda batch, positions: words_at("sample", seed, positions.astype(np.uint64)))


def draw_similar(texts: object, size: int, seed: int, read: Callable[[TextBatch], Fingerprints]) -> Sample:
    """As `draw_sample`, without documents that have no shingle; the more similar two are, the likelier both are drawn.

    The least of a document's fingerprints, in a random order, draws it. `read` gives them on the host. Two documents
    have the same least fingerprint with the probability of their Jaccard similarity s (`gpulsh.theory`). So the sample
    has a part `share` * (s + (1 - s) * `share`) of the pairs of that similarity, not `share` ** 2 as for documents
    drawn one by one. A page with very many copies is drawn with all of them, and may then fill the sample.
    """
    seed = check_integer("seed", seed, 0, MAX_SEED)

    def random_numbers(batch: TextBatch, positions: Numbers) -> NDArray[np.uint64]:
        rows = read(batch)
        found = np.full(len(rows), NOT_DRAWN)
        some = np.flatnonzero(rows.lengths)
        least = np.minimum.reduceat(words_at("sample", seed, rows.values), rows.offset[some])
        found[some] = words_at("sample", seed, least)  # otherwise the longest would come first
        return found

    return _draw(texts, size, random_numbers)


def _draw(texts: object, size: int, numbers_of: Callable[[TextBatch, Numbers], NDArray[np.uint64]]) -> Sample:
    size = check_integer("sample", size, 2, LARGEST_SAMPLE)
    if not isinstance(texts, FileTexts):
        return _draw_few(open_texts(texts), size, numbers_of)
    texts.check()
    with texts.unchanged():
        return _draw_few(texts, size, numbers_of)


def _draw_few(source: TextSource, size: int, numbers_of: Callable[[TextBatch, Numbers], NDArray[np.uint64]]) -> Sample:
    """The documents with the `size` least random numbers, in input order."""
    texts = TextBatch(np.empty(0, np.uint8), np.zeros(1, np.int64))
    positions, lots, bar, documents = np.empty(0, np.int64), np.empty(0, np.uint64), NOT_DRAWN, 0
    held = [texts]

    def keep_least() -> None:
        nonlocal texts, positions, lots, bar, held
        texts = concat_texts(held)
        if len(lots) > size:
            kept = np.sort(np.argpartition(lots, size - 1)[:size])
            texts = gather_texts(texts.values, texts.offset[kept], texts.offset[kept + 1])
            positions, lots = positions[kept], lots[kept]
            bar = lots.max()
        held = [texts]

    for batch in source.batches(BATCH_BYTES):
        numbers = np.arange(documents, documents + len(batch))
        documents += len(batch)
        found = numbers_of(batch, numbers)
        drawn = np.flatnonzero((found <= bar) & (found < NOT_DRAWN))
        held.append(gather_texts(batch.values, batch.offset[drawn], batch.offset[drawn + 1]))
        positions, lots = np.append(positions, numbers[drawn]), np.append(lots, found[drawn])
        if len(lots) > 2 * size:
            keep_least()
    keep_least()
    return Sample(texts, positions, documents, (int(bar) + 1) / 2**64)
