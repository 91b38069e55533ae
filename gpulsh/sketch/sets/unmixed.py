"""Fingerprints that cannot have been mixed: a sketch that reads a half of each would call unlike sets equal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints
from gpulsh.backends.protocol import Backend
from gpulsh.errors import ParameterError
from gpulsh.params import Family

LOOKED_AT = 1024  # values of a call
UPPER = ("affine32", "xor", "tabulation", "fast_similarity")  # families that read upper halves by themselves
LOWER = ("one_permutation", "fast_similarity")  # and those that read lower halves so
_S16, _S32 = np.uint64(16), np.uint64(32)


def check_mixed(fingerprints: Fingerprints, family: Family, ops: Backend) -> None:
    """A ParameterError where the first values cannot have been mixed, and `family` reads the half that they share.

    The fingerprints are of the backend, whose device is the current one.

    Refused are three distinct values or more if they have at most half as many distinct halves, two whose halves are 0,
    and one that is below 2^16, or a multiple of 2^48. Of random values the first has a probability below
    2^-60, the second 2^-64, the third 2^-48: less than one call in 10^14.
    """
    first, last = int(fingerprints.offset[0]), int(fingerprints.offset[-1])
    values = np.unique(ops.asnumpy(fingerprints.values[first : min(first + LOOKED_AT, last)]))
    if family.name in UPPER and _alike(values, np.right_shift):
        _refuse("upper", family)
    if family.name in LOWER and _alike(values, np.left_shift):
        _refuse("lower", family)


def _alike(values: NDArray[np.uint64], shifted: np.ufunc) -> bool:
    """Whether the halves of distinct values, which a shift leaves, are alike as no random ones are."""
    if len(values) > 2:
        return 2 * len(np.unique(shifted(values, _S32))) <= len(values)
    read = shifted(values, _S32 if len(values) == 2 else _S16)
    return bool(len(values) and (read == 0).all())


def _refuse(half: str, family: Family) -> None:
    raise ParameterError(
        f"the {half} 32 bits of fingerprints repeat, as those of mixed ones do not, and {family.name} would take unlike"
        " sets for equal; give gpulsh.fingerprint(sets)"
    )
