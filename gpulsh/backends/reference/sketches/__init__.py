"""Set sketches: a `Sketch` of a family in a file each, or in `functions` for families of hash functions."""

from importlib import import_module

from gpulsh.backends.protocol import SketchFold
from gpulsh.backends.reference.sketches.functions import FUNCTIONS
from gpulsh.params import Family


def sketch_of(family: Family) -> SketchFold:
    """The sketch of a family."""
    file = "functions" if family.sketch in FUNCTIONS else family.sketch
    found: SketchFold = import_module(f"{__name__}.{file}").Sketch(family)
    return found
