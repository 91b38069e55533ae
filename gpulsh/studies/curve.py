"""`gpulsh.study`: the candidate pairs that several bandings find in the user's documents, their cost and picture."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gpulsh.arrays import Numbers, on_host
from gpulsh.backends.select import BackendName
from gpulsh.checks import banding_name, check_integer, is_path, known_keywords, plural, shown_type
from gpulsh.errors import ParameterError, install_command
from gpulsh.lsh.banding import Banding
from gpulsh.lsh.collisions import candidate_pairs
from gpulsh.params import MAX_NUM_PERM, Folding, Shingling, text_reading
from gpulsh.run.output.paths import DRAWN, PICTURES, refuse_present
from gpulsh.sketch.minhash import MinHash
from gpulsh.store.durable import writing
from gpulsh.studies.study import (
    SAMPLE,
    THRESHOLDS,
    Backends,
    Options,
    Spread,
    Study,
    brute_force,
    draw_sample,
    fingerprints,
)
from gpulsh.theory import SCurve, checked_requirement, checked_threshold, choose_banding, default_banding, fewest_bands

BINS, FINE_BINS = 20, 50  # steps of similarity, in JSON and in pictures


@dataclass(frozen=True)
class BandingOnText:
    """A banding of MinHash signatures on a sample."""

    bands: int
    rows: int
    probability: float  # of finding a pair at the threshold
    expected: float  # candidate pairs of the sample, by the S-curve
    wasted: float  # expected candidate pairs below the threshold
    candidates: int  # candidate pairs found
    recall: float | None  # the share found of the pairs at or above the threshold; None if there are none
    expected_of_all: float  # candidate pairs of the whole corpus, if it is like the sample

    @property
    def curve(self) -> SCurve:
        """The S-curve of the banding."""
        return SCurve(bands=self.bands, rows=self.rows)


@dataclass(frozen=True, repr=False, eq=False)
class BandingStudy(Study):
    """A sample with all its pairs compared; some bandings, and the best of them."""

    threshold: float
    similar: int  # pairs of the sample at or above the threshold
    spread: Spread
    bandings: tuple[BandingOnText, ...]
    best: int  # the place of the recommended banding in `bandings`

    def __str__(self) -> str:
        pairs = f"{plural(self.similar, 'pair')} of {self.threshold:g} or more"
        of = f"{self.drawn}, {pairs}"
        return f"{of}, {len(self.bandings)} bandings, recommended {self.recommended.curve}"

    def table(self) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
        """A row for each banding."""
        head = ("bands", "rows", f"P({self.threshold:g})", "recall", "found", "expected", "wasted", "corpus", "")
        rows = []
        for row in self.bandings:
            recall = "" if row.recall is None else f"{row.recall:.4f}"
            counts = map(_short_number, (row.candidates, row.expected, row.wasted, row.expected_of_all))
            mark = "recommended" if row == self.recommended else ""
            rows.append((str(row.bands), str(row.rows), f"{row.probability:.4f}", recall, *counts, mark))
        return head, rows

    @property
    def recommended(self) -> BandingOnText:
        """The banding to use."""
        return self.bandings[self.best]

    def histogram(self, bins: int = BINS) -> Numbers:
        """int64 [bins]: the pairs of the sample that share a shingle, by exact Jaccard similarity from 0 to 1.

        `bins` divides 1000.
        """
        return self.spread.histogram(bins)

    def plot(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the histogram with the S-curves of the bandings over it, PNG or SVG by the ending of `path`.

        With `overwrite`, an earlier picture of gpulsh is replaced.
        """
        curves = [self.recommended.curve, *(row.curve for row in self.bandings if row != self.recommended)]
        label = f"pairs of {self.sample:,} documents that share a shingle"
        plot_curves(path, curves, self.threshold, (label, self.histogram(FINE_BINS)), overwrite=overwrite)

    def facts(self) -> dict[str, Any]:
        """The study as JSON values."""
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


