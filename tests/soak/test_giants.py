"""Every pass of the CPU backend over a document of 32 MB holds little beside it."""

from typing import Any

import numpy as np
import pytest

from gpulsh.params import Shingling
from tests.backends.test_giants import BESIDE, FAMILY, KEYS, ONE, SHAPE, batch_of, peak_beside, same


@pytest.mark.parametrize("unit", ["word", "char"])
def test_a_giant_of_single_letters(unit: Any) -> None:
    shingling = Shingling(unit=unit, size=5)
    text = batch_of([b"a b " * (8 << 20)])
    few = batch_of([b"a b " * (2 << 20)])
    for work in (
        lambda: ONE.sign(text, shingling, FAMILY, SHAPE, KEYS),
        lambda: ONE.shingle_sets(few, shingling),
        lambda: ONE.shingle_part(few, shingling, 0, 2),
        lambda: ONE.text_signatures(few, shingling, FAMILY),
        lambda: ONE.exact_hashes(few, shingling, KEYS),
    ):
        assert peak_beside(work) < BESIDE


def test_a_giant_that_is_one_token() -> None:
    text = batch_of([b"x" * (32 << 20)])
    assert peak_beside(lambda: ONE.sign(text, Shingling(), FAMILY, SHAPE, KEYS)) < BESIDE
    same(ONE.shingle(text, Shingling()).offset, np.array([0, 1]))
