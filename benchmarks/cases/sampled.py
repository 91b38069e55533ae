"""Checks of corpora too large for all pairs: the witnesses of sampled dropped documents, by exact Jaccard."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks import truth
from benchmarks.score import witnesses

SAMPLE = 20_000


def texts_at(path: str, rows: NDArray[np.int64]) -> list[str]:
    return list(pq.read_table(path, columns=["text"])["text"].take(rows).to_pylist())


def sampled_witnesses(path: str, threshold: float, answer: dict[str, Any]) -> dict[str, Any]:
    keep, witness = answer["keep"], answer["witness"]
    dropped = np.flatnonzero(~keep)
    chosen = np.sort(np.random.default_rng(1).permutation(dropped)[:SAMPLE])
    rows = np.unique(np.concatenate([chosen, witness[chosen]]))
    values, offset = truth.shingle_sets(texts_at(path, rows))
    pairs = np.stack([np.searchsorted(rows, chosen), np.searchsorted(rows, witness[chosen])], axis=1)
    exact = truth.jaccard(values, offset, pairs)
    in_sample = np.ones(len(keep), bool)
    in_sample[chosen] = False
    found = {"documents": len(keep), "dropped": len(dropped), "witnesses_checked": len(chosen)}
    found |= witnesses(threshold, in_sample, witness, answer["similarity"][chosen], exact)
    # in_sample marks all but the chosen as kept; whether the witnesses are is a question for the true mask.
    found["witness_not_kept"] = int((~keep[witness[dropped]]).sum())
    return found


def kept_pairs(path: str, keep: NDArray[np.bool_], threshold: float, documents: int) -> dict[str, Any]:
    """All pairs of a sample of kept documents: how many are duplicates after all."""
    kept = np.flatnonzero(keep)
    chosen = np.sort(np.random.default_rng(2).permutation(kept)[:documents])
    values, offset = truth.shingle_sets(texts_at(path, chosen))
    pairs, similarity = truth.similar_pairs(values, offset, 0.5)
    return {
        "kept_sampled": len(chosen),
        "sampled_pairs": len(chosen) * (len(chosen) - 1) // 2,
        "median_jaccard_of_those_at_0.5": round(float(np.median(similarity)), 3) if len(pairs) else None,
        "both_kept_at_threshold": int((similarity >= threshold).sum()),
    }
