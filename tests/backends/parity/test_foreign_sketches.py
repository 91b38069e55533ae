"""The sketches of other libraries, `params.FOREIGN`: rows, parts, and values beside the moduli."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.arrays import Array, Fingerprints
from gpulsh.backends.protocol import Backend, sketched
from gpulsh.params import FOREIGN, WRAPPED, Family, ForeignName, GivenFamily
from tests.backends.parity.agreement import agree, fewer, said
from tests.backends.parity.cuts import few_cuts
from tests.support.rows import LENGTHS, hashes, random_table, table, tables
from tests.support.same import same

every_sketch = pytest.mark.parametrize("name", list(FOREIGN))


@few_cuts
@every_sketch
@settings(max_examples=10)
@given(rows=tables, before=st.integers(0, 5), power=st.integers(0, 6), seed=st.integers(0, 2**64 - 1))
def test_any_rows(ops: Backend, name: ForeignName, rows: list[list[int]], before: int, power: int, seed: int) -> None:
    found = agree(ops, sketched, table(rows, before), Family(name=name, num_perm=1 << power, seed=seed))
    assert (found[[not row for row in rows]] == np.iinfo(found.dtype).max).all()


@every_sketch
def test_rows_of_every_length(ops: Backend, name: ForeignName) -> None:
    family = Family(name=name, num_perm=fewer(ops, 64, 32), seed=3)
    agree(ops, sketched, random_table(LENGTHS[: fewer(ops, 24, 18)]), family)


@pytest.mark.parametrize("name", list(WRAPPED))
def test_sums_beside_the_modulus(ops: Backend, name: ForeignName) -> None:
    bits, prime = WRAPPED[name]
    sums = [prime - 1, prime, prime + 1, 0, 1, 2**bits - 1, 2**bits - 2, *((k * prime - 1) % 2**bits for k in range(9))]
    family = GivenFamily(name=name, num_perm=3, first=(1, 3, 2**bits - 1), second=(0, 2**bits - 5, 7))
    found = agree(ops, sketched, table([[value] for value in sums]), family)
    wanted = [value % prime % 2**32 if family.value_type == "uint32" else value % prime for value in sums]
    assert found[:, 0].tolist() == wanted


def joined(ops: Backend, family: Family, *parts: Fingerprints) -> Array:
    sketch = ops.set_sketch(family)
    return sketch.finish(reduce(sketch.merge, map(sketch.fold, parts)))


@few_cuts
@every_sketch
@settings(max_examples=10)
@given(rows=st.lists(st.lists(hashes, max_size=9), min_size=1, max_size=3), cut=st.integers(0, 9))
def test_parts_are_the_whole(ops: Backend, name: ForeignName, rows: list[list[int]], cut: int) -> None:
    family = Family(name=name, num_perm=16, seed=3)
    parts = [table([row[:cut] for row in rows], 1), table([row[cut:] for row in rows], 2)]
    same(agree(ops, joined, family, *parts), said(sketched, table(rows), family))
