"""Every set sketch is in the tables, and signs documents in pieces on the CPU; its parity is in tests/backends."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.params import SKETCHES, Family, FamilyName, MinHashFamily, Shingling
from gpulsh.sketch.named import SETS
from tests.backends.test_giants import operations, pieces_of
from tests.support.same import same
from tests.support.texts import batches

REFERENCE, ONE = ReferenceBackend(), CpuBackend(1)


def test_every_family_has_a_sketch_of_its_own() -> None:
    assert set(SKETCHES) == set(get_args(FamilyName))
    others = set(get_args(FamilyName)) - set(get_args(MinHashFamily))
    assert {kind.kind for kind in SETS.values()} == {*others, "affine32"}


@given(name=st.sampled_from(sorted(SKETCHES)), text=batches(), piece=st.sampled_from([1, 3, 16, 1000]))
def test_documents_in_pieces(name: FamilyName, text: TextBatch, piece: int) -> None:
    family = Family(name=name, num_perm=16)
    wanted = list(operations(REFERENCE, text, Shingling(size=3), family))
    with pieces_of(piece):
        for found, one in zip(operations(ONE, text, Shingling(size=3), family), wanted, strict=True):
            same(found, one)
