"""`gpulsh curve --study`: what bandings find among documents of the user's own, as tables and a drawing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import ceil, log1p
from typing import TYPE_CHECKING, Any

import click

from gpulsh.cli.choice.drawing import MARK, drawing
from gpulsh.cli.options import backend_options, form_of, method_options, parsed, sample_option, text_options, together
from gpulsh.cli.terminal import say
from gpulsh.errors import install

if TYPE_CHECKING:  # numpy is loaded only when the command runs
    from gpulsh.backends.select import BackendName
    from gpulsh.tuning.study import Study

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
    from gpulsh.tuning.picture import check_plot
    from gpulsh.tuning.sample import open_corpus
    from gpulsh.tuning.study import study

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
    yield f"bands  rows  P({study.threshold:g})  recall  candidates    expected     in vain  expected of all"
    for row in study.bandings:
        recall = "" if row.recall is None else f"{row.recall:.4f}"
        mark = "  recommended" if row == best else ""
        yield (
            f"{row.bands:>5}  {row.rows:>4}  {row.probability:.4f}  {recall:>6}  {row.candidates:>10,}"
            f"  {row.expected:>10,.0f}  {row.in_vain:>10,.0f}  {row.expected_of_all:>15,.0f}{mark}"
        )
    yield ""
    yield f"recommended: --num-perm {best.bands * best.rows} --bands {best.bands} --rows {best.rows}"