@known_keywords
def study(
    texts: object,
    *,
    sample: int = SAMPLE,
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
) -> BandingStudy:
    """Compare all pairs of a sample of `texts` exactly, and count the candidate pairs of several bandings.

    `texts` is any kind that `deduplicate` takes. `sample` of them, from 2 to 65,536, are drawn by `seed`. The study
    recommends a banding of at most `num_perm` values that finds a pair at `threshold` with probability `recall` or
    more: the one with the fewest expected candidates below `threshold` on this text. `capture` and `reject` are
    requirements as in `choose_banding`; `capture` replaces `threshold` and `recall`. The study also has the default
    bandings for thresholds from 0.5 to 0.9, and the banding of `bands` and `rows`. Candidates come from `MinHash`.

    A sample has few of a corpus's duplicates: n documents out of N have (n / N)^2 of the pairs. But it shows how
    similar unrelated documents are, and so how many candidates are below the threshold.

    Returns a BandingStudy. Raises ParameterError, also if no banding meets the requirements, and InputTypeError.

    >>> texts = [f"page {i % 50} of a book has these words and {i}" for i in range(100)]
    >>> found = study(texts, threshold=0.5, backend="cpu")
    >>> found.sample, found.spread.pairs, found.recommended.curve
    (100, 4950, SCurve(bands=40, rows=3))
    """
    shingling, folding = text_reading(shingling, folding)
    threshold = checked_threshold(threshold)
    name, stated = ("capture", capture) if capture is not None else ("recall", (threshold, recall))
    captured = list(_choices(num_perm, checked_requirement(name, stated), reject))
    given = bands is not None or rows is not None
    always = {default_banding(num_perm, threshold, bands=bands, rows=rows)} if given else set()
    for at in THRESHOLDS:
        with suppress(ParameterError):  # with so few values there is none
            always.add(default_banding(num_perm, at))
    how: Options = {"shingling": shingling, "folding": folding, "backend": backend, "threads": threads}
    where: Backends = {"backend": backend, "threads": threads}
    drawn = draw_sample(texts, sample, seed)
    spread, pairs = brute_force(fingerprints(drawn.texts, how), threshold)

    best = min(captured, key=lambda curve: (spread.expected(curve, threshold), -curve.rows))
    curves = sorted(
        {best, *(SCurve(bands=bands, rows=rows) for bands, rows in always)}, key=lambda curve: (curve.rows, curve.bands)
    )
    minhash = MinHash(num_perm=max(curve.bands * curve.rows for curve in curves), seed=seed)
    signatures = minhash.from_texts(drawn.texts, **how)

    def on_text(curve: SCurve) -> BandingOnText:
        digests = Banding(bands=curve.bands, rows=curve.rows)(signatures, **where)
        values, expected = on_host(digests.values), spread.expected(curve)
        met = np.zeros(len(pairs), np.bool_)
        for digest in values.T:  # all bands at once take hundreds of bytes a pair
            met |= digest[pairs[:, 0]] == digest[pairs[:, 1]]
        return BandingOnText(
            bands=curve.bands,
            rows=curve.rows,
            probability=float(curve.probability(threshold)),
            expected=expected,
            wasted=spread.expected(curve, threshold),
            candidates=len(candidate_pairs(digests, **where)),
            recall=float(met.mean()) if len(pairs) else None,
            expected_of_all=expected * drawn.documents * max(drawn.documents - 1, 0) / max(2 * spread.pairs, 1),
        )

    bandings = tuple(map(on_text, curves))
    counts = drawn.documents, len(drawn.texts), threshold, len(pairs)
    return BandingStudy(*counts, spread, bandings, best=curves.index(best))


def _choices(num_perm: int, capture: tuple[float, float], reject: tuple[float, float] | None) -> Iterator[SCurve]:
    """The bandings to recommend from: for each number of rows, with the fewest bands that capture."""
    if reject is not None:  # this checks it, and names the closest banding if none meets both
        yield choose_banding(num_perm, capture, reject)
    num_perm = check_integer("num_perm", num_perm, 1, MAX_NUM_PERM)
    default_banding(num_perm, *capture)  # its error names the num_perm that would do
    for rows in range(1, num_perm + 1):
        fewest = fewest_bands(*capture, rows, num_perm // rows)
        if fewest is not None:
            curve = SCurve(bands=fewest, rows=rows)
            if reject is None or curve.probability(reject[0]) <= reject[1]:
                yield curve


def _short_number(number: float) -> str:
    """A count in at most seven characters."""
    return f"{number:,.0f}" if number < 1e6 - 0.5 else f"{number:.1e}"


BARS, CURVE, OTHERS = "#9db8d2", "#b3471f", "#8a8a8a"


def check_plot(path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """ParameterError if no picture can be made under this name, or at all; OutputError if a file is there already."""
    if not is_path(path):
        raise ParameterError(f"plot is {shown_type(path)}; give the path of a file")
    if Path(path).suffix not in PICTURES:
        raise ParameterError(f"plot is {os.fspath(path)!r}; give a file that ends with {' or '.join(PICTURES)}")
    if find_spec("matplotlib") is None:
        raise ParameterError(f"plot is given and matplotlib is not installed: {install_command('report')}")
    refuse_present(path, overwrite=overwrite)


def plot_curves(
    path: str | os.PathLike[str],
    curves: Sequence[SCurve],
    threshold: float | None,
    histogram: tuple[str, Numbers] | None = None,
    *,
    overwrite: bool,
) -> None:
    """Write a PNG or SVG file with the first curve, the others in grey, and a line at the threshold.

    `histogram` has the label of the counts, and the counts in equal steps of similarity. The same input gives the same
    SVG. With `overwrite`, an earlier picture of gpulsh is replaced. Raises ParameterError as `check_plot` does, and
    OutputError.
    """
    check_plot(path, overwrite=overwrite)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    axes.set_xlim(0, 1)
    axes.set_xlabel("exact Jaccard similarity")
    if histogram is not None:
        label, counts = histogram
        edges = np.linspace(0, 1, len(counts) + 1)
        axes.bar(edges[:-1], counts, width=1 / len(counts), align="edge", color=BARS, edgecolor="white")
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(0, None if counts.any() else 1)
        axes.set_ylabel(label)
        axes = axes.twinx()
    similarity = np.linspace(0, 1, 401)
    first, *others = curves
    name = banding_name(first.bands, first.rows) + (", recommended" if histogram is not None else "")
    axes.plot(similarity, first.probability(similarity), color=CURVE, linewidth=2, label=name)
    for curve, height in zip(others, np.linspace(0.9, 0.1, len(others)), strict=True):
        axes.plot(similarity, curve.probability(similarity), color=OTHERS, linewidth=0.7, label="_")
        place = float(curve.similarity_at(height)), height  # on its own curve, at its own height
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        axes.text(*place, f"{curve.bands} x {curve.rows}", fontsize=7, ha="center", va="center", bbox=box)
    if threshold is not None:
        axes.axvline(threshold, color="black", linewidth=1, linestyle=":", label=f"threshold {threshold:g}")
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("probability to become candidates")
    figure.legend(loc="outside upper center", ncols=3, title="grey: other bandings, bands x rows" if others else None)
    facts = {"Date": None, "Creator": DRAWN} if Path(path).suffix == ".svg" else {"Software": DRAWN}
    with writing(path), rc_context({"svg.hashsalt": "gpulsh"}):
        figure.savefig(path, dpi=110, metadata=facts)
