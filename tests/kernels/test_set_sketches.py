"""Set sketches by kernels: documents in pieces, and what no input is known to reach. Parity is in tests/backends."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.cuda.launcher import kernel_folder
from gpulsh.backends.cuda.sign import Signer, TextPieces
from gpulsh.backends.protocol import sketched
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.backends.reference.sketches import one_permutation
from gpulsh.params import SKETCHES, BandShape, Family, FamilyName, Shingling, Unit
from tests.kernels.device_arrays import DeviceModule
from tests.kernels.host import HostLauncher
from tests.support.rows import random_table
from tests.support.same import same
from tests.support.texts import KEYS, batch_of

pytestmark = pytest.mark.kernels
REFERENCE = ReferenceBackend()


@pytest.mark.usefixtures("kernels_built")
def test_bins_that_no_probe_fills_in_one_permutation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many probes as there are none is ever left; so here there are none."""
    folder = tmp_path / "kernels"
    shutil.copytree(kernel_folder(), folder)
    source = (folder / "one_permutation.cu").read_text("utf-8")
    assert source.count("ROUNDS = 64;") == 1
    (folder / "one_permutation.cu").write_text(source.replace("ROUNDS = 64;", "ROUNDS = 0;"), "utf-8")
    monkeypatch.setattr(one_permutation, "ROUNDS", 0)
    cuda, rows = CudaBackend(DeviceModule(), HostLauncher(folder)), random_table([1, 0, 2, 5, 30])
    for columns in (2, 33, 70):
        family = Family(name="one_permutation", num_perm=columns)
        same(sketched(cuda, rows.moved(cuda.asarray), family), sketched(REFERENCE, rows, family), cuda.asnumpy)


@pytest.mark.parametrize("name", list(SKETCHES))
@pytest.mark.parametrize("unit", ["word", "char"])
def test_documents_in_pieces(cuda: CudaBackend, name: FamilyName, unit: Unit) -> None:
    family, shape, shingling = Family(name=name, num_perm=12), BandShape(bands=4, rows=3), Shingling(unit=unit, size=3)
    documents = [b"", b"one", b"a b", b"a b c d e f " * 30, "漢字 かな हिन्दी ".encode() * 9, b" \xff "]
    pieces = TextPieces(cuda._machine, cuda._unicode(shingling), shingling, cuda._keys_of(None), 20)
    for document in documents:
        text = batch_of([document])
        found = Signer(pieces, cuda._staging, cuda._sketch_of(family), shape, cuda._keys_of(KEYS)).in_pieces(text)
        same(found.digests, REFERENCE.sign(text, shingling, family, shape, KEYS).digests, cuda.asnumpy)
