"""Set sketches: a `Sketch` of a family in a file each, or in `functions` for families of hash functions."""

from functools import lru_cache
from importlib import import_module

from gpulsh.backends.cpu.sketches.minima import Minima
from gpulsh.params import Family

# Named here, so that a run that uses none of them does not load their kernels.
FUNCTIONS = ("affine61", "affine64", "c_minhash", "multiply_shift", "tabulation", "wrapped", "xor_masks")


@lru_cache(maxsize=16)  # each batch of a run needs the same one
def sketch_of(family: Family) -> Minima:
    """The sketch of a family, on one thread."""
    file = "functions" if family.sketch in FUNCTIONS else family.sketch
    found: Minima = import_module(f"{__name__}.{file}").Sketch(family)
    return found
