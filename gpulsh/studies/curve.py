"""`gpulsh.study`: what bandings find, and find in vain, among documents of the user's own."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, Values, on_host
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.display import html_table
from gpulsh.errors import ParameterError
from gpulsh.lsh.banding import Banding
from gpulsh.lsh.collisions import candidate_pairs
from gpulsh.params import MAX_NUM_PERM, Folding, Shingling, check_integer, text_reading
from gpulsh.sketch.minhash import MinHash
from gpulsh.studies.brute_force import Spread, brute_force
from gpulsh.studies.corpus import DEFAULT, draw_sample
from gpulsh.text.documents import shingle
from gpulsh.theory import SCurve, checked_requirement, checked_threshold, choose_banding, default_banding

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)  # whose default bandings are tried
BINS = 20  # of similarity, in JSON


@dataclass(frozen=True)
class BandingOnText:
    """What a banding of MinHash signatures does to a sample."""

    bands: int
    rows: int
    probability: float  # of finding a pair at the threshold
    expected: float  # candidate pairs of the sample, by the S-curve
    in_vain: float  # of these the pairs below the threshold
    candidates: int  # and those found
    recall: float | None  # the share found of the pairs at or above the threshold; None where there is none
    expected_of_all: float  # candidate pairs of the whole corpus, were it like the sample

    @property
    def curve(self) -> SCurve:
        """Its S-curve."""
        return SCurve(bands=self.bands, rows=self.rows)


@dataclass(frozen=True, repr=False)
class Study:
    """A sample of `sample` of `documents` documents, all pairs of which were compared; bandings, and one of them."""

    documents: int
    sample: int
    threshold: float
    similar: int  # pairs of the sample at or above the threshold
    spread: Spread
    bandings: tuple[BandingOnText, ...]
    best: int  # the place of the recommended one among them

    def __repr__(self) -> str:
        of = f"{self.sample:,} of {self.documents:,} documents, {self.similar:,} pairs of {self.threshold:g} or more"
        return f"Study({of}, {len(self.bandings)} bandings, recommended {self.recommended.curve})"

    def _repr_html_(self) -> str:
        head = "bands", "rows", f"P({self.threshold:g})", "recall", "candidates", "in vain", ""
        rows = (
            (
                *(row.bands, row.rows, f"{row.probability:.4f}", None if row.recall is None else f"{row.recall:.4f}"),
                *(f"{row.candidates:,}", f"{row.in_vain:,.0f}", "recommended" if row == self.recommended else None),
            )
            for row in self.bandings
        )
        return html_table(repr(self), head, rows)

    @property
    def recommended(self) -> BandingOnText:
        """The banding to take."""
        return self.bandings[self.best]

    def histogram(self, bins: int = BINS) -> Numbers:
        """int64 [bins]: the pairs of the sample that share a shingle, by exact Jaccard similarity from 0 to 1.

        `bins` divides 1000.
        """
        return self.spread.histogram(bins)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Write the histogram with the recommended S-curve laid over it, PNG or SVG by the ending of `path`."""
        from gpulsh.studies.picture import plot

        plot(self, path)

    def facts(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "documents": self.documents,
            "sample": self.sample,
            "pairs": self.spread.pairs,
            "threshold": self.threshold,
            "similar": self.similar,
            "histogram": [
                {"from": step / BINS, "to": (step + 1) / BINS, "pairs": count}
                for step, count in enumerate(self.histogram().tolist())
            ],
            "bandings": [asdict(banding) for banding in self.bandings],
            "recommended": asdict(self.recommended),
        }


