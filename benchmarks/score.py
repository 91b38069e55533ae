"""How good an engine's decision is, judged by all true pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Truth:
    """All pairs i < j of n documents with exact Jaccard at or above a floor: pairs int64 [m, 2], similarity f64 [m]."""

    n: int
    pairs: NDArray[np.int64]
    similarity: NDArray[np.float64]

    def at(self, threshold: float) -> NDArray[np.int64]:
        return self.pairs[self.similarity >= threshold]

    def look_up(self, i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.float64]:
        """Similarity of given pairs, 0 where it is below the floor."""
        keys = self.pairs[:, 0] * self.n + self.pairs[:, 1]
        order = np.argsort(keys)
        wanted = np.minimum(i, j) * self.n + np.maximum(i, j)
        at = np.minimum(np.searchsorted(keys[order], wanted), max(0, len(keys) - 1))
        if not len(keys):
            return np.zeros(len(wanted))
        return np.where(keys[order][at] == wanted, self.similarity[order][at], 0.0)


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 5) if whole else None


def score(truth: Truth, threshold: float, keep: NDArray[np.bool_]) -> dict[str, Any]:
    """Pairs resolved (at most one of both kept) and what became of the dropped documents."""
    pairs = truth.at(threshold)
    has_duplicate = np.zeros(truth.n, bool)
    has_duplicate[pairs.ravel()] = True
    has_kept_duplicate = np.zeros(truth.n, bool)
    has_kept_duplicate[pairs[keep[pairs[:, 1]], 0]] = True
    has_kept_duplicate[pairs[keep[pairs[:, 0]], 1]] = True
    dropped = int((~keep).sum())
    return {
        "dropped": dropped,
        "true_pairs": len(pairs),
        "true_pairs_resolved": _share(int((~(keep[pairs[:, 0]] & keep[pairs[:, 1]])).sum()), len(pairs)),
        "dropped_with_true_duplicate": _share(int((~keep & has_duplicate).sum()), dropped),
        "dropped_with_kept_true_duplicate": _share(int((~keep & has_kept_duplicate).sum()), dropped),
    }


def witnesses(
    threshold: float,
    keep: NDArray[np.bool_],
    witness: NDArray[np.int64],
    reported: NDArray[np.floating[Any]],
    exact: NDArray[np.float64],
) -> dict[str, Any]:
    """Every dropped document's witness must be kept and similar. exact and reported are for the dropped, in order."""
    dropped = np.flatnonzero(~keep)
    return {
        "witness_not_kept": int((~keep[witness[dropped]]).sum()),
        "witness_below_threshold": int((exact < threshold).sum()),
        "reported_similarity_wrong": int((np.abs(reported - exact) > 1e-6).sum()),
    }
