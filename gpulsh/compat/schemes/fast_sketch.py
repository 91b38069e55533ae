"""`gpulsh.compat.FastSketchLSH`: the sketches of FastSketchLSH's `FastSimilaritySketch`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from gpulsh.arrays import Fingerprints, Signatures
from gpulsh.backends.select import BackendName
from gpulsh.compat.schemes.draws import given, mersenne_twister
from gpulsh.compat.schemes.token_sketch import HashSketch
from gpulsh.errors import ParameterError
from gpulsh.params import MAX_SEED, GivenFamily, check_integer, check_type
from gpulsh.permutations import mixed

MOST = 2048  # beyond, a value there has too few bits for its round
_GAMMA = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, kw_only=True)
class FastSketchLSH(HashSketch):
    """What `FastSimilaritySketch(sketch_size, seed)` makes of sets of integers: `num_perm` values, uint64.

    A set goes into the bins in rounds until none is empty (Dahlgaard, Knudsen, Thorup 2017, in the variant that
    `splitmix_rounds` of `gpulsh.backends.protocol.SketchFold` defines). `num_perm` is its `sketch_size`, a power of two
    from 1 to 2048. Called on hashes it takes them as its `sketch_prehashed` does. Checked against FastSketchLSH 1.0.1.

    >>> sketch = FastSketchLSH(num_perm=4)
    >>> integers = Fingerprints(np.array([3, 1, 4], np.uint64), np.array([0, 3]))
    >>> sketch.from_integers(integers, backend="cpu").values.tolist()
    [[3183409341995024, 3177672763772409, 8090213980992690, 7081955186386979]]
    """

    seed: int = 42

    @property
    def functions(self) -> GivenFamily:
        """What the backends make signatures by. ParameterError where a parameter is wrong."""
        if self.num_perm > MOST or self.num_perm & (self.num_perm - 1):
            raise ParameterError(f"num_perm is {self.num_perm}; give a power of two from 1 to {MOST}")
        seed = check_integer("seed", self.seed, 0, MAX_SEED)
        drawn = list(islice(mersenne_twister(seed), 2 * self.num_perm))
        return given("splitmix_rounds", seed, drawn[: self.num_perm], drawn[self.num_perm :])

    def from_integers(
        self, integers: Fingerprints, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Signatures:
        """Of rows of integers below 2^32, `values` uint64 and `offset` int64 [n + 1], which it hashes by SplitMix64."""
        check_type("integers", integers, Fingerprints)
        if len(integers.values) and int(integers.values.max()) >> 32:
            raise ParameterError(f"integers holds {int(integers.values.max())}; give integers below 2^32")
        hashes = Fingerprints(mixed(integers.values + _GAMMA), integers.offset)
        return self(hashes, backend=backend, threads=threads)
