"""Packed signatures against Python integers, and their estimates against theory."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh.arrays import Signatures
from gpulsh.backends.protocol import STREAM_BITS
from gpulsh.backends.reference.hashing import key, mix64
from gpulsh.sketch.b_bit import BITS


def bits_of(value: int, place: int, width: int = 32) -> int:
    """By Python integers, as the docstring says."""
    exceeded = 2**width - 1 - value
    return ~mix64(exceeded * key(STREAM_BITS, place)) % 2**64


every_backend = pytest.mark.parametrize("backend", ["reference", "cpu"])


@given(
    backend=st.sampled_from(["reference", "cpu"]),
    bits=st.sampled_from(BITS),
    data=st.data(),
    columns=st.integers(1, 140),
)
def test_fields(backend: Any, bits: int, data: st.DataObject, columns: int) -> None:
    row = st.lists(st.integers(0, 2**32 - 1), min_size=columns, max_size=columns)
    rows = [*data.draw(st.lists(row, min_size=1, max_size=3)), [2**32 - 1] * columns]
    sketch = gpulsh.BBit(bits=bits, num_perm=columns)
    packed = sketch(Signatures(np.array(rows, np.uint32)), backend=backend)
    low = [[bits_of(value, place) % 2**bits for place, value in enumerate(row)] for row in rows]
    words = -(-columns * bits // 64)
    assert packed.shape == (len(rows), words)
    for row, wanted in zip(packed.values.tolist(), low, strict=True):
        number = sum(value << bits * i for i, value in enumerate(wanted))
        assert sum(word << 64 * i for i, word in enumerate(row)) == number

    pairs = np.array([(i, j) for i in range(len(rows)) for j in range(len(rows))])
    found = sketch.estimate(packed, pairs, backend=backend)
    for (i, j), estimate in zip(pairs.tolist(), found.tolist(), strict=True):
        share = sum(a == b for a, b in zip(low[i], low[j], strict=True)) / columns
        filled = all(any(value != 2**bits - 1 for value in low[k]) for k in (i, j))
        assert estimate == pytest.approx((share - 2**-bits) / (1 - 2**-bits) if filled else 0, abs=1e-12)


def test_scheme_2() -> None:
    """These bits are on disks: another scheme has to stand in CHANGELOG.md."""
    rows = Signatures(np.array([[0, 1, 2, 2**32 - 1], [7, 7, 7, 7], [2**32 - 1] * 4], np.uint32))
    wide = Signatures(np.array([[0, 1, 2**63, 2**64 - 1]], np.uint64))
    packed = gpulsh.BBit(bits=8, num_perm=4)(rows, backend="cpu").values.tolist()
    assert [f"{word:08x}" for (word,) in packed] == ["ffbedbbb", "1610f963", "ffffffff"]
    (word,) = gpulsh.BBit(bits=16, num_perm=4)(wide, backend="cpu").values[0].tolist()
    wanted = [bits_of(value, place, 64) % 2**16 for place, value in enumerate(wide.values[0].tolist())]
    assert [word >> 16 * place & 0xFFFF for place in range(4)] == wanted


@every_backend
def test_texts(backend: Any) -> None:
    texts = ["a b c d e f", "A b c d e f!", None, "", "g h i"]
    sketch = gpulsh.BBit(bits=4, num_perm=64, seed=3)
    packed = sketch.from_texts(texts, backend=backend)
    signatures = gpulsh.MinHash(num_perm=64, seed=3).from_texts(texts, backend=backend)
    np.testing.assert_array_equal(packed, sketch(signatures, backend=backend))
    assert sketch.estimate(packed, [[0, 1], [2, 3], [0, 2]], backend=backend).tolist() == [1, 0, 0]
