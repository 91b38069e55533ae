"""Set sketches, a file each: a `Sketch` of a machine and a family, as `gpulsh.backends.cuda.set_sketch` has it."""

from importlib import import_module

from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.set_sketch import DeviceSketch
from gpulsh.params import Family


def sketch_of(machine: Machine, family: Family) -> DeviceSketch:
    """The sketch of a family, from the file that has its name; what it draws is uploaded."""
    found: DeviceSketch = import_module(f"{__name__}.{family.sketch}").Sketch(machine, family)
    return found
