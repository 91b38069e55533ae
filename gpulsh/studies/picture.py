"""The picture of an S-curve, alone or of a study: over how many pairs there are of each similarity."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpulsh.errors import ParameterError, install
from gpulsh.params import is_path, shown_type
from gpulsh.store.durable import writing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpulsh.studies.curve import Study
    from gpulsh.theory import SCurve

ENDINGS = (".png", ".svg")
BINS = 50
BARS, CURVE, OTHERS = "#9db8d2", "#b3471f", "#8a8a8a"


def check_plot(path: str | os.PathLike[str]) -> None:
    """ParameterError where no picture can be made under this name, or at all."""
    if not is_path(path):
        raise ParameterError(f"plot is {shown_type(path)}; give the path of a file")
    if Path(path).suffix not in ENDINGS:
        raise ParameterError(f"plot is {os.fspath(path)!r}; give a file that ends with {' or '.join(ENDINGS)}")
    if find_spec("matplotlib") is None:
        raise ParameterError(f"plot is given and matplotlib is not installed: {install('report')}")


def plot(study: Study, path: str | os.PathLike[str]) -> None:
    """Write the picture, PNG or SVG by the ending of `path`; the same study gives the same SVG.

    Raises ParameterError as `check_plot` does, and OutputError.
    """
    figure = _figure(path)
    pairs = figure.subplots()
    edges = np.linspace(0, 1, BINS + 1)
    pairs.bar(edges[:-1], study.histogram(BINS), width=1 / BINS, align="edge", color=BARS, edgecolor="white")
    pairs.set_yscale("symlog", linthresh=1)
    pairs.set_xlim(0, 1)
    pairs.set_ylim(bottom=0)
    pairs.set_xlabel("exact Jaccard similarity")
    pairs.set_ylabel(f"pairs of {study.sample:,} documents that share a shingle")
    meet = pairs.twinx()
    similarity = np.linspace(0, 1, 401)
    for banding, height in zip(study.bandings, np.linspace(0.9, 0.1, len(study.bandings)), strict=True):
        name, curve = f"{banding.bands} bands of {banding.rows} rows", banding.curve
        if banding == study.recommended:
            meet.plot(similarity, curve.probability(similarity), color=CURVE, linewidth=2, label=f"{name}, recommended")
            continue
        meet.plot(similarity, curve.probability(similarity), color=OTHERS, linewidth=0.7, label=f"_{name}")
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        place = float(curve.similarity_at(height)), height  # each on its own curve, none beside another
        meet.text(*place, f"{banding.bands} x {banding.rows}", fontsize=7, ha="center", va="center", bbox=box)
    meet.axvline(study.threshold, color="black", linewidth=1, linestyle=":", label=f"threshold {study.threshold:g}")
    meet.set_ylim(0, 1.02)
    meet.set_ylabel("probability to become candidates")
    figure.legend(loc="outside upper center", ncols=3, title="grey: other bandings, bands x rows")
    _write(figure, path)


def plot_curve(curve: SCurve, path: str | os.PathLike[str], threshold: float | None) -> None:
    """Write the curve alone, with a line at the threshold where there is one. Raises as `plot` does."""
    figure = _figure(path)
    meet, similarity = figure.subplots(), np.linspace(0, 1, 401)
    name = f"{curve.bands} bands of {curve.rows} rows"
    meet.plot(similarity, curve.probability(similarity), color=CURVE, linewidth=2, label=name)
    if threshold is not None:
        meet.axvline(threshold, color="black", linewidth=1, linestyle=":", label=f"threshold {threshold:g}")
    meet.set_xlim(0, 1)
    meet.set_ylim(0, 1.02)
    meet.set_xlabel("exact Jaccard similarity")
    meet.set_ylabel("probability to become candidates")
    meet.legend(loc="upper left")
    _write(figure, path)


def _figure(path: str | os.PathLike[str]) -> Figure:
    check_plot(path)
    from matplotlib.figure import Figure

    return Figure(figsize=(9, 5), layout="constrained")


def _write(figure: Figure, path: str | os.PathLike[str]) -> None:
    from matplotlib import rc_context

    with writing(path), rc_context({"svg.hashsalt": "gpulsh"}):
        figure.savefig(path, dpi=110, metadata={"Date": None} if Path(path).suffix == ".svg" else None)
