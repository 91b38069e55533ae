"""Every set sketch on the device, against the reference: rows, parts, and documents signed whole and in pieces."""

from __future__ import annotations

import shutil
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.arrays import Fingerprints
from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.cuda.pieces import TextPieces, sign_in_pieces
from gpulsh.backends.cuda.source import kernel_folder
from gpulsh.backends.protocol import sketched
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.backends.reference.sketches import one_permutation
from gpulsh.params import SKETCHES, BandShape, Family, FamilyName, Shingling
from tests.backends.parity.agreement import far_array
from tests.kernels.device_arrays import DeviceModule
from tests.kernels.host import HostLauncher
from tests.kernels.test_parity import LENGTHS, on_device, random_rows, rows_of, tables
from tests.sketch.test_parity import hashed_near_no_value
from tests.support.texts import KEYS, batch_of

pytestmark = pytest.mark.kernels
REFERENCE = ReferenceBackend()
every_sketch = pytest.mark.parametrize("name", list(SKETCHES))


def check(cuda: CudaBackend, rows: Fingerprints, family: Family) -> None:
    found = cuda.asnumpy(sketched(cuda, on_device(cuda, rows), family))
    np.testing.assert_array_equal(found, sketched(REFERENCE, rows, family))
    assert found.dtype == family.value_type


@every_sketch
@pytest.mark.parametrize("columns", [1, 31, 33, 64, 129, 260])
def test_awkward_rows(cuda: CudaBackend, name: FamilyName, columns: int) -> None:
    family = Family(name=name, num_perm=columns, seed=3)
    for lengths in (LENGTHS, [0, 0, 0], [], [2, 2600, 1]):
        check(cuda, random_rows(lengths), family)
    check(cuda, random_rows([0] * 70 + [3] + [0] * 31 + [4] + [0] * 32 + [5] + [0] * 33 + [6] * 40), family)


@pytest.mark.parametrize("columns", [1, 40])
def test_a_hash_of_all_ones_is_a_value_in_one_permutation(cuda: CudaBackend, columns: int) -> None:
    family = Family(name="one_permutation", num_perm=columns)
    check(cuda, rows_of(hashed_near_no_value(family)), family)


@pytest.mark.usefixtures("kernels_built")
def test_bins_that_no_probe_fills_in_one_permutation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many probes as there are none is ever left; so here there are none."""
    folder = tmp_path / "kernels"
    shutil.copytree(kernel_folder(), folder)
    source = (folder / "one_permutation.cu").read_text("utf-8")
    assert source.count("ROUNDS = 64;") == 1
    (folder / "one_permutation.cu").write_text(source.replace("ROUNDS = 64;", "ROUNDS = 0;"), "utf-8")
    monkeypatch.setattr(one_permutation, "ROUNDS", 0)
    cuda = CudaBackend(DeviceModule(), HostLauncher(folder))
    for columns in (2, 33, 70):
        check(cuda, random_rows([1, 0, 2, 5, 30]), Family(name="one_permutation", num_perm=columns))


@every_sketch
@settings(max_examples=25)
@given(tables, st.integers(0, 5), st.integers(1, 140), st.integers(0, 2**64 - 1))
def test_any_rows(
    cuda: CudaBackend, name: FamilyName, rows: list[list[int]], before: int, columns: int, seed: int
) -> None:
    check(cuda, rows_of(rows, before), Family(name=name, num_perm=columns, seed=seed))


@every_sketch
def test_parts_in_any_order_are_the_whole(cuda: CudaBackend, name: FamilyName) -> None:
    family = Family(name=name, num_perm=40)
    sketch, parts = cuda.set_sketch(family), [random_rows([length, 3]) for length in (0, 1, 300)]
    whole = rows_of([[x for part in parts for x in part.values[slice(*part.offset[i : i + 2])]] for i in (0, 1)])
    for order in (parts, parts[::-1], [*parts, parts[1]]):
        states = (sketch.fold(on_device(cuda, part)) for part in order)
        found = sketch.finish(reduce(sketch.merge, states, sketch.empty(2)))
        np.testing.assert_array_equal(cuda.asnumpy(found), sketched(REFERENCE, whole, family))


@every_sketch
def test_rows_beyond_32_bits(cuda: CudaBackend, name: FamilyName) -> None:
    first, rows, family = 2**31 + 3, random_rows([5, 0, 300, 40]), Family(name=name, num_perm=9)
    far = Fingerprints(far_array(cuda, first, rows.values), cuda.asarray(rows.offset + first))
    np.testing.assert_array_equal(cuda.asnumpy(sketched(cuda, far, family)), sketched(REFERENCE, rows, family))


@every_sketch
@pytest.mark.parametrize("unit", ["word", "char"])
def test_documents_whole_and_in_pieces(cuda: CudaBackend, name: FamilyName, unit: str) -> None:
    family, shape = Family(name=name, num_perm=12), BandShape(bands=4, rows=3)
    shingling = Shingling(unit=unit, size=3)  # type: ignore[arg-type]
    documents = [b"", b"one", b"a b", b"a b c d e f " * 30, "漢字 かな हिन्दी ".encode() * 9, b" \xff "]
    signed = cuda.sign(batch_of(documents), shingling, family, shape, KEYS)
    wanted = REFERENCE.sign(batch_of(documents), shingling, family, shape, KEYS)
    np.testing.assert_array_equal(cuda.asnumpy(signed.digests), wanted.digests)
    np.testing.assert_array_equal(cuda.asnumpy(signed.shingles), wanted.shingles)
    pieces = TextPieces(cuda._machine, cuda._unicode(), shingling, cuda._keys_of(None), 20)
    for row, document in enumerate(documents):
        found = sign_in_pieces(pieces, batch_of([document]), cuda._sketch_of(family), shape, cuda._keys_of(KEYS))
        np.testing.assert_array_equal(cuda.asnumpy(found.digests)[0], wanted.digests[row])
