"""`gpulsh curve`: what a banding finds, as a table and, in a terminal, as a drawing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gpulsh.cli.drawing import drawing
from gpulsh.cli.study import show_study, study_options
from gpulsh.cli.terminal import say

if TYPE_CHECKING:  # numpy is loaded only when the command runs
    from gpulsh.theory import SCurve

# What `gpulsh dedup` and choose_banding() take where nothing is said; here too, because --help must not load NumPy.
DEFAULT_THRESHOLD = 0.8
DEFAULT_NUM_PERM = 128
DEFAULT_CAPTURE = (0.5, 0.99)
DEFAULT_REJECT = (0.05, 0.01)

STEPS = 20  # of similarity, in the table


def _requirement(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, float] | None:
    """The two numbers of S:P, or a usage error; whether they make sense is for `choose_banding` to say."""
    if value is None:
        return None
    similarity, _, probability = value.partition(":")
    try:
        return float(similarity), float(probability)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not SIMILARITY:PROBABILITY, as 0.5:0.99", ctx, param) from None


@click.command()
@click.option("--bands", type=int, metavar="B", help="Bands of the banding.")
@click.option("--rows", type=int, metavar="R", help="Rows of each band.")
@click.option(
    "--num-perm",
    type=int,
    metavar="K",
    help="Signature values, at most so many are used; one of --bands and --rows may be left to it.  [default: 128]",
)
@click.option(
    "--capture",
    callback=_requirement,
    metavar="S:P",
    help="Choose the banding: documents of similarity S meet with probability P or more; 0.5:0.99 for --reject alone.",
)
@click.option(
    "--reject",
    callback=_requirement,
    metavar="S:P",
    help="Choose the banding: documents of similarity S meet with probability P or less; 0.05:0.01 for --capture"
    " alone.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the table.")
@study_options
@click.pass_context
def curve(
    ctx: click.Context,
    /,
    study: tuple[str, ...],
    bands: int | None,
    rows: int | None,
    num_perm: int | None,
    capture: tuple[float, float] | None,
    reject: tuple[float, float] | None,
    as_json: bool,
    **of_study: Any,
) -> None:
    """Show which similarities a banding finds.

    Two documents become a candidate pair with probability 1 - (1 - s^rows)^bands, where s is their Jaccard similarity.
    Without options it is the banding that `gpulsh dedup` takes, with --threshold the one of `gpulsh dedup --threshold`.
    Give another by --bands and --rows, or let it be chosen by --capture and --reject: of the bandings that meet both,
    the one with the most rows.

    With --study it is the one with the fewest candidates below --threshold expected among the documents of INPUT; for
    --threshold and --recall, where --capture is not given.
    """
    if study:
        of_study |= {"bands": bands, "rows": rows, "num_perm": num_perm, "capture": capture, "reject": reject}
        show_study(study, as_json=as_json, **of_study)
        return
    threshold, plot = of_study.pop("threshold"), of_study.pop("plot")
    for name in of_study:
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"--{name.replace('_', '-')} is of a study; give --study INPUT, too")
    given = bands is not None or rows is not None
    required = capture is not None or reject is not None
    if given + required + (threshold is not None) > 1:
        raise click.UsageError("give --bands and --rows, or --capture and --reject, or --threshold")
    from gpulsh.studies.picture import check_plot, plot_curve
    from gpulsh.theory import SCurve, choose_banding, default_banding

    if plot is not None:
        check_plot(plot)
    if bands is not None and rows is not None and num_perm is None:
        chosen = SCurve(bands=bands, rows=rows)  # as long as need be
    elif given:
        # With one of the two given, the threshold decides nothing.
        both = default_banding(DEFAULT_NUM_PERM if num_perm is None else num_perm, 1.0, bands=bands, rows=rows)
        chosen = SCurve(bands=both[0], rows=both[1])
    elif required:
        capture, reject = capture or DEFAULT_CAPTURE, reject or DEFAULT_REJECT
        chosen = choose_banding(DEFAULT_NUM_PERM if num_perm is None else num_perm, capture, reject)
    else:
        threshold = DEFAULT_THRESHOLD if threshold is None else threshold
        both = default_banding(DEFAULT_NUM_PERM if num_perm is None else num_perm, threshold)
        chosen = SCurve(bands=both[0], rows=both[1])

    if plot is not None:
        plot_curve(chosen, plot, threshold)
    if as_json:
        say(json.dumps(_figures(chosen, threshold), indent=2))
        return
    say(_table(chosen, threshold))
    if drawn := drawing(chosen):
        say(f"\n{drawn}")


def _figures(curve: SCurve, threshold: float | None) -> Mapping[str, Any]:
    """The figures of the curve, in the order in which they are printed."""
    similarity = [step / STEPS for step in range(STEPS + 1)]
    return {
        "bands": curve.bands,
        "rows": curve.rows,
        "num_perm": curve.bands * curve.rows,
        "threshold": threshold,
        "steepest": curve.threshold,
        "approximately": curve.approximate_threshold,
        "slope": curve.slope,
        "width": curve.width,
        "curve": [{"similarity": s, "probability": float(curve.probability(s))} for s in similarity],
    }


def _table(curve: SCurve, threshold: float | None) -> str:
    figures = _figures(curve, threshold)
    low, high = curve.similarity_at(0.05), curve.similarity_at(0.95)
    meaning = {
        "bands": "",
        "rows": "",
        "num_perm": "signature values used",
        "threshold": ""
        if threshold is None
        else f"pairs there meet with probability {curve.probability(threshold):.4f}",
        "steepest": "similarity at which the curve is steepest",
        "approximately": "the same by (1 / bands) ^ (1 / rows)",
        "slope": "rise of the probability there",
        "width": f"probability 0.05 at {low:.4f}, 0.95 at {high:.4f}",
    }
    lines = []
    for name, says in meaning.items():
        if figures[name] is None:
            continue
        number = f"{figures[name]:.4f}" if isinstance(figures[name], float) else str(figures[name])
        lines.append(f"{name.replace('_', ' '):<22}{number:>8}  {says}".rstrip())
    lines += ["", "similarity  probability"]
    lines += [f"{row['similarity']:>10.2f}  {row['probability']:>11.6f}" for row in figures["curve"]]
    return "\n".join(lines)
