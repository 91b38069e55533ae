"""Documents that met, compared: all pairs of small buckets, a join over large ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulsh.arrays import Fingerprints
from gpulsh.backends.protocol import Backend
from gpulsh.decide.compare.comparison import compare, exact
from gpulsh.decide.compare.prefix_join import Edges, PrefixJoin
from gpulsh.index.holdings import Holdings
from gpulsh.index.meetings import Meetings
from gpulsh.index.readable import TEXT_BYTES, HeldDocuments, of_both
from gpulsh.index.segments.segment import Numbers


@dataclass(frozen=True)
class Compared:
    """Pairs at or above the threshold, in places of `Meetings`: found ones, and those that `join` will find."""

    documents: int
    small: Edges
    join: PrefixJoin | None
    crowd: Numbers  # the places that `join` goes by


def compared(met: Meetings, sets: Fingerprints, holdings: Holdings, threshold: float, ops: Backend) -> Compared:
    """`sets` are the unique fingerprints of the arriving documents; the held ones stay, whatever they resemble."""
    base = len(met.held)

    def read(places: Numbers) -> Fingerprints:
        return of_both(places, base, lambda old: holdings.fingerprints(met.held[old]), sets)

    sizes = np.concatenate([holdings.sizes(met.held), np.diff(sets.offset)])
    text_sizes = sizes * TEXT_BYTES
    documents = HeldDocuments(read, np.arange(len(sizes)), ops)
    pairs, crowd = met.collisions.pairs, met.collisions.crowded
    similarity = compare(pairs, text_sizes, documents, exact, threshold, ops, lambda done: None)
    small = Edges(pairs[:, 0], pairs[:, 1], similarity).where(similarity >= threshold)
    join = None
    if len(crowd):
        join = PrefixJoin(
            crowd,
            met.collisions,
            documents.renumbered(crowd),
            text_sizes[crowd],
            exact,
            threshold,
            ops,
            exact=True,
            allows=lambda earlier, later: later >= base,  # held documents stay
        )
    return Compared(len(sizes), small, join, crowd)
