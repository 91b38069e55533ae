"""Draws S-curves to a file, alone or over a histogram of pairs by similarity."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.errors import ParameterError, install
from gpulsh.params import is_path, shown_type
from gpulsh.run.output.paths import DRAWN, PICTURES, refuse_present
from gpulsh.store.durable import writing
from gpulsh.theory import SCurve

BARS, CURVE, OTHERS = "#9db8d2", "#b3471f", "#8a8a8a"


def check_plot(path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """ParameterError if no picture can be made under this name, or at all; OutputError if a file is there already."""
    if not is_path(path):
        raise ParameterError(f"plot is {shown_type(path)}; give the path of a file")
    if Path(path).suffix not in PICTURES:
        raise ParameterError(f"plot is {os.fspath(path)!r}; give a file that ends with {' or '.join(PICTURES)}")
    if find_spec("matplotlib") is None:
        raise ParameterError(f"plot is given and matplotlib is not installed: {install('report')}")
    refuse_present(path, overwrite=overwrite)


def plot_curves(
    path: str | os.PathLike[str],
    curves: Sequence[SCurve],
    threshold: float | None,
    histogram: tuple[str, Numbers] | None = None,
    *,
    overwrite: bool = False,
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
        axes.set_ylim(bottom=0)
        axes.set_ylabel(label)
        axes = axes.twinx()
    similarity = np.linspace(0, 1, 401)
    first, *others = curves
    name = f"{first.bands} bands of {first.rows} rows" + (", recommended" if histogram is not None else "")
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
