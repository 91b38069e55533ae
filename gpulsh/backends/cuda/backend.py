"""The CUDA operations as one `Backend`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache, partial, wraps
from typing import Any, TypeVar, cast

import numpy as np

from gpulsh.arrays import Array, Buckets, Fingerprints, Signed, TextBatch
from gpulsh.backends.cuda.band_digests import band_digests
from gpulsh.backends.cuda.bitmaps import bitmaps, overlap_bounds
from gpulsh.backends.cuda.candidates import candidates
from gpulsh.backends.cuda.collisions import collisions
from gpulsh.backends.cuda.components import components
from gpulsh.backends.cuda.device import import_cupy, visible_devices, why_unavailable
from gpulsh.backends.cuda.in_order import in_order
from gpulsh.backends.cuda.intersect import intersect
from gpulsh.backends.cuda.lanes import LANES, Lane, Sign
from gpulsh.backends.cuda.launcher import DeviceLauncher, Geometry, Launcher, Machine
from gpulsh.backends.cuda.memory import RESIDENT, free_bytes, text_sizes
from gpulsh.backends.cuda.minhash import minhash
from gpulsh.backends.cuda.pieces import shingle_part, sign_in_pieces
from gpulsh.backends.cuda.prefixes import frequencies, prefixes
from gpulsh.backends.cuda.ranges import collisions_by_range
from gpulsh.backends.cuda.shingle import Table, hash_tokens, shingle_tokens, token_sums
from gpulsh.backends.cuda.sketch import sketch_digests
from gpulsh.backends.cuda.unique import unique
from gpulsh.backends.processors import processors
from gpulsh.backends.protocol import Sizes
from gpulsh.backends.unicode_table import unicode_table
from gpulsh.errors import BackendError
from gpulsh.params import BandShape, Shingling
from gpulsh.permutations import Coefficients


@cache
def _device() -> tuple[Any, DeviceLauncher]:
    """CuPy and the one launcher of this process, so that a kernel is loaded once and not once a call."""
    cupy = import_cupy()
    return cupy, DeviceLauncher(cupy)


Operation = TypeVar("Operation", bound=Callable[..., Any])


def _on_device(operation: Operation) -> Operation:
    """The method with the first device as the current one."""

    @wraps(operation)
    def run(self: CudaBackend, *given: Any) -> Any:
        with self._machine.here():
            return operation(self, *given)

    return cast(Operation, run)


class CudaBackend:
    """Kernels on CUDA devices. Arrays in and out are CuPy's, on the first device and the caller's current stream.

    `devices` are their numbers; None takes all that are visible, the current one first. They share the batches to sign
    and the ranges of digests to sort; every other operation runs on the first. `arrays` and `launcher` replace CuPy and
    the devices together, `geometry` how work is cut: for tests.

    Raises BackendError where CUDA, or one of the devices, does not work.
    """

    name = "cuda"

    def __init__(
        self,
        arrays: Any = None,
        launcher: Launcher | None = None,
        geometry: Geometry | None = None,
        *,
        devices: Sequence[int] | None = None,
    ) -> None:
        if arrays is None or launcher is None:
            reason = why_unavailable()
            if reason is not None:
                raise BackendError(f"CUDA does not work here: {reason}; ask for backend='cpu', or 'auto'")
            arrays, launcher = _device()
        numbers = visible_devices(arrays, devices)
        self._machines = [Machine(arrays, launcher, geometry or Geometry(), number) for number in numbers]
        self._machine = self._machines[0]
        self._table: Table | None = None

    def here(self) -> AbstractContextManager[None]:
        return self._machine.here()

    def sizes(self) -> Sizes:
        with self._machine.here():
            return text_sizes(free_bytes(self._machine.arrays), LANES)

    @_on_device
    def asarray(self, array: Array) -> Array:
        return self._machine.arrays.asarray(array)

    def asnumpy(self, array: Array) -> Array:
        return np.asarray(array.get() if hasattr(array, "get") else array)

    @_on_device
    def shingle(self, text: TextBatch, shingling: Shingling) -> Fingerprints:
        tokens = token_sums(self._machine, self._unicode(), text, shingling)
        return shingle_tokens(self._machine, tokens, shingling.size)

    @_on_device
    def exact_hashes(self, text: TextBatch, shingling: Shingling) -> Array:
        return hash_tokens(self._machine, token_sums(self._machine, self._unicode(), text, shingling))

    @_on_device
    def unique(self, fingerprints: Fingerprints) -> Fingerprints:
        return unique(self._machine, fingerprints)

    @_on_device
    def shingle_sets(self, text: TextBatch, shingling: Shingling) -> Fingerprints:
        return self.unique(self.shingle(text, shingling))

    @_on_device
    def shingle_part(self, text: TextBatch, shingling: Shingling, part: int, parts: int) -> Fingerprints:
        return shingle_part(self._machine, self._unicode(), text, shingling, part, parts, self._piece())

    @_on_device
    def minhash(self, fingerprints: Fingerprints, coefficients: Coefficients) -> Array:
        return minhash(self._machine, fingerprints, coefficients)

    @_on_device
    def band_digests(self, signatures: Array, shape: BandShape) -> Array:
        return band_digests(self._machine, signatures, shape)

    @_on_device
    def collisions(self, digests: Array, ids: Array) -> Buckets:
        if len(self._machines) > 1 and len(ids) >= self._machine.geometry.shared_digests:
            return collisions_by_range(self._machines, digests, ids)
        return collisions(self._machine, digests, ids)

    @_on_device
    def candidates(self, buckets: Buckets) -> Array:
        return candidates(self._machine, buckets)

    @_on_device
    def intersect(self, pairs: Array, fingerprints: Fingerprints) -> tuple[Array, Array]:
        return intersect(self._machine, pairs, fingerprints)

    @_on_device
    def bitmaps(self, fingerprints: Fingerprints) -> Array:
        return bitmaps(self._machine, fingerprints)

    @_on_device
    def overlap_bounds(self, pairs: Array, bitmaps: Array, sizes: Array) -> Array:
        return overlap_bounds(self._machine, pairs, bitmaps, sizes)

    @_on_device
    def components(self, count: int, pairs: Array) -> Array:
        return components(self._machine, count, pairs)

    @_on_device
    def frequencies(self, fingerprints: Fingerprints, counts: Array) -> Array:
        return frequencies(self._machine, fingerprints, counts)

    @_on_device
    def prefixes(self, fingerprints: Fingerprints, counts: Array, lengths: Array) -> Fingerprints:
        return prefixes(self._machine, fingerprints, counts, lengths)

    @_on_device
    def text_frequencies(self, text: TextBatch, shingling: Shingling, counts: Array) -> Array:
        return self.frequencies(self.shingle(text, shingling), counts)

    @_on_device
    def text_signatures(self, text: TextBatch, shingling: Shingling, coefficients: Coefficients) -> Array:
        return self.minhash(self.shingle(text, shingling), coefficients)

    @_on_device
    def sign(self, text: TextBatch, shingling: Shingling, coefficients: Coefficients, shape: BandShape) -> Signed:
        return _sign(self._machine, self._unicode(), text, shingling, coefficients, shape)

    def sign_batches(
        self, batches: Iterable[TextBatch], shingling: Shingling, coefficients: Coefficients, shape: BandShape
    ) -> Iterator[Signed]:
        parameters = (shingling, coefficients, shape)
        with self._machine.here():
            self._machine.arrays.cuda.get_current_stream().synchronize()  # what the caller still computes is read here
            room = int(RESIDENT * free_bytes(self._machine.arrays))
        piece = self._piece()
        with ThreadPoolExecutor(processors()) as copiers:
            lanes = [
                Lane(machine, partial(_signers, machine, parameters, piece), copiers)
                for machine in self._machines
                for _ in range(LANES)
            ]
            for parts in in_order(batches, lanes):
                for signed in parts:
                    arrays = (signed.digests, signed.exact, signed.shingles)
                    room -= sum(array.nbytes for array in arrays)
                    yield Signed(*map(self._brought if room >= 0 else self.asnumpy, arrays))

    def _piece(self) -> int:
        """Bytes of text of a document that is too large for the device to have there at a time."""
        return min(self._machine.geometry.piece_bytes, self.sizes().tile)

    def _brought(self, array: Array) -> Array:
        """An array of any device on the first one."""
        with self._machine.here():
            moved = self._machine.arrays.asarray(array)
            self._machine.arrays.cuda.get_current_stream().synchronize()  # before a lane may reuse the original
            return moved

    def _unicode(self) -> Table:
        if self._table is None:
            self._table = _table(self._machine)
            self._machine.arrays.cuda.get_current_stream().synchronize()  # later calls may use other streams
        return self._table


def _table(machine: Machine) -> Table:
    return Table(*map(machine.arrays.asarray, unicode_table()))


def _sign(
    machine: Machine,
    table: Table,
    text: TextBatch,
    shingling: Shingling,
    coefficients: Coefficients,
    shape: BandShape,
) -> Signed:
    tokens = token_sums(machine, table, text, shingling)
    digests, shingles = sketch_digests(machine, tokens, shingling.size, coefficients, shape)
    return Signed(digests, hash_tokens(machine, tokens), shingles)


def _signers(machine: Machine, parameters: tuple[Shingling, Coefficients, BandShape], piece: int) -> tuple[Sign, Sign]:
    """What a lane signs with: a batch in device memory, and one document on the host in pieces of `piece` bytes."""
    table = _table(machine)
    return (
        lambda batch: _sign(machine, table, batch, *parameters),
        lambda document: sign_in_pieces(machine, table, document, *parameters, piece),
    )
