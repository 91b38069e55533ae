"""Signing: text to band digests and the 128-bit hash of its tokens, batch after batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from gpulsh.arrays import Signed, TextBatch
from gpulsh.backends.parallel import map_batches
from gpulsh.backends.protocol import Backend
from gpulsh.io.normalize import normalized
from gpulsh.lsh.bit_signing import sign_bits
from gpulsh.method import Method
from gpulsh.secret import EvidenceKeys
from gpulsh.stats.stages import Funnel, Progress

Result = TypeVar("Result")
Sign = Callable[[TextBatch, Method, EvidenceKeys, Backend], Result]


def sign_by_method(batch: TextBatch, method: Method, keys: EvidenceKeys, ops: Backend) -> Signed:
    """One batch, by the sketch of the method."""
    if method.near is not None:
        return sign_bits(batch, method.reading, method.near, keys, ops)
    return ops.sign(batch, method.reading, method.family, method.banding, keys)


def sign_batches(
    batches: Iterable[TextBatch],
    method: Method,
    keys: EvidenceKeys,
    ops: Backend,
    funnel: Funnel,
    progress: Progress,
    by: Sign[Result],
) -> Iterator[Result]:
    """The documents of `batches`, signed `by` a function, their exact hashes under `keys`; counts their bytes."""

    def prepared() -> Iterator[TextBatch]:
        for batch in batches:
            size, count = int(batch.offset[-1] - batch.offset[0]), len(batch)
            ready = normalized(batch, method.folding.form)
            del batch
            yield ready
            del ready  # before the next one is read
            funnel.bytes += size
            progress.advance(size)
            progress.count(documents=count)

    with ops.here():
        yield from map_batches(ops, prepared(), lambda lane, batch: by(batch, method, keys, lane))
