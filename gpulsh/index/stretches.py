"""Find the stretches of a text whose shingles are in a held document, for `Index.find`.

An index stores the shingles of a document as a set, without their order. By containment it looks up the documents of
each shingle; otherwise it reads the sets of all held documents, in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.backends.protocol import Backend
from gpulsh.checks import MAX_INT64, check_integer
from gpulsh.errors import ParameterError
from gpulsh.index.answers import Stretches
from gpulsh.index.keys import as_numpy
from gpulsh.index.snapshot import Snapshot
from gpulsh.io.memory.texts import open_texts
from gpulsh.method import Method
from gpulsh.ragged import expand_ranges, find_sorted, first_of_runs, last_of_runs, offsets, row_of, row_ranges
from gpulsh.repeats.places import byte_spans
from gpulsh.secret import EvidenceKeys
from gpulsh.text.documents import Documents

READ_AT_ONCE = 1 << 21  # fingerprints


def find_stretches(
    text: bytes, least: int | None, snapshot: Snapshot, method: Method, evidence: EvidenceKeys, ops: Backend
) -> Stretches:
    """`Index.find` of a text as UTF-8; `least` is its `tokens`."""
    size = method.backend_shingling.size
    if method.backend_shingling.changes_words:
        raise ParameterError(
            "the index removes or replaces words, so its shingles have no place in a text; build one without stop,"
            " stem and anchor"
        )
    least = 1 if least is None else check_integer("tokens", least, 1, MAX_INT64)
    source = open_texts(pa.array([text], pa.large_binary()), ops)
    reading = Documents(source=source, shingling=method.backend_shingling, folding=method.folding, ops=ops)
    (batch,) = reading.batches()
    shingles: NDArray[np.uint64] = ops.asnumpy(ops.shingle(batch, reading.shingling, evidence).values)
    length = min(size, int(ops.asnumpy(ops.tokens(batch, reading.shingling).lengths)[0]))
    values, which = np.unique(shingles, return_inverse=True)
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64)), *_held_documents(values, snapshot, method, ops)]
    place, number = (np.concatenate(column) for column in zip(*parts, strict=True))

    counts = np.bincount(which, minlength=len(values))
    at = np.argsort(which, kind="stable")[expand_ranges(offsets(counts)[place], counts[place])]
    number = np.repeat(number, counts[place])
    order = np.lexsort((at, number))
    at, number = at[order], number[order]
    fresh = first_of_runs(number)
    fresh[1:] |= at[1:] != at[:-1] + 1
    first, last = at[fresh], at[last_of_runs(fresh)] + length - 1
    long = last - first + 1 >= least
    first, last, number = first[long], last[long], number[fresh][long]
    batch = TextBatch(np.frombuffer(text, np.uint8), np.array([0, len(text)]))
    start, stop = byte_spans(reading, batch, np.zeros_like(first), first, last + 1).T
    some = stop > start  # marks that a normal form puts in another order have no bytes of their own
    keys = as_numpy(snapshot.keys(number[some]))
    return Stretches(keys, start[some], stop[some], (last - first + 1)[some])


def _held_documents(
    values: NDArray[np.uint64], snapshot: Snapshot, method: Method, ops: Backend
) -> Iterator[tuple[Numbers, Numbers]]:
    """Places in ascending `values`, and the numbers of held documents that have them."""
    if not len(values):
        return
    if method.measure == "containment":
        yield snapshot.documents_with(np.zeros(len(values), np.int64), values)
        return
    for segment in snapshot.segments:
        documents = segment.documents
        is_held = segment.is_live(snapshot.removed) & (documents.witness == documents.number) & (documents.size > 0)
        rows = np.flatnonzero(is_held)
        for start, stop in row_ranges(offsets(documents.size[rows]), READ_AT_ONCE):
            numbers = documents.number[rows[start:stop]]
            sets = snapshot.fingerprints(numbers, ops)
            found, place = find_sorted(values, sets.values)
            yield place, numbers[row_of(sets.offset, found)]
            segment.release()
