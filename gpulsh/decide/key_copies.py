"""Puts documents back that were left out of the comparison, because an earlier one has the same key.

The text of such a copy is not compared. It is dropped for the first document with its key where that is kept, otherwise
for the witness of that one. Its similarity is NaN: nothing was measured.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpulsh.arrays import Array
from gpulsh.backends.protocol import Backend
from gpulsh.decide.decision import Decision


def with_key_copies(decision: Decision, later: Array, first: Array, ops: Backend) -> Decision:
    """The decision with the copies `later` [c] of `first` [c], which were decided as documents that meet nobody.

    Each joins the cluster of its first document; no pair is added. The counts of the funnel are changed in place.
    """
    funnel = decision.funnel
    funnel.key_copies = len(later)
    funnel.dropped += len(later)
    funnel.kept -= len(later)
    keep, target, similarity = decision.keep.copy(), decision.duplicate_of.copy(), decision.similarity.copy()
    keep[later], target[later], similarity[later] = False, target[first], np.float32(np.nan)
    exact_copy = decision.exact_copy.copy()
    exact_copy[later] = target[first] == first  # counts take it as a copy
    edges = np.concatenate([decision.pairs, np.stack([first, later], axis=1)])
    cluster = ops.components(len(keep), edges)
    found = {"duplicate_of": target, "similarity": similarity, "cluster": cluster, "exact_copy": exact_copy}
    return replace(decision, keep=keep, **found)