def study(
    texts: object,
    *,
    sample: int = DEFAULT,
    threshold: float = 0.8,
    recall: float = 0.995,
    capture: tuple[float, float] | None = None,
    reject: tuple[float, float] | None = None,
    num_perm: int = 128,
    bands: int | None = None,
    rows: int | None = None,
    shingling: Shingling | str | None = None,
    folding: Folding | None = None,
    seed: int = 1,
    backend: BackendName = "auto",
    threads: int | None = None,
) -> Study:
    """Compare all pairs of a sample of `texts` exactly, and say what several bandings would find among them.

    `texts` is any kind that `deduplicate` takes, or files, as `gpulsh.studies.corpus.open_corpus` gives them; `sample`
    of them, from 2 to 65,536, are drawn by `seed`. Recommended is the banding of at most `num_perm` values with the
    fewest candidates below `threshold` expected on this text among those that find a pair at `threshold` with
    probability `recall` or more; where `capture` is given, among those that meet it; and `reject`, where it is given,
    both as `choose_banding` takes them. Studied beside it are the default bandings for thresholds from 0.5 to 0.9, and
    the one of `bands` and `rows`, where one of both is given. Found candidates are those of signatures by `MinHash`.

    A sample has few of a corpus's duplicates: of n documents out of N it has (n / N)^2 of the pairs. What it tells is
    how similar unrelated documents are, hence how many candidates are in vain.

    Returns a Study. Raises ParameterError, also where no banding meets the requirements, and InputTypeError.

    >>> texts = [f"page {i % 50} of a book has these words and {i}" for i in range(100)]
    >>> found = study(texts, threshold=0.5, backend="cpu")
    >>> found.sample, found.spread.pairs, found.recommended.curve
    (100, 4950, SCurve(bands=40, rows=3))
    """
    shingling, folding = text_reading(shingling, folding)
    threshold = checked_threshold(threshold)
    name, stated = ("capture", capture) if capture is not None else ("threshold and recall", (threshold, recall))
    capture = checked_requirement(name, stated)
    # With a similarity to reject this checks it, and says what comes closest where nothing meets both.
    captured = [choose_banding(num_perm, capture, reject)] if reject is not None else []
    captured += [curve for curve in _capturing(num_perm, *capture) if reject is None or _rejects(curve, *reject)]
    shown = _bandings(num_perm, threshold, bands, rows)
    ops = select_backend(backend, threads=threads)
    drawn = draw_sample(texts, sample, seed)
    with ops.here():
        read = shingle(drawn.texts, shingling=shingling, folding=folding, backend=backend, threads=threads)
        sets = ops.unique(read).moved(ops.asnumpy)
    spread, pairs, _ = brute_force(sets, threshold)

    chosen = min(captured, key=lambda curve: (spread.expected(curve, threshold), -curve.rows))
    curves = sorted({*shown, chosen}, key=lambda curve: (curve.rows, curve.bands))
    minhash = MinHash(num_perm=max(curve.bands * curve.rows for curve in curves), seed=seed)
    signatures = minhash(read, backend=backend, threads=threads)

    def on_text(curve: SCurve) -> BandingOnText:
        digests = Banding(bands=curve.bands, rows=curve.rows)(signatures, backend=backend, threads=threads)
        candidates = candidate_pairs(digests, backend=backend, threads=threads)
        expected = spread.expected(curve)
        return BandingOnText(
            bands=curve.bands,
            rows=curve.rows,
            probability=float(curve.probability(threshold)),
            expected=expected,
            in_vain=spread.expected(curve, threshold),
            candidates=len(candidates),
            recall=_met(on_host(digests.values), pairs),
            expected_of_all=expected * drawn.documents * (drawn.documents - 1) / max(2 * spread.pairs, 1),
        )

    return Study(
        documents=drawn.documents,
        sample=len(drawn.texts),
        threshold=threshold,
        similar=len(pairs),
        spread=spread,
        bandings=tuple(map(on_text, curves)),
        best=curves.index(chosen),
    )


def _capturing(num_perm: int, similarity: float, probability: float) -> Iterator[SCurve]:
    """For each number of rows the fewest bands that find pairs of `similarity` with `probability` or more."""
    num_perm = check_integer("num_perm", num_perm, 1, MAX_NUM_PERM)
    default_banding(num_perm, similarity, probability)  # says which num_perm would do where none does
    for rows in range(1, num_perm + 1):
        power = similarity**rows
        needed = math.log1p(-probability) / math.log1p(-power) if 0 < power < 1 else power and 1.0
        for bands in (math.ceil(needed), math.ceil(needed) + 1):  # whichever way it was rounded
            if 1 <= bands <= num_perm // rows:
                curve = SCurve(bands=bands, rows=rows)
                if curve.probability(similarity) >= probability:
                    yield curve
                    break


def _rejects(curve: SCurve, similarity: float, probability: float) -> bool:
    return bool(curve.probability(similarity) <= probability)


def _bandings(num_perm: int, threshold: float, bands: int | None, rows: int | None) -> set[SCurve]:
    """Those to study whatever the text is like."""
    given = bands is not None or rows is not None
    found = {default_banding(num_perm, threshold, bands=bands, rows=rows)} if given else set()
    for at in THRESHOLDS:
        try:
            found.add(default_banding(num_perm, at))
        except ParameterError:  # not with so few values
            continue
    return {SCurve(bands=bands, rows=rows) for bands, rows in found}


def _met(digests: Values, pairs: Numbers) -> float | None:
    """The share of pairs that agree in some band."""
    met: NDArray[np.bool_] = (digests[pairs[:, 0]] == digests[pairs[:, 1]]).any(axis=1)
    return float(met.mean()) if len(pairs) else None
