"""`gpulsh.sample`: pairs of the user's own texts by their similarity, and what to compare them by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers, TextBatch
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.display import html_table
from gpulsh.errors import ParameterError
from gpulsh.params import Folding, Shingling, check_integer, shown, text_reading
from gpulsh.studies.brute_force import Spread, brute_force
from gpulsh.studies.corpus import DEFAULT, Sample, draw_sample, draw_similar
from gpulsh.studies.kind import Kind
from gpulsh.text.documents import shingle
from gpulsh.theory import checked_threshold

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
USUAL = 0.8  # what is recommended where thresholds are as good as one another
WORTHWHILE = 2  # times as many documents near a threshold, for which another one is recommended
NEAR = 0.05  # similarity within which a document lies near a threshold
KIND_SAMPLE = 1000  # documents that tell what all are like
SHOWN_BYTES = 4096  # of a text


@dataclass(frozen=True)
class Pair:
    """Two documents by their positions in the corpus, the beginnings of their texts, and their exact similarity."""

    positions: tuple[int, int]
    texts: tuple[str, str] = field(repr=False)
    similarity: float


@dataclass(frozen=True)
class ThresholdOnText:
    """What a threshold parts."""

    threshold: float
    pairs: int  # of the sample, at or above it
    resembling: float  # documents of the whole corpus that are that similar to another one, estimated
    near: float  # and those whose greatest similarity with another one lies within 0.05 of it
    examples: tuple[Pair, ...]  # those nearest to it, the most similar first; no document twice


@dataclass(frozen=True, eq=False)
class Resemblance:
    """A sample of `sample` of `documents` documents, and who in it resembles whom."""

    documents: int
    sample: int
    kind: Kind
    shingling: Shingling
    folding: Folding
    spread: Spread
    thresholds: tuple[ThresholdOnText, ...]
    best: int  # the place of the recommended one among them

    def __repr__(self) -> str:
        of = f"{self.sample:,} of {self.documents:,} documents by {self.shingling}"
        return f"Resemblance({of}, recommended threshold {self.recommended:g})"

    def _repr_html_(self) -> str:
        head = "threshold", "pairs", "documents with another one, about", f"just so, within {NEAR:g}", ""
        rows = (
            (
                *(f"{row.threshold:g}", f"{row.pairs:,}", f"{row.resembling:,.0f}", f"{row.near:,.0f}"),
                "recommended" if place == self.best else None,
            )
            for place, row in enumerate(self.thresholds)
        )
        return html_table(repr(self), head, rows)

    @property
    def recommended(self) -> float:
        """The threshold to take."""
        return self.thresholds[self.best].threshold

    @property
    def why(self) -> str:
        """The reason for the recommended threshold, in words."""
        chosen, usual = self.thresholds[self.best], min(self.thresholds, key=_unusual)
        near = f"{chosen.near:,.0f} documents have their most similar one within {NEAR:g} of it"
        if chosen == usual:
            return f"{near}, and no threshold has less than half as many"
        return f"{near}, and {usual.near:,.0f} within {NEAR:g} of {usual.threshold:g}: fewer depend on the exact number"

    def facts(self) -> dict[str, Any]:
        """As JSON values."""
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


def sample(
    texts: object,
    *,
    sample: int = DEFAULT,
    thresholds: Sequence[float] = THRESHOLDS,
    examples: int = 2,
    shingling: Shingling | str | None = None,
    folding: Folding | None = None,
    seed: int = 1,
    backend: BackendName = "auto",
    threads: int | None = None,
) -> Resemblance:
    """Compare all pairs of a sample of `texts` exactly, and show those around each of `thresholds`.

    `texts` is any kind that `deduplicate` takes, or files, as `gpulsh.studies.corpus.open_corpus` gives them; `sample`
    of them, from 2 to 65,536, are drawn so that similar ones come together. Of the pairs of a threshold `examples` at
    or above it and as many below it are given with their texts.

    Where `shingling` is None it is chosen by what the texts are like, which `kind` tells: the longest run of at most
    five words that leaves documents of the middle length similar where one word in them is another; single signs count
    in code; characters are compared where documents have too few words. Recommended is the threshold that has the
    fewest documents near it, for there it matters the least what is chosen; of those with at most twice as many the
    one nearest to 0.8, of two the lower.

    Returns a Resemblance. Raises ParameterError and InputTypeError.

    >>> texts = [
    ...     f"page {i // 2 + 100}, and all that stands on page {i // 2 + 100}, in print {i}"
    ...     for i in range(100)
    ... ]
    >>> found = sample(texts, thresholds=[0.5, 0.8], backend="cpu")
    >>> found.kind.tokens, found.shingling
    (12, Shingling(unit='word', size=1))
    >>> [row.pairs for row in found.thresholds]
    [4950, 50]
    """
    if not isinstance(thresholds, Sequence) or not thresholds:
        raise ParameterError(f"thresholds is {shown(thresholds)}; give a list of numbers, not empty")
    limits = sorted({checked_threshold(threshold) for threshold in thresholds})
    examples = check_integer("examples", examples, 0, DEFAULT)
    ops = select_backend(backend, threads=threads)
    kind = Kind.of(draw_sample(texts, KIND_SAMPLE, seed).texts, ops)
    shingling, folding = text_reading(kind.shingling if shingling is None else shingling, folding)

    def fingerprints(batch: TextBatch) -> Fingerprints:
        read = shingle(batch, shingling=shingling, folding=folding, backend=backend, threads=threads)
        with ops.here():
            return ops.unique(read).moved(ops.asnumpy)

    drawn = draw_similar(texts, sample, seed, fingerprints)
    sets = fingerprints(drawn.texts)
    spread, pairs, similarity = brute_force(sets, max(limits[0] - NEAR, 0.0))
    most = np.zeros(len(drawn.texts))  # similarity of a document with the one most like it
    for side in pairs.T:  # by itself: NumPy's `at` reads beyond values that it has to broadcast
        np.maximum.at(most, side, similarity)
    # So many of the whole corpus stand for a document that was drawn together with the one most like it.
    weight = 1 / (drawn.share * (most + (1 - most) * drawn.share))

    def on_text(threshold: float) -> ThresholdOnText:
        return ThresholdOnText(
            threshold=threshold,
            pairs=int((similarity >= threshold).sum()),
            resembling=float(weight[most >= threshold].sum()),
            near=float(weight[abs(most - threshold) <= NEAR].sum()),
            examples=tuple(_examples(drawn, pairs, similarity, threshold, examples)),
        )

    rows = tuple(map(on_text, limits))
    few = WORTHWHILE * min(row.near for row in rows)
    best = min(rows, key=lambda row: (row.near > few, _unusual(row)))
    return Resemblance(drawn.documents, len(drawn.texts), kind, shingling, folding, spread, rows, rows.index(best))


def _unusual(row: ThresholdOnText) -> float:
    return round(abs(row.threshold - USUAL), 9)


def _examples(
    drawn: Sample, pairs: Numbers, similarity: NDArray[np.float64], threshold: float, count: int
) -> Iterator[Pair]:
    """The `count` pairs nearest to the threshold on either side of it, in which no document stands twice."""
    seen: set[int] = set()
    chosen: list[int] = []
    for side in (similarity >= threshold, similarity < threshold):
        places = np.flatnonzero(side)
        some = 0
        for place in places[np.argsort(abs(similarity[places] - threshold), kind="stable")].tolist():
            if some == count:
                break
            two = pairs[place].tolist()
            if seen.isdisjoint(two):
                seen.update(two)
                chosen.append(place)
                some += 1
    for place in sorted(chosen, key=lambda place: -similarity[place]):
        i, j = pairs[place].tolist()
        yield Pair(
            (int(drawn.positions[i]), int(drawn.positions[j])),
            (_beginning(drawn.texts, i), _beginning(drawn.texts, j)),
            float(similarity[place]),
        )


def _beginning(texts: TextBatch, row: int) -> str:
    start, stop = texts.offset[row : row + 2].tolist()
    return bytes(texts.values[start : min(stop, start + SHOWN_BYTES)]).decode("utf-8", "replace")
