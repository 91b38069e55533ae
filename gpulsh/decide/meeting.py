"""Compares and resolves documents that share buckets: one decision for runs in memory, runs over files, and indexes.

    shared buckets -> pairs of small buckets -> bounds -> exact intersection -> similar pairs   (`similar_pairs`)
                   -> kept documents, block by block with the pairs of large buckets            (`resolve`)
                   -> the witness of each dropped document                                      (`find_witnesses`)

The kept documents are the lexicographically first maximal set without duplicates: a document is dropped exactly when an
earlier kept one is its duplicate. A definition leaves nothing to the order of work. `settle` decides in rounds all
documents whose earlier neighbours are decided (Blelloch, Fineman, Shun 2012: random orders take few rounds), and walks
what long chains leave.

The callers know which documents share buckets, and how to read their fingerprints: a run shingles its texts again
(`decide.decide`), and an index holds sets of fingerprints (`index.admission`). All is array code, in the memory of the
backend; only the documents of large buckets and these long chains pass through the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gpulsh.arrays import Array, Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.cached import cached_value
from gpulsh.decide.compare import compare, measure_of
from gpulsh.decide.containment import ContainmentJoin
from gpulsh.decide.edges import NO_RULES, DropRules, Edges, PairSampler
from gpulsh.decide.fingerprint_source import FingerprintSource, ShingledTexts
from gpulsh.decide.large_buckets import LargeBucketJoin
from gpulsh.lsh.collisions import Collisions
from gpulsh.lsh.pairs import lexicographic_order, pack_pairs, radix_order, renumber, select_pairs, unpack_pairs
from gpulsh.method import Method
from gpulsh.ragged import first_of_runs, offsets, run_bounds, slice_between
from gpulsh.stats.stages import Advance, no_progress

UNDECIDED, KEPT, DROPPED = 0, 1, 2
ROUNDS = 64
WALKED_AT_ONCE = 1 << 16  # pairs as Python's numbers


class Resolved(NamedTuple):
    """Which places are kept, and the verified pairs.

    Near-copies on both sides of a rule make a pair for each two of them. So where all pairs are not wanted, `edges` has
    each dropped place with its witness and with a protected place, and `stars` connects what the pairs connect.
    """

    kept: Array  # bool [v]
    pairs: int  # how many were verified
    edges: Edges
    stars: Array | None = None  # int64 [m, 2]; None: `edges` has all pairs

    @property
    def connecting(self) -> Array:
        """int64 [m, 2]: pairs that connect the same places as all verified pairs."""
        return np.stack([self.edges.earlier, self.edges.later], axis=1) if self.stars is None else self.stars


@dataclass(frozen=True)
class Meeting:
    """Documents that share a bucket with others, by place: 0, 1, ... in decision order."""

    collisions: Collisions
    numbers: Array  # int64 [v] distinct: the number of each place in `collisions` and `rules`
    rules: DropRules
    texts: FingerprintSource  # by place
    method: Method
    ops: Backend
    is_connected: bool = False  # whether they are one component; `collisions` may lack some of its pairs

    @cached_value
    def places(self) -> Array:
        """int64: the place of each of `numbers`."""
        numbers = self.numbers
        places = np.empty(int(numbers.max()) + 1 if len(numbers) else 0, np.int64, like=numbers)
        places[numbers] = np.arange(len(numbers), like=numbers)
        return places

    @cached_value
    def drop_rules(self) -> DropRules:
        """The rules, and the distance of bits that the method adds."""
        near, texts, ops = self.method.also, self.texts, self.ops
        rules = self.rules.moved(ops.asarray)
        if near is None or not isinstance(texts, ShingledTexts):
            return rules
        words = [ops.asarray(np.empty((0, near.bits // 64), np.uint64))]
        begins = offsets(texts.text_sizes())[:-1]
        starts = ops.asnumpy(np.flatnonzero(first_of_runs(begins // ops.sizes().batch))).tolist()
        for start, stop in pairwise([*starts, len(begins)]):  # no array of documents crosses to the host
            words.append(texts.simhash(np.arange(start, stop, like=self.numbers), near))
        return replace(rules, words=np.concatenate(words), places=self.places, distance=near.distance)

    def similar_pairs(
        self, advance: Advance = no_progress, sampler: PairSampler | None = None, some: Array | None = None
    ) -> Edges:
        """The allowed pairs of small buckets at or above the threshold; all of them without a measure.

        `some` [m, 2] are a part of them, by number. `sampler` draws from the allowed pairs, except by containment:
        there the cut of the work changes the candidates.
        """
        pairs = self._in_order(self.collisions.pairs if some is None else some)
        numbers, method, ops = self.numbers, self.method, self.ops
        if self.drop_rules is not NO_RULES:
            pairs = select_pairs(pairs, self.drop_rules.allows(numbers[pairs[:, 0]], numbers[pairs[:, 1]]))
        if method.verify == "none":
            return Edges(pairs[:, 0], pairs[:, 1], np.full_like(pairs[:, 0], np.nan, np.float64))
        bounded = method.verify == "exact" and method.measure == "jaccard"  # by sizes
        bound = method.threshold if bounded else 0.0
        sampler = None if method.measure == "containment" else sampler
        drawn = None if sampler is None else ops.asarray(sampler.draw(pairs, numbers, ops))
        similarity = compare(pairs, self.texts, measure_of(method), bound, ops, advance, drawn)
        if sampler is not None:
            sampler.complete(ops.asnumpy(similarity[drawn]))
        return Edges(pairs[:, 0], pairs[:, 1], similarity).select(~(similarity < method.threshold))

    def resolve(self, small: Edges, advance: Advance = no_progress, *, whole: bool = True) -> Resolved:
        """Decide, from the verified pairs of small buckets; without `whole`, the result holds few of all pairs."""
        ops, in_large = self.ops, self._large_places()
        status = np.zeros_like(self.numbers, np.int8)
        found = Verified(self.numbers < self.rules.protected, whole, ops)
        if self.method.verify == "exact" or len(in_large) == 0:
            join = self._join(in_large, advance) if len(in_large) else None
            for edges in resolve_blocks(status, small, join, in_large, ops):
                found.add(edges, status)
            if isinstance(join, ContainmentJoin):
                places, label = ops.asarray(in_large), found.components(status)
                _, label = np.unique(ops.asnumpy(label[places]), return_inverse=True)
                for edges in join.connecting_pairs(label, ops.asnumpy(status[places] == KEPT)):
                    found.connect(edges.renumber(in_large).moved(ops.asarray), status)
            return found.resolved(status)
        # Without an exact measure the frequencies of the prefix filter decide which pairs count. They are counted
        # within one connected component, so that nothing depends on what else is decided together with it.
        label, has_large = self._component_of(in_large), np.zeros_like(status, bool)
        has_large[label[ops.asarray(in_large)]] = True
        members = np.flatnonzero(has_large[label])
        members = members[radix_order(label[members], len(label))]  # component after component
        place = np.empty_like(label)
        place[members] = np.arange(len(members), like=members)
        is_own = has_large[label[small.later]]
        rest = small.select(is_own).renumber(place)
        rest = rest.select(radix_order(rest.later, len(members)))
        large = np.sort(ops.asnumpy(place[ops.asarray(in_large)]))
        for start, stop in run_bounds(label[members]):
            here, chosen = members[start:stop], large[slice_between(large, start, stop)] - start
            own, rest = _split_edges(rest, stop, ops)
            own = Edges(own.earlier - start, own.later - start, own.similarity)
            of_members = status[here]
            for edges in resolve_blocks(of_members, own, self._join(ops.asnumpy(here)[chosen], advance), chosen, ops):
                status[here] = of_members
                found.add(edges.renumber(here), status)
        for edges in resolve_blocks(status, small.select(~is_own), None, in_large, ops):
            found.add(edges, status)
        return found.resolved(status)

    def find_witnesses(self, found: Resolved) -> Edges:
        """Each dropped document, ascending, with its witness, by `resolve` of the method."""
        if self.method.resolve == "kept":
            return witnesses(found.kept, found.edges)
        # The label of a component is its first place.
        first = self.ops.components(len(self.numbers), found.connecting)
        later = np.flatnonzero((first != np.arange(len(first), like=first)) & self.rules.can_be_dropped(self.numbers))
        first = first[later]
        if self.method.verify == "none":
            return Edges(first, later, np.full_like(first, np.nan, np.float64))
        pairs = np.stack([first, later], axis=1)
        return Edges(first, later, compare(pairs, self.texts, measure_of(self.method), 0.0, self.ops))

    def resolve_by_block(self, small: Edges) -> Iterator[tuple[Array, Edges]]:
        """Results of `resolve`, by an exact measure, in blocks of later documents, in order: (kept bool [v], pairs).

        `kept` holds up to the documents of the block. Thousands of held near-duplicates make a pair with each of
        thousands of new ones, so an index never has the pairs of all blocks.
        """
        in_large, status = self._large_places(), np.zeros_like(self.numbers, np.int8)
        join = self._join(in_large, no_progress) if len(in_large) else None
        for edges in resolve_blocks(status, small, join, in_large, self.ops):
            yield status != DROPPED, edges

    def _large_places(self) -> Numbers:
        """int64 [c], on the host: the places of the documents of large buckets."""
        in_large = self.collisions.in_large
        if len(in_large):
            in_large = self.ops.asnumpy(np.flatnonzero(np.isin(self.numbers, self.ops.asarray(in_large))))
        return in_large

    def _in_order(self, pairs: Array) -> Array:
        """`pairs` [m, 2] of numbers as places, the earlier document first."""
        pairs = self.places[pairs]
        first, second = pairs[:, 0], pairs[:, 1]
        if bool((first < second).all()):  # decision order is the order of numbers
            return pairs
        return np.stack([np.minimum(first, second), np.maximum(first, second)], axis=1)

    def _component_of(self, in_large: Numbers) -> Array:
        """int64 [v]: the component of each document, by candidate pairs and large buckets."""
        if self.is_connected:
            return np.zeros_like(self.numbers)
        ops = self.ops
        rows = np.searchsorted(self.collisions.in_large, ops.asnumpy(self.numbers[ops.asarray(in_large)]))
        edges = [self._in_order(self.collisions.pairs)]
        for band in self.collisions.bucket.T:
            bucket = band[rows]
            members, bucket = in_large[bucket >= 0], bucket[bucket >= 0]
            _, first, which = np.unique(bucket, return_index=True, return_inverse=True)
            edges.append(ops.asarray(np.stack([members[first][which], members], axis=1)))
        return ops.components(len(self.numbers), np.concatenate(edges))

    def _join(self, in_large: Numbers, advance: Advance) -> LargeBucketJoin:
        ops, allowed = self.ops, self.drop_rules.moved(self.ops.asnumpy)
        numbers = ops.asnumpy(self.numbers[ops.asarray(in_large)])
        join = ContainmentJoin if self.method.measure == "containment" else LargeBucketJoin
        return join(numbers, self.collisions, self.texts.select(in_large), self.method, ops, allowed, advance)


class Verified:
    """Collects the verified pairs of `Resolved`, block by block."""

    def __init__(self, is_protected: Array, whole: bool, ops: Backend) -> None:
        self._is_protected, self._whole, self._ops = is_protected, whole, ops
        self._pairs, self._edges, self._stars = 0, list[Edges](), list[Array]()

    def add(self, edges: Edges, status: Array) -> None:
        """Add the pairs of a block; `status` int8 [v] has decided their places."""
        self._pairs += len(edges.later)
        if self._whole:
            self._edges.append(edges)
            return
        guarded = edges.select(self._is_protected[edges.earlier])
        guarded = guarded.select(radix_order(guarded.later, len(status)))
        self._edges += [witnesses(status == KEPT, edges), guarded.select(first_of_runs(guarded.later))]
        self.connect(edges, status)

    def connect(self, edges: Edges, status: Array) -> None:
        """Add pairs that only connect places."""
        places, rows = renumber(np.stack([edges.earlier, edges.later], axis=1), len(status))
        first = self._ops.components(len(places), rows)
        self._stars.append(np.stack([places[first], places], axis=1))

    def components(self, status: Array) -> Array:
        """int64 [v]: the component of each place, by the pairs so far."""
        return self._ops.components(len(status), np.concatenate(self._stars))

    def resolved(self, status: Array) -> Resolved:
        """The result, when `status` has decided all places."""
        stars = None if self._whole else np.concatenate(self._stars)
        return Resolved(status != DROPPED, self._pairs, Edges.concat(self._edges), stars)


def settle(status: Array, start: int, stop: int, earlier: Array, later: Array, ops: Backend) -> None:
    """Decide the places [start, stop) of `status` int8 [n]; all places before are decided.

    `earlier` and `later` int64 [m] are pairs of places in decision order, `later` in the range.
    """
    view = status[start:stop]
    for _ in range(ROUNDS):
        open_pairs = (status[later] == UNDECIDED) & (status[earlier] != DROPPED)
        earlier, later = earlier[open_pairs], later[open_pairs]
        if len(later) == 0:
            break
        status[later[status[earlier] == KEPT]] = DROPPED
        blocked = np.zeros(stop - start, bool, like=status)
        blocked[later[status[later] == UNDECIDED] - start] = True
        view[(view == UNDECIDED) & ~blocked] = KEPT
    else:
        _decide_in_order(status, earlier, later, ops)
    view[view == UNDECIDED] = KEPT


def _decide_in_order(status: Array, earlier: Array, later: Array, ops: Backend) -> None:
    """Decide pair after pair on the host."""
    places, rows = renumber(np.stack([later, earlier], axis=1), len(status))
    pairs = unpack_pairs(ops.asnumpy(np.sort(pack_pairs(rows[:, 0], rows[:, 1]))))
    decided = bytearray(ops.asnumpy(status[places]))
    for start in range(0, len(pairs), WALKED_AT_ONCE):
        for j, i in pairs[start : start + WALKED_AT_ONCE].tolist():
            # All pairs with i as the later one came before this one: i stays if it is still undecided.
            if decided[i] != DROPPED:
                decided[i] = KEPT
                decided[j] = DROPPED
    status[places] = ops.asarray(np.frombuffer(decided, np.int8))


def resolve_blocks(
    status: Array, small: Edges, join: LargeBucketJoin | None, in_large: Numbers, ops: Backend
) -> Iterator[Edges]:
    """Decide `status` int8 [n] from its start; yield the verified pairs whose later document is decided, once each.

    `small` holds the verified pairs of small buckets; `in_large` [c] are the ascending places of the documents of
    `join`, on the host like its blocks.
    """
    count, done = len(status), 0
    if join is not None:
        by_later = small.select(radix_order(small.later, count))
        for block in join.blocks():
            end = int(in_large[block.stop - 1]) + 1
            own, by_later = _split_edges(by_later, end, ops)
            with_kept, within = (part.renumber(in_large).moved(ops.asarray) for part in (block.with_kept, block.within))
            known = Edges.concat([own, with_kept, within])
            settle(status, done, end, known.earlier, known.later, ops)
            join.keep(block, ops.asnumpy(status[ops.asarray(in_large[block.start : block.stop])] == KEPT))
            # A pair of a small bucket and of a large one is there twice.
            found = Edges.concat([own, with_kept, within.select(status[within.earlier] == KEPT)])
            yield distinct_edges(found)
            done = end
        small = small.select(small.later >= done)  # keeps the order of pairs, so sorting again is fast
    settle(status, done, count, small.earlier, small.later, ops)
    yield small


def _split_edges(edges: Edges, end: int, ops: Backend) -> tuple[Edges, Edges]:
    """The edges, ordered by `later`, whose later document is before `end`, and the others."""
    at = int(ops.asnumpy(np.searchsorted(edges.later, ops.asarray(np.array([end]))))[0])
    return edges.select(slice(at)), edges.select(slice(at, None))


def witnesses(kept: Array, edges: Edges) -> Edges:
    """Each dropped place with its most similar earlier kept one, ties to the earlier; `later` ascends."""
    possible = edges.select(kept[edges.earlier] & ~kept[edges.later])
    ordered = possible.select(lexicographic_order(possible.later, -possible.similarity, possible.earlier))
    return ordered.select(first_of_runs(ordered.later))


def distinct_edges(edges: Edges) -> Edges:
    """Each edge once, lexicographic."""
    pairs = pack_pairs(edges.earlier, edges.later)
    order = np.argsort(pairs)  # equal pairs may come in any order, and an unstable sort is three times as fast
    return edges.select(order[first_of_runs(pairs[order])])
