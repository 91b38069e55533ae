"""Of what one sketch made no other makes estimates; of stored arrays any may."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gpulsh
from gpulsh import ParameterError
from gpulsh.arrays import Made

ON: Any = {"backend": "reference"}
TEXTS = ["one two three four five six", "ONE two, three four five six!"]
VECTORS = np.eye(3)[:2] + 1
SKETCHES = [
    (gpulsh.MinHash(), gpulsh.FastSimilarity()),
    (gpulsh.OnePermutation(), gpulsh.OnePermutation(seed=2)),
    (gpulsh.CMinHash(num_perm=64), gpulsh.CMinHash()),
    (gpulsh.WeightedMinHash(), gpulsh.MinHash()),
    (gpulsh.BBit(bits=2, num_perm=64), gpulsh.BBit(bits=1, num_perm=128)),  # in as many words
    (gpulsh.BottomS(), gpulsh.ModM()),
    (gpulsh.SimHash(), gpulsh.Hyperplanes()),
    (gpulsh.SimHash(weights="count"), gpulsh.SimHash()),
]


@pytest.mark.parametrize(("own", "other"), SKETCHES, ids=lambda sketch: type(sketch).__name__)
def test_of_another_sketch(own: Any, other: Any) -> None:
    sketched = own.from_texts(TEXTS, **ON)
    assert isinstance(sketched, Made) and sketched.maker == own and "maker" not in repr(sketched)
    with pytest.raises(ParameterError, match=r"were made by \w+\(.*\) and not by \w+\(.*\)"):
        other.estimate(sketched, [[0, 1]], **ON)
    stored = replace(sketched, maker=None)
    assert stored == sketched
    assert own.estimate(stored, [[0, 1]], **ON) == own.estimate(sketched, [[0, 1]], **ON)
    other.estimate(stored, [[0, 1]], **ON)
    if not isinstance(own, gpulsh.BBit):
        weighted = isinstance(own, gpulsh.WeightedMinHash)
        assert own((gpulsh.weigh if weighted else gpulsh.shingle)(TEXTS, **ON), **ON).maker == own


@pytest.mark.parametrize("sketch", [gpulsh.Hyperplanes(), gpulsh.KleinbergTardos(), gpulsh.WeightedMinHash()])
def test_of_vectors(sketch: Any) -> None:
    assert sketch(VECTORS, **ON).maker == sketch
