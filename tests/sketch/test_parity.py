"""Every set sketch: the CPU backend equals the reference bit for bit, in any parts; the tables know all of them."""

from __future__ import annotations

from functools import reduce
from importlib import import_module
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.protocol import NO_VALUE, Backend, sketched
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.params import SKETCHES, BandShape, Family, FamilyName, MinHashFamily, Shingling
from gpulsh.permutations import words
from gpulsh.sketch.named import sketch_names
from gpulsh.sketch.set_sketch import SetSketch
from tests.backends.test_giants import operations, pieces_of
from tests.support.rows import LENGTHS, random_table, table
from tests.support.same import same
from tests.support.texts import KEYS, batches

NAMES = list(SKETCHES)
REFERENCE, ONE = ReferenceBackend(), CpuBackend(1)
every_sketch = pytest.mark.parametrize("name", NAMES)
rows_of_hashes = st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=40), max_size=8)


def test_every_family_has_a_sketch_of_its_own() -> None:
    assert set(NAMES) == set(get_args(FamilyName))
    files = set(sketch_names().values())
    for module in files:
        import_module(f"gpulsh.sketch.{module}")
    assert {kind.__module__.rpartition(".")[2] for kind in SetSketch.__subclasses__()} >= files
    assert {SKETCHES[family] for family in set(SKETCHES) - set(get_args(MinHashFamily))} | {"minhash"} == files


@every_sketch
@given(rows=rows_of_hashes, columns=st.integers(1, 70), seed=st.integers(0, 2**64 - 1))
def test_any_rows(name: FamilyName, rows: list[list[int]], columns: int, seed: int) -> None:
    family = Family(name=name, num_perm=columns, seed=seed)
    found = sketched(ONE, table(rows, 2), family)
    same(found, sketched(REFERENCE, table(rows, 2), family))
    assert found.dtype == family.value_type
    assert ((found == np.iinfo(found.dtype).max).all(axis=1) == [not row for row in rows]).all()


def hashed_near_no_value(family: Family) -> list[list[int]]:
    """Rows of fingerprints that one permutation hashing hashes, within their bins, to NO_VALUE and a little less."""
    multiplier, addend, _ = words(family, 3)
    inverse = pow(multiplier | 1, -1, 1 << 64)
    upper = [3 << 60, 7 << 33]
    values = [[((high | NO_VALUE - less) - addend) * inverse % (1 << 64) for high in upper] for less in range(3)]
    return [*values, values[0] + values[2], values[1] + values[0]]


@pytest.mark.parametrize("columns", [1, 40])
def test_a_hash_of_all_ones_is_a_value(columns: int) -> None:
    family = Family(name="one_permutation", num_perm=columns)
    rows = table(hashed_near_no_value(family), 0)
    found = sketched(ONE, rows, family)
    same(found, sketched(REFERENCE, rows, family))
    assert [NO_VALUE - int(row.max()) for row in found] == [1, 1, 2, 2, 1]


@every_sketch
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("columns", [1, 31, 32, 33, 128, 300])
def test_rows_of_awkward_lengths(name: FamilyName, threads: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulsh.backends.cpu.set_sketch.CHUNK_SHINGLES", 100)
    family, rows = Family(name=name, num_perm=columns), random_table(LENGTHS)
    same(sketched(CpuBackend(threads), rows, family), sketched(REFERENCE, rows, family))


@every_sketch
@pytest.mark.parametrize("ops", [REFERENCE, ONE], ids=["reference", "cpu"])
@given(parts=st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=9), min_size=1, max_size=5))
def test_parts_in_any_order_are_the_whole(name: FamilyName, ops: Backend, parts: list[list[int]]) -> None:
    sketch = ops.set_sketch(Family(name=name, num_perm=17, seed=3))
    whole = sketch.finish(sketch.fold(table([[value for part in parts for value in part]], 0)))
    for order in (parts, parts[::-1], [*parts, parts[0]]):
        states = (sketch.fold(table([part], 1)) for part in order)
        same(sketch.finish(reduce(sketch.merge, states, sketch.empty(1))), whole)


@every_sketch
@given(text=batches(), piece=st.sampled_from([1, 3, 16, 1000]))
def test_documents_in_pieces(name: FamilyName, text: TextBatch, piece: int) -> None:
    family = Family(name=name, num_perm=16)
    wanted = list(operations(REFERENCE, text, Shingling(size=3), family))
    with pieces_of(piece):
        for found, one in zip(operations(ONE, text, Shingling(size=3), family), wanted, strict=True):
            same(found, one)


@every_sketch
@given(text=batches(), unit=st.sampled_from(["word", "char"]))
def test_signing_is_its_steps(name: FamilyName, text: TextBatch, unit: str) -> None:
    family, shingling, shape = Family(name=name, num_perm=12), Shingling(unit=unit, size=2), BandShape(bands=4, rows=3)  # type: ignore[arg-type]
    signatures = sketched(REFERENCE, REFERENCE.shingle(text, shingling), family)
    for ops in (REFERENCE, ONE, CpuBackend(2)):
        same(ops.text_signatures(text, shingling, family), signatures)
        same(ops.sign(text, shingling, family, shape, KEYS).digests, REFERENCE.band_digests(signatures, shape))


def test_rows_behind_a_gap() -> None:
    rows = Fingerprints(np.arange(50, dtype=np.uint64) << np.uint64(58), np.array([7, 30, 41], np.int64))
    for name in NAMES:
        family = Family(name=name, num_perm=9)
        same(sketched(ONE, rows, family), sketched(REFERENCE, rows, family))
