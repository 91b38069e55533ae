"""Signing: text to band digests and the 128-bit hash of its tokens, batch after batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpulsh.account.funnel import Funnel
from gpulsh.account.progress import Progress
from gpulsh.arrays import Signed, TextBatch
from gpulsh.backends.large_alone import each_large_alone
from gpulsh.backends.protocol import Backend
from gpulsh.io.normalize import normalized
from gpulsh.lsh.bit_signing import sign_bits
from gpulsh.method import Method
from gpulsh.secret import EvidenceKeys


def sign_by_method(batch: TextBatch, method: Method, keys: EvidenceKeys, ops: Backend) -> Signed:
    """One batch, by the sketch of the method."""
    if method.near is not None:
        return sign_bits(batch, method.reading, method.near, keys, ops)
    return ops.sign(batch, method.reading, method.family, method.banding, keys)


def sign_batches(
    batches: Iterable[TextBatch], method: Method, keys: EvidenceKeys, ops: Backend, funnel: Funnel, progress: Progress
) -> Iterator[Signed]:
    """The documents of `batches`, signed, their exact hashes under `keys`; counts their bytes."""

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

    def sign(lane: Backend, batch: TextBatch) -> Signed:
        return sign_by_method(batch, method, keys, lane)

    with ops.here():
        yield from each_large_alone(ops, prepared(), sign)
