"""`Index` on the CUDA backend: what it asks of arrays, CuPy's can do, and it decides as the reference does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpulsh
from gpulsh.backends.cuda import CudaBackend
from gpulsh.index import index as index_module
from gpulsh.index import meetings
from tests.kernels.cuts import WHERE, selecting
from tests.kernels.test_pipeline import texts

DEFAULT_CUT = [where for where in WHERE if where.endswith("-default")]
pytestmark = [pytest.mark.kernels, pytest.mark.parametrize("cuda", DEFAULT_CUT, indirect=True)]


@pytest.mark.parametrize("crowded", [2, 64])
def test_index(cuda: CudaBackend, crowded: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(index_module, "select_backend", selecting(cuda))
    monkeypatch.setattr(meetings, "CROWDED", crowded)
    documents = texts(40)
    wanted = gpulsh.deduplicate(documents, backend="reference", threshold=0.5)
    index = gpulsh.Index(backend="cuda", threshold=0.5)
    first = index.add(range(20), documents[:20])
    index.save(tmp_path / "i")
    second = index.add(range(20, len(documents)), documents[20:])
    assert [*first.duplicate_of.tolist(), *second.duplicate_of.tolist()] == wanted.duplicate_of.tolist()
    assert not wanted.keep.all()
    index.save()
    other = gpulsh.Index.open(tmp_path / "i", backend="reference")
    for one, same in zip(vars(index.query(documents)).values(), vars(other.query(documents)).values(), strict=True):
        np.testing.assert_array_equal(one, same)
    index.close()
