"""`gpulsh.weigh`: the fingerprints of documents' shingles with weights, by how often and in how many documents."""

from __future__ import annotations

from math import log
from typing import Literal, get_args

import numpy as np

from gpulsh.arrays import Fingerprints, WeightedFingerprints
from gpulsh.backends.protocol import Backend
from gpulsh.backends.select import BackendName
from gpulsh.params import Folding, Shingling, check_choice
from gpulsh.ragged import end_to_end
from gpulsh.text.documents import Documents

Weights = Literal["count", "idf"]


def weigh(
    texts: object,
    weights: Weights = "count",
    *,
    shingling: Shingling | str | None = None,
    folding: Folding | None = None,
    backend: BackendName = "auto",
    threads: int | None = None,
) -> WeightedFingerprints:
    """The distinct fingerprints of every document's shingles, ascending, with a weight each.

    `texts` is any kind that `deduplicate` takes. "count" weighs a shingle by how often its document has it, "idf" by
    that times ln((n + 1) / df), where df of the n documents given, empty ones and nulls included, have it: tf-idf
    (Salton, Buckley 1988), with one document more, so that what all have still weighs something. `SimHash` weighs by
    the same names alike, but for the logarithm's base and rounding. Returns WeightedFingerprints: `values` uint64
    [nnz], `weight` float64 [nnz], `offset` int64 [n + 1], on the backend's device; a null document has an empty row.

    Raises InputTypeError where a row is no text, BackendError where CUDA was asked for and does not work.

    >>> rows = weigh(["to be or not to be"], shingling=Shingling(size=1), backend="cpu")
    >>> sorted(rows.weight.tolist())
    [1.0, 1.0, 2.0, 2.0]
    """
    check_choice("weights", weights, get_args(Weights))
    documents = Documents.opened(texts, shingling, folding, backend, threads)
    ops = documents.ops
    parts = [ops.occurrences(rows) for rows in documents.fingerprints()]
    with ops.here():
        rows = end_to_end([Fingerprints(part.values, part.offset) for part in parts])
        counted = WeightedFingerprints(rows.values, np.concatenate([part.weight for part in parts]), rows.offset)
        return counted if weights == "count" else _by_rarity(counted, ops)


def _by_rarity(rows: WeightedFingerprints, ops: Backend) -> WeightedFingerprints:
    count, ordered = len(rows), np.sort(rows.values)
    frequency = np.searchsorted(ordered, rows.values, side="right") - np.searchsorted(ordered, rows.values, side="left")
    rarity = np.zeros(count + 1)  # by frequency; from the host's logarithm on every backend
    for found in np.unique(ops.asnumpy(frequency)).tolist():
        rarity[found] = log((count + 1) / found)
    return WeightedFingerprints(rows.values, rows.weight * ops.asarray(rarity)[frequency], rows.offset)
