"""What is made of weighted rows on the device is what the CPU makes of them, from texts to estimates."""

from __future__ import annotations

import numpy as np
import pytest

import gpulsh
from gpulsh.backends import select
from gpulsh.backends.cuda import CudaBackend

pytestmark = pytest.mark.kernels
SKETCHES = ("vectors", "weighted_minhash", "kleinberg_tardos", "earth_mover")


@pytest.fixture
def everywhere(cuda: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> CudaBackend:
    """`backend="cuda"` means this one."""
    homes = ["lsh.similarity", "text.documents", "sketch.signature_sketch"]
    for module in (*homes, *(f"sketch.weighted.{name}" for name in SKETCHES)):
        monkeypatch.setattr(f"gpulsh.{module}.select_backend", lambda name, **_: cuda, raising=False)
    return cuda


def test_the_public_way(everywhere: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda, texts = everywhere, ["a b a b c", "b c d", None, "a a a"]
    shingling, pairs = gpulsh.Shingling(size=1), [[0, 1], [0, 3], [0, 2]]
    sketch = gpulsh.WeightedMinHash(num_perm=16)
    dense = np.array([[1.0, 0.0, 2.5], [0.0, 0.0, 0.0], [3.0, 1.0, 2.5]])
    metric = abs(np.arange(3)[:, None] - np.arange(3.0))
    mover, masses = gpulsh.EarthMover(metric, num_trees=5), np.array([[0.5, 0.5, 0], [0, 0.25, 0.75]])

    def all_of_it() -> list[np.ndarray]:
        rows = gpulsh.weigh(texts, "idf", shingling=shingling)
        signatures, labels = sketch(rows), mover(masses)
        found = [
            *(rows.values, rows.weight, rows.offset, gpulsh.jaccard(rows, pairs), gpulsh.cosine(rows, pairs)),
            signatures.values,
            *(sketch.estimate(signatures, pairs), sketch.from_texts(texts, shingling=shingling).values),
            *(sketch(dense).values, gpulsh.KleinbergTardos(num_perm=9)(dense).values),
            *(labels, mover.estimate(labels, [[0, 1], [0, 0]])),
        ]
        return [np.asarray(one) if isinstance(one, np.ndarray) else cuda.asnumpy(one) for one in found]

    there = all_of_it()
    monkeypatch.undo()
    monkeypatch.setattr(select, "_cuda_unavailable", lambda: "not here")
    for one, other in zip(there, all_of_it(), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
