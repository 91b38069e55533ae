"""`gpulsh.sample`: pairs of the user's own texts by similarity, and a recommendation for shingles and threshold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch, Values
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.backends.unicode_table import SINGLE, WORD, unicode_table
from gpulsh.checks import check_integer, known_keywords, plural, shown
from gpulsh.errors import ParameterError
from gpulsh.params import PLAIN, Folding, Reading, Shingling, text_reading
from gpulsh.ragged import own_values
from gpulsh.studies.study import (
    SAMPLE,
    THRESHOLDS,
    Options,
    Sample,
    Spread,
    Study,
    draw_sample,
    draw_similar,
    fingerprints,
    spread_of,
)
from gpulsh.theory import checked_threshold

USUAL_THRESHOLD = 0.8  # recommended if all thresholds are equally good
WORTHWHILE = 2  # another threshold is recommended if the usual one has so many times as many documents near it
NEAR = 0.05 + 1e-9  # difference in similarity; a little more, because 0.8 - 0.75 rounds to more than 0.05
KIND_SAMPLE = 1000  # documents that show the kind of text
SHOWN_BYTES = 4096  # of a text

SIZES = (5, 4, 3, 2, 1)  # tokens of a shingle; longer is better
MIN_SIMILARITY = 0.8  # similarity that a changed token in the middle of a document may leave at least
CODE_SHARE = 0.12  # share of signs among all characters, from which on a text counts as code
CHARACTERS = 4  # in a shingle, for documents with too few words


@dataclass(frozen=True)
class Kind:
    """The kind of text of some `documents`, which all have a token: long or short, code, scripts without spaces."""

    documents: int
    tokens: int  # median
    brief: float  # share of documents with fewer than five tokens
    single: float  # share of the characters in words that are of scripts written without spaces
    signs: float  # share of all characters that are of the categories P and S

    @classmethod
    def of(cls, texts: TextBatch, ops: Backend) -> Kind:
        """The kind of `texts`, which are in host memory."""
        values = own_values(texts)
        codes = np.frombuffer(values.tobytes().decode("utf-8", "replace").encode("utf-32-le"), np.uint32)
        plain, with_signs = (
            np.bincount(unicode_table(reading).entries(codes) & 3, minlength=SINGLE + 1)
            for reading in (PLAIN, Reading(symbols=True))
        )
        letters, single = int(plain[WORD]), int(plain[SINGLE])
        signs = int(with_signs[SINGLE]) - single
        is_code = signs >= CODE_SHARE * max(letters + single + signs, 1)
        with ops.use_device():
            read = ops.shingle(texts.moved(ops.asarray), Shingling(size=1, symbols=is_code))
            tokens: Numbers = np.diff(ops.asnumpy(read.offset))
        tokens = tokens[tokens > 0]
        return cls(
            documents=len(tokens),
            tokens=int(np.median(tokens)) if len(tokens) else 0,
            brief=float((tokens < SIZES[0]).mean()) if len(tokens) else 0.0,
            single=single / max(letters + single, 1),
            signs=signs / max(letters + single + signs, 1),
        )

    @property
    def is_code(self) -> bool:
        """Whether signs are frequent enough to distinguish documents: code, mathematics, markup."""
        return self.signs >= CODE_SHARE

    @property
    def shingling(self) -> Shingling:
        """The longest shingles that leave a median document similar after one changed word; else characters."""
        for size in SIZES:
            if not self.documents or similarity_after_change(self.tokens, size) >= MIN_SIMILARITY:
                return Shingling(size=size, symbols=self.is_code)
        return Shingling(unit="char", size=CHARACTERS, symbols=True)

    @property
    def why(self) -> str:
        """The reason for its `shingling`, in words."""
        if not self.documents:
            return "no document has a word"
        tokens = "words and symbols" if self.is_code else "characters" if self.single > 0.5 else "words"
        if self.shingling.unit == "char":
            return f"with only {self.tokens} {tokens}, one changed word would change too much"
        left = similarity_after_change(self.tokens, self.shingling.size)
        return f"documents of {self.tokens} {tokens} have a similarity of {left:.2f} after a change of one"


def similarity_after_change(tokens: int, size: int) -> float:
    """Jaccard similarity of two documents of so many distinct tokens that differ in one, far from both ends.

    >>> similarity_after_change(49, 5)
    0.8
    """
    return max(tokens - 2 * size + 1, 0) / (tokens + 1)


@dataclass(frozen=True)
class Pair:
    """Two documents: their positions in the corpus, the beginnings of their texts, and their exact similarity."""

    positions: tuple[int, int]
    texts: tuple[str, str] = field(repr=False)
    similarity: float


@dataclass(frozen=True)
class ThresholdOnText:
    """A threshold, and the documents on both sides of it."""

    threshold: float
    pairs: int  # of the sample, at or above it
    resembling: float  # documents of the corpus with another at or above it, estimated; large clusters count too much
    near: float  # documents of the corpus whose most similar one is within 0.05 of it, estimated
    examples: tuple[Pair, ...]  # the nearest pairs on either side, most similar first; no document twice


@dataclass(frozen=True, repr=False, eq=False)
class Resemblance(Study):
    """A sample, and the similarity of its documents around some thresholds."""

    kind: Kind
    shingling: Shingling
    folding: Folding
    spread: Spread
    thresholds: tuple[ThresholdOnText, ...]
    best: int  # the place of the recommended threshold in `thresholds`

    def __str__(self) -> str:
        of = f"{self.drawn} by {self.shingling}"
        return f"{of}, recommended threshold {self.recommended:g}"

    def table(self) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
        """A row for each threshold: pairs of the sample, and documents of the corpus."""
        head = ("threshold", "pairs", "similar documents, about", f"nearest within {NEAR:g}", "")
        rows = []
        for row in self.thresholds:
            mark = "recommended" if row.threshold == self.recommended else ""
            rows.append((f"{row.threshold:g}", f"{row.pairs:,}", f"{row.resembling:,.0f}", f"{row.near:,.0f}", mark))
        return head, rows

    @property
    def recommended(self) -> float:
        """The threshold to use."""
        return self.thresholds[self.best].threshold

    @property
    def why(self) -> str:
        """The reason for the recommended threshold, in words."""
        chosen, usual = self.thresholds[self.best], min(self.thresholds, key=_unusual)
        count = round(chosen.near)
        have = "has its" if count == 1 else "have their"
        near = f"{plural(count, 'document')} {have} nearest match within {NEAR:g} of it"
        if chosen == usual:
            return near if not count else f"{near}; no other threshold has fewer than half as many"
        return f"{near}, and {usual.near:,.0f} within {NEAR:g} of {usual.threshold:g}"

    def facts(self) -> dict[str, Any]:
        """The study as JSON values."""
        return {
            "documents": self.documents,
            "sample": self.sample,
            "kind": asdict(self.kind),
            "shingle": str(self.shingling),
            "normalize": self.folding.form,
            "thresholds": [asdict(row) for row in self.thresholds],
            "recommended": self.recommended,
            "why": self.why,
        }


@known_keywords
def sample(
    texts: object,
    *,
    sample: int = SAMPLE,
    thresholds: Sequence[float] = THRESHOLDS,
    examples: int = 2,
    shingling: Shingling | str | None = None,
    folding: Folding | None = None,
    seed: int = 1,
    backend: BackendName = "auto",
    threads: int | None = None,
) -> Resemblance:
    """Compare all pairs of a sample of `texts` exactly, and show pairs around each of `thresholds`.

    `texts` is any kind that `deduplicate` takes. `sample` of them, from 2 to 65,536, are drawn so that similar ones
    come together. Each threshold gets `examples` pairs at or above it and as many below it, with their texts.

    Without `shingling`, `kind` decides: the longest run of at most five words that leaves documents of median length
    similar after one changed word. In code, symbols are tokens; documents with too few words are compared by
    characters. The recommended threshold has the fewest documents near it, because there the exact number matters
    least. Among thresholds with at most twice as many it is the one nearest to 0.8 or, in a tie, the lower one.

    Returns a Resemblance. Raises ParameterError and InputTypeError.

    >>> texts = [
    ...     f"page {i // 2 + 100}, and all that is written on page {i // 2 + 100}, in print {i}"
    ...     for i in range(100)
    ... ]
    >>> found = sample(texts, thresholds=[0.5, 0.8], backend="cpu")
    >>> found.kind.tokens, found.shingling
    (13, Shingling(unit='word', size=1))
    >>> [row.pairs for row in found.thresholds]
    [4950, 50]
    """
    if not isinstance(thresholds, Sequence) or not thresholds:
        raise ParameterError(f"thresholds is {shown(thresholds)}; give a list of one or more numbers")
    limits = sorted({checked_threshold(threshold) for threshold in thresholds})
    examples = check_integer("examples", examples, 0, SAMPLE)
    kind = Kind.of(draw_sample(texts, KIND_SAMPLE, seed).texts, select_backend(backend, threads=threads))
    shingling, folding = text_reading(kind.shingling if shingling is None else shingling, folding)
    how: Options = {"shingling": shingling, "folding": folding, "backend": backend, "threads": threads}
    drawn = draw_similar(texts, sample, seed, lambda batch: fingerprints(batch, how))
    most = np.zeros(len(drawn.texts))  # similarity with the most similar other document
    around = [_Around(limit, examples, len(drawn.texts)) for limit in limits]

    def look(i: Numbers, j: Numbers, similarity: NDArray[np.float64]) -> None:
        some = similarity >= limits[0] - NEAR
        i, j, similarity = i[some], j[some], similarity[some]
        np.maximum.at(most, i, similarity)
        np.maximum.at(most, j, similarity)
        for one in around:
            one.add(i, j, similarity)

    spread = spread_of(fingerprints(drawn.texts, how), look)
    # A document that is drawn together with its most similar one represents so many of the corpus.
    weight = 1 / (drawn.share * (most + (1 - most) * drawn.share))

    def estimated(chosen: NDArray[np.bool_]) -> float:
        return min(float(weight[chosen].sum()), float(drawn.documents))

    rows = tuple(
        ThresholdOnText(
            threshold=one.threshold,
            pairs=one.pairs,
            resembling=estimated(most >= one.threshold),
            near=estimated(abs(most - one.threshold) <= NEAR),
            examples=tuple(one.examples(drawn)),
        )
        for one in around
    )
    few = WORTHWHILE * min(row.near for row in rows)
    best = min(rows, key=lambda row: (row.near > few, _unusual(row)))
    return Resemblance(drawn.documents, len(drawn.texts), kind, shingling, folding, spread, rows, rows.index(best))


def _unusual(row: ThresholdOnText) -> float:
    return round(abs(row.threshold - USUAL_THRESHOLD), 9)


class _Nearest:
    """The `room` pairs nearest to a threshold on one side of it, nearest first, then in the order they were added."""

    def __init__(self, room: int) -> None:
        self.room, self.reach = room, np.inf
        self.i = self.j = np.empty(0, np.int64)
        self.similarity = self.distance = np.empty(0)

    def add(self, chosen: NDArray[np.bool_], *columns: Values) -> None:
        """Add `i`, `j`, `similarity` and `distance` of the `chosen` pairs."""
        some = np.flatnonzero(chosen & (columns[-1] < self.reach))
        own = self.i, self.j, self.similarity, self.distance
        columns = tuple(np.append(known, column[some]) for known, column in zip(own, columns, strict=True))
        order = np.argsort(columns[-1], kind="stable")[: self.room]
        self.i, self.j, self.similarity, self.distance = (column[order] for column in columns)
        if len(order) == self.room:
            self.reach = self.distance.max(initial=0)


class _Around:
    """The number of pairs at or above a threshold, and `count` examples on either side of it."""

    def __init__(self, threshold: float, count: int, documents: int) -> None:
        self.threshold, self.pairs, self.count = threshold, 0, count
        # Fewer than 2 * count pairs are chosen before the last one. Each of their documents rules out fewer than
        # `documents` pairs.
        self.sides = [_Nearest(4 * count * documents) for _ in range(2)]

    def add(self, i: Numbers, j: Numbers, similarity: NDArray[np.float64]) -> None:
        above, distance = similarity >= self.threshold, abs(similarity - self.threshold)
        self.pairs += int(above.sum())
        for side, chosen in zip(self.sides, (above, ~above), strict=True):
            side.add(chosen, i, j, similarity, distance)

    def examples(self, drawn: Sample) -> Iterator[Pair]:
        """The nearest pairs on either side, without a document twice; most similar first."""
        seen: set[int] = set()
        chosen: list[tuple[float, int, int]] = []
        for side in self.sides:
            full = len(chosen) + self.count
            for i, j, similarity in zip(side.i.tolist(), side.j.tolist(), side.similarity.tolist(), strict=True):
                if len(chosen) == full:
                    break
                if seen.isdisjoint((i, j)):
                    seen.update((i, j))
                    chosen.append((similarity, i, j))
        for similarity, i, j in sorted(chosen, key=lambda one: -one[0]):
            begins, ends = (drawn.texts.offset[[i, j]].tolist(), drawn.texts.offset[[i + 1, j + 1]].tolist())
            one, other = (
                bytes(drawn.texts.values[begin : min(end, begin + SHOWN_BYTES)]).decode("utf-8", "replace")
                for begin, end in zip(begins, ends, strict=True)
            )
            yield Pair((int(drawn.positions[i]), int(drawn.positions[j])), (one, other), similarity)
