"""`gpulsh curve --study`: what bandings find among documents of the user's own, as tables and a drawing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import ceil, log1p
from typing import TYPE_CHECKING, Any

import click

from gpulsh.cli.drawing import MARK, drawing
from gpulsh.cli.options import backend_options, form_of, method_options, parsed, sample_option, text_options, together
from gpulsh.cli.terminal import say
from gpulsh.errors import install

if TYPE_CHECKING:  # numpy is loaded only when the command runs
    from gpulsh.backends.select import BackendName
    from gpulsh.studies.curve import Study

BINS = 50  # of the drawing
BAR = 30  # characters of the longest, in the table

study_options = together(
    click.option(
        "--study",
        multiple=True,
        metavar="INPUT",
        help="Compare all pairs of a sample of these documents, show what bandings find, and recommend one.",
    ),
    sample_option,
    method_options("threshold", "shingle", "normalize", "seed"),
    click.option(
        "--recall",
        type=float,
        metavar="P",
        help="Recommend a banding that finds pairs at the threshold with probability P or more.  [default: 0.995]",
    ),
    text_options(),
    backend_options,
    click.option(
        "--plot", metavar="FILE", help=f"Draw the curve, or the study, to a file, .png or .svg ({install('report')})."
    ),
)


def show_study(
    inputs: Sequence[str],
    *,
    as_json: bool,
    text_column: str,
    backend: BackendName,
    threads: int | None,
    plot: str | None,
    **options: Any,
) -> None:
    """Study a sample of the documents of `inputs`, and print what is found."""
    from gpulsh.studies.corpus import open_corpus
    from gpulsh.studies.curve import study
    from gpulsh.studies.picture import check_plot

    if plot is not None:
        check_plot(plot)
    form = form_of(options)
    corpus = open_corpus(inputs, text_column=text_column, backend=backend, threads=threads, **form)
    found = study(corpus, backend=backend, threads=threads, **parsed(options))
    if plot is not None:
        found.plot(plot)
    say(json.dumps(found.facts(), indent=2) if as_json else "\n".join(_told(found)))


def _told(study: Study) -> Iterator[str]:
    best, spread = study.recommended, study.spread
    yield f"{study.sample:,} of {study.documents:,} documents, all pairs of which were compared exactly:"
    yield f"of {spread.pairs:,} pairs {int(spread.counts.sum()):,} share a shingle, {study.similar:,} have a similarity"
    yield f"of {study.threshold:g} or more"
    yield ""
    counts = study.histogram().tolist()
    wide, most = max(len("pairs"), len(f"{max(counts):,}")), log1p(max(counts, default=0)) or 1.0
    yield f"similarity   {'pairs':>{wide}}  P(meet)  (of the recommended banding; bars by logarithms)"
    for step, count in enumerate(counts):
        low, high = step / len(counts), (step + 1) / len(counts)
        meet = float(best.curve.probability((low + high) / 2))
        bar = "#" * ceil(BAR * log1p(count) / most)
        yield f"{low:.2f} - {high:.2f}  {count:>{wide},}   {meet:.4f}  {bar}".rstrip()
    if drawn := drawing(best.curve, study.histogram(BINS).tolist()):
        yield f"\n{drawn}\n      bars: pairs, by logarithms; {MARK}: the probability that they meet"
    yield ""
    yield from study_table(study)
    yield ""
    yield f"recommended: --num-perm {best.bands * best.rows} --bands {best.bands} --rows {best.rows}"


def study_table(study: Study) -> Iterator[str]:
    """The lines of the table of bandings."""
    head = "bands", "rows", f"P({study.threshold:g})", "recall", "found", "expected", "in vain", "corpus", ""
    rows: list[Sequence[str]] = [head]
    for row in study.bandings:
        recall = "" if row.recall is None else f"{row.recall:.4f}"
        counts = map(count, (row.candidates, row.expected, row.in_vain, row.expected_of_all))
        mark = "recommended" if row == study.recommended else ""
        rows.append((str(row.bands), str(row.rows), f"{row.probability:.4f}", recall, *counts, mark))
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]], left: int = 0) -> Iterator[str]:
    """The lines of a table: its first `left` columns aligned to the left; narrow where it would be above 80 wide."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    gap = "  " if sum(widths) + 2 * len(widths) - 2 <= 80 else " "
    for row in rows:
        cells = zip(row, widths, strict=True)
        sides = (f"{cell:{'<' if place < left else '>'}{width}}" for place, (cell, width) in enumerate(cells))
        yield gap.join(sides).rstrip()


def count(number: float) -> str:
    """A count in at most seven characters."""
    return f"{number:,.0f}" if number < 1e6 - 0.5 else f"{number:.1e}"
