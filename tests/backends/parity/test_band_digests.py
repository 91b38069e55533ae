"""band_digests: of signatures of any values, and the digest that stands for none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.backends.protocol import INSTEAD_OF_NO_DIGEST, NO_DIGEST, NO_VALUE, Backend
from gpulsh.params import BandShape
from tests.backends.parity.agreement import agree
from tests.support import naive

# Found by lattice reduction: each line is a band, 0 to 2, whose sum is what mixing maps to 2^64 - 1.
NO_DIGEST_BANDS = [
    *(2147484572, 2147483710, 2147483751, 2147483253, 2147483511, 2147484394),
    *(2147483843, 2147484473, 2147484032, 2147484056, 2147483727, 2147483005),
    *(2147483170, 2147483804, 2147483427, 2147484054, 2147484401, 2147482853),
]
values = st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2**31, NO_VALUE - 1, NO_VALUE, NO_VALUE]))


@settings(max_examples=25)
@given(st.integers(1, 20), st.data())
def test_any_signatures(ops: Backend, columns: int, data: st.DataObject) -> None:
    row = st.one_of(st.lists(values, min_size=columns, max_size=columns), st.just([NO_VALUE] * columns))
    signatures = np.array(data.draw(st.lists(row, max_size=9)), np.uint32).reshape(-1, columns)
    rows = data.draw(st.integers(1, columns))
    shape = BandShape(bands=data.draw(st.integers(1, columns // rows)), rows=rows)
    agree(ops, "band_digests", signatures, shape)
    agree(ops, "band_digests", np.repeat(signatures, 2, axis=0)[::2], shape)  # not contiguous


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 130])
def test_long_bands(ops: Backend, rows: int) -> None:
    signatures = np.random.default_rng(1).integers(0, 2**32, (7, 2 * rows + 1), np.uint32)
    signatures[[2, 4]] = NO_VALUE
    signatures[4, -1] = 0  # a value no band takes, yet the row is not one of all ones
    agree(ops, "band_digests", signatures, BandShape(bands=2, rows=rows))
    agree(ops, "band_digests", signatures[:0], BandShape(bands=2, rows=rows))


def test_more_blocks_than_threads(ops: Backend) -> None:
    signatures = np.random.default_rng(4).integers(0, 2**32, (1700, 64), np.uint32)
    agree(ops, "band_digests", signatures, BandShape(bands=1, rows=64))


def test_a_digest_that_comes_out_as_none_and_rows_of_all_ones(ops: Backend) -> None:
    signatures = np.full((4, 18), NO_VALUE, np.uint32)
    signatures[1] = NO_DIGEST_BANDS
    signatures[2, 17] = 0
    signatures[3, 0] = 0
    digests = agree(ops, "band_digests", signatures, BandShape(bands=3, rows=6))
    assert (digests[0] == NO_DIGEST).all() and (digests[1] == INSTEAD_OF_NO_DIGEST).all()
    assert (digests[2:] < INSTEAD_OF_NO_DIGEST).all()
    # A row that only looks empty in the bands' columns is not empty.
    assert (agree(ops, "band_digests", signatures, BandShape(bands=2, rows=6))[2] != NO_DIGEST).all()
    for band in range(3):
        total = sum(
            naive.place_key(naive.BAND, place) * value
            for place, value in enumerate(NO_DIGEST_BANDS[6 * band : 6 * band + 6])
        )
        assert naive.mix(total + (band + 1) * naive.GOLDEN) == NO_DIGEST
