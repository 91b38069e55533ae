"""`gpulsh.BottomS`: the least of a set under one permutation, Broder's MIN_s."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Samples
from gpulsh.backends.protocol import Backend
from gpulsh.params import set_integer
from gpulsh.ragged import counted, offsets, rows_at
from gpulsh.sketch.samples.sample_sketch import SampleSketch


@dataclass(frozen=True, kw_only=True)
class BottomS(SampleSketch):
    """The `size` least permuted fingerprints of each set, all of a smaller one.

    The estimate of resemblance is the share, among the `size` least of the union, of those in both: unbiased, and exact
    where the union has no more than `size`; of two empty documents it is 0. Source: Broder 1997, *On the resemblance
    and containment of documents*, theorem 1. Raises ParameterError for `size` outside 1 to 2^31.

    >>> from gpulsh.text.shingling import shingle
    >>> sketch = BottomS(size=100)
    >>> samples = sketch(shingle(["a b c d e f", "a b c d e g", ""], backend="cpu"), backend="cpu")
    >>> sketch.estimate(samples, [[0, 1], [0, 2]], backend="cpu")
    array([0.33333333, 0.        ])
    """

    size: int = 128
    stream: ClassVar[str] = "bottom_s"

    def __post_init__(self) -> None:
        super().__post_init__()
        set_integer(self, "size", 1, 2**31)

    def _sampled(self, permuted: Fingerprints) -> Samples:
        return Samples(*self._least(permuted.values, permuted.offset))

    def _shared(self, samples: Samples, pairs: Array, ops: Backend) -> tuple[Array, Array]:
        """What is in both, of the least of the union, is in the two samples twice."""
        two = rows_at(samples, pairs.reshape(-1))
        together = Fingerprints(two.values, two.offset[::2].copy())
        union = ops.unique(together)
        sizes = np.minimum(union.lengths, self.size)
        some = sizes > 0
        last = np.where(some, union.offset[:-1] + sizes - 1, 0)
        greatest = union.values[last] if len(union.values) else np.zeros(len(pairs), np.uint64, like=union.values)
        row = np.searchsorted(together.offset, np.arange(len(together.values), like=pairs), side="right") - 1
        within = counted(together.values <= greatest[row], together.offset)
        return within - sizes, np.maximum(sizes, 1)  # nothing is sampled only where nothing is there: 0, no NaN

    def _variance(self, value: float, size: int | None) -> float:
        """Of a sample without replacement."""
        independent = value * (1 - value) / self.size
        if size is None:
            return independent
        return independent * (size - self.size) / (size - 1) if size > self.size else 0.0

    def _least(self, values: Array, offset: Array) -> tuple[Array, Array]:
        cut = offsets(np.minimum(np.diff(offset), self.size))
        place = np.arange(int(cut[-1]), like=offset)
        row = np.searchsorted(cut, place, side="right") - 1
        return values[place - cut[row] + offset[row]], cut
