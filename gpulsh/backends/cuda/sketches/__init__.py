"""Set sketches: a `Sketch` of a machine and a family in a file each, or in `functions` for single functions."""

from importlib import import_module

from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.sketches.functions import TABLES
from gpulsh.backends.cuda.sketches.minima import DeviceSketch
from gpulsh.params import Family


def sketch_of(machine: Machine, family: Family) -> DeviceSketch:
    """The sketch of a family; its random words are uploaded."""
    file = "functions" if family.sketch in TABLES else family.sketch
    found: DeviceSketch = import_module(f"{__name__}.{file}").Sketch(machine, family)
    return found
