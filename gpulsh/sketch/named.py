"""A sketch by its name, as the command takes it: NAME or NAME:NUM_PERM."""

from __future__ import annotations

from importlib import import_module

from gpulsh.errors import ParameterError
from gpulsh.params import SKETCHES
from gpulsh.sketch.set_sketch import SetSketch


def parse_sketch(text: str, num_perm: int | None = None, seed: int | None = None) -> SetSketch:
    """The sketch that `text` names; `num_perm` counts where the text gives none.

    >>> parse_sketch("one-permutation:256")
    OnePermutation(num_perm=256, seed=1)
    """
    name, colon, size = text.partition(":")
    known = sorted(set(SKETCHES.values()))
    if name.replace("-", "_") not in known or (colon and not (size.isascii() and size.isdigit() and len(size) < 9)):
        names = " or ".join(sketch.replace("_", "-") for sketch in known)
        raise ParameterError(f"sketch is {text!r}; give {names}, or one with its number of values, as minhash:128")
    if colon and num_perm is not None and num_perm != int(size):
        raise ParameterError(f"sketch is {text!r} and num_perm is {num_perm}; give the number of values once")
    module = import_module(f"gpulsh.sketch.{name.replace('-', '_')}")
    kind = next(kind for kind in SetSketch.__subclasses__() if kind.__module__ == module.__name__)
    given = {"num_perm": int(size) if colon else num_perm, "seed": seed}
    return kind(**{name: value for name, value in given.items() if value is not None})
