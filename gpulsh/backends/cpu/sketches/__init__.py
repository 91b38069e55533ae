"""Set sketches, a file each: a `Sketch` of a family, as `gpulsh.backends.protocol.SketchFold` says, on one thread."""

from functools import lru_cache
from importlib import import_module

from gpulsh.backends.cpu.sketches.minima import Minima
from gpulsh.params import Family


@lru_cache(maxsize=16)  # the last few: each batch of a run asks for the same one
def sketch_of(family: Family) -> Minima:
    """The sketch of a family, from the file that has its name."""
    found: Minima = import_module(f"{__name__}.{family.sketch}").Sketch(family)
    return found
