"""Set sketches, a file each: a `Sketch` of a family, as `gpulsh.backends.protocol.SetSketch` says."""

from importlib import import_module

from gpulsh.backends.protocol import SetSketch
from gpulsh.params import Family


def sketch_of(family: Family) -> SetSketch:
    """The sketch of a family, from the file that has its name."""
    found: SetSketch = import_module(f"{__name__}.{family.sketch}").Sketch(family)
    return found
