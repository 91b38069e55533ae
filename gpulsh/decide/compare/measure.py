"""Candidate pairs measured as a method names it: which of them are at or above the threshold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpulsh.arrays import Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.decide.compare.comparison import Measure, compare, estimated, exact, unmeasured
from gpulsh.decide.compare.prefix_join import Edges
from gpulsh.decide.compare.shingled_texts import ShingledTexts
from gpulsh.decide.relation import Relation
from gpulsh.method import Method


def measure_of(method: Method) -> Measure:
    """What `verify` names."""
    if method.verify == "exact":
        return exact
    return estimated(method.family) if method.verify == "signature" else unmeasured


def similar_pairs(
    pairs: Numbers,
    involved: Numbers,
    relation: Relation,
    texts: ShingledTexts,
    method: Method,
    ops: Backend,
    advance: Callable[[int], None],
) -> Edges:
    """Of `pairs` [m, 2] those that count and are at or above the threshold; where nothing is measured, all that count.

    Pairs go by places in decision order, the earlier first; `involved` are the positions there, by which `relation`
    goes, `texts` those of the places.
    """
    pairs = pairs[relation.allows(involved[pairs[:, 0]], involved[pairs[:, 1]])]
    if method.verify == "none":
        return Edges(pairs[:, 0], pairs[:, 1], np.full(len(pairs), np.nan))
    threshold = method.threshold if method.verify == "exact" else 0.0  # sizes bound the Jaccard, not its estimate
    similarity = compare(pairs, texts.sizes(), texts, measure_of(method), threshold, ops, advance)
    return Edges(pairs[:, 0], pairs[:, 1], similarity).where(~(similarity < method.threshold))
