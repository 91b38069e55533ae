"""The CUDA operations as one `Backend`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from gpulsh.arrays import Array, Buckets, Fingerprints, Signed, TextBatch
from gpulsh.backends.cuda.band_digests import band_digests
from gpulsh.backends.cuda.bitmaps import bitmaps, overlap_bounds
from gpulsh.backends.cuda.candidates import candidates
from gpulsh.backends.cuda.collisions import collisions
from gpulsh.backends.cuda.components import components
from gpulsh.backends.cuda.device import import_cupy, why_unavailable
from gpulsh.backends.cuda.intersect import intersect
from gpulsh.backends.cuda.launcher import DeviceLauncher, Geometry, Launcher, Machine
from gpulsh.backends.cuda.minhash import minhash
from gpulsh.backends.cuda.pieces import shingle_part
from gpulsh.backends.cuda.prefixes import frequencies, prefixes
from gpulsh.backends.cuda.shingle import Table, hash_tokens, shingle_tokens, token_sums
from gpulsh.backends.cuda.sketch import sketch_digests
from gpulsh.backends.cuda.unique import unique
from gpulsh.backends.unicode_table import unicode_table
from gpulsh.errors import BackendError
from gpulsh.params import BandShape, Shingling
from gpulsh.permutations import Coefficients


@cache
def _device() -> tuple[Any, DeviceLauncher]:
    """CuPy and the one launcher of this process, so that a kernel is loaded once and not once a call."""
    cupy = import_cupy()
    return cupy, DeviceLauncher(cupy)


class CudaBackend:
    """Kernels on the current CUDA device. Arrays in and out are CuPy's.

    `arrays` and `launcher` replace CuPy and the device together, `geometry` how work is cut: for tests.
    Raises BackendError where CUDA does not work.
    """

    name = "cuda"

    def __init__(self, arrays: Any = None, launcher: Launcher | None = None, geometry: Geometry | None = None) -> None:
        if arrays is None or launcher is None:
            reason = why_unavailable()
            if reason is not None:
                raise BackendError(f"CUDA does not work here: {reason}; ask for backend='cpu', or 'auto'")
            arrays, launcher = _device()
        self._machine = Machine(arrays, launcher, geometry or Geometry())
        self._table: Table | None = None

    def asarray(self, array: Array) -> Array:
        return self._machine.arrays.asarray(array)

    def asnumpy(self, array: Array) -> Array:
        return np.asarray(array.get() if hasattr(array, "get") else array)

    def shingle(self, text: TextBatch, shingling: Shingling) -> Fingerprints:
        tokens = token_sums(self._machine, self._unicode(), text, shingling)
        return shingle_tokens(self._machine, tokens, shingling.size)

    def exact_hashes(self, text: TextBatch, shingling: Shingling) -> Array:
        return hash_tokens(self._machine, token_sums(self._machine, self._unicode(), text, shingling))

    def unique(self, fingerprints: Fingerprints) -> Fingerprints:
        return unique(self._machine, fingerprints)

    def shingle_sets(self, text: TextBatch, shingling: Shingling) -> Fingerprints:
        return self.unique(self.shingle(text, shingling))

    def shingle_part(self, text: TextBatch, shingling: Shingling, part: int, parts: int) -> Fingerprints:
        size = self._machine.geometry.piece_bytes
        return shingle_part(self._machine, self._unicode(), text, shingling, part, parts, size)

    def minhash(self, fingerprints: Fingerprints, coefficients: Coefficients) -> Array:
        return minhash(self._machine, fingerprints, coefficients)

    def band_digests(self, signatures: Array, shape: BandShape) -> Array:
        return band_digests(self._machine, signatures, shape)

    def collisions(self, digests: Array, ids: Array) -> Buckets:
        return collisions(self._machine, digests, ids)

    def candidates(self, buckets: Buckets) -> Array:
        return candidates(self._machine, buckets)

    def intersect(self, pairs: Array, fingerprints: Fingerprints) -> tuple[Array, Array]:
        return intersect(self._machine, pairs, fingerprints)

    def bitmaps(self, fingerprints: Fingerprints) -> Array:
        return bitmaps(self._machine, fingerprints)

    def overlap_bounds(self, pairs: Array, bitmaps: Array, sizes: Array) -> Array:
        return overlap_bounds(self._machine, pairs, bitmaps, sizes)

    def components(self, count: int, pairs: Array) -> Array:
        return components(self._machine, count, pairs)

    def frequencies(self, fingerprints: Fingerprints, counts: Array) -> Array:
        return frequencies(self._machine, fingerprints, counts)

    def prefixes(self, fingerprints: Fingerprints, counts: Array, lengths: Array) -> Fingerprints:
        return prefixes(self._machine, fingerprints, counts, lengths)

    def text_frequencies(self, text: TextBatch, shingling: Shingling, counts: Array) -> Array:
        return self.frequencies(self.shingle(text, shingling), counts)

    def text_signatures(self, text: TextBatch, shingling: Shingling, coefficients: Coefficients) -> Array:
        return self.minhash(self.shingle(text, shingling), coefficients)

    def sign(self, text: TextBatch, shingling: Shingling, coefficients: Coefficients, shape: BandShape) -> Signed:
        tokens = token_sums(self._machine, self._unicode(), text, shingling)
        digests, shingles = sketch_digests(self._machine, tokens, shingling.size, coefficients, shape)
        return Signed(digests, hash_tokens(self._machine, tokens), shingles)

    def _unicode(self) -> Table:
        if self._table is None:
            self._table = Table(*map(self._machine.arrays.asarray, unicode_table()))
        return self._table
