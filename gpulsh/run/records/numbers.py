"""Checks numbers that were read from files of the work folder before anything is indexed by them.

A run resumes from files whose checksums are right, but only the folder's permissions say who made them. Kernels index
by such numbers unchecked, so each is compared with what a run may have written there.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpulsh.arrays import Numbers, Values
from gpulsh.errors import OutputError


def tampered(folder: Path, what: str) -> OutputError:
    """The error of work files that tell what no run writes."""
    return OutputError(f"{folder}: holds {what}, which no run of gpulsh writes; begin again with --overwrite")


def within(folder: Path, what: str, found: Values, start: int, stop: int) -> Values:
    """Integers in [start, stop), as they are; OutputError where they are others."""
    if found.dtype.kind not in "iu" or (len(found) and not (start <= found.min() and found.max() < stop)):
        raise tampered(folder, f"numbers of {what} that there are not")
    return found


def ascending(folder: Path, what: str, found: Values) -> Values:
    """Numbers each above the one before, as they are; OutputError where they are others."""
    if not (found[1:] > found[:-1]).all():
        raise tampered(folder, f"{what} out of order")
    return found


def places_in(folder: Path, what: str, known: Values, wanted: Values) -> Numbers:
    """int64, like `wanted`: where in `known`, ascending, each stands; OutputError where one does not stand there."""
    places = np.searchsorted(known, wanted)
    if places.size and not (len(known) and (known.take(places, mode="clip") == wanted).all()):
        raise tampered(folder, f"{what} that others of its files do not know")
    return places
