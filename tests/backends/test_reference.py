"""The reference against plain Python sets: it is the oracle of all others, so this is where it is judged itself."""

import math
from collections import Counter
from itertools import combinations, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpulsh.arrays import Buckets
from gpulsh.backends.protocol import NO_DIGEST, prefix_lengths
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.params import Shingling
from tests.support import naive
from tests.support.rows import lists_of, table
from tests.support.texts import batch_of, known, shinglings, strings

REFERENCE = ReferenceBackend()


small = st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=8)


def pairs_of(rows: list[list[int]], data: st.DataObject) -> NDArray[np.int64]:
    ids = st.integers(0, max(len(rows) - 1, 0))
    pairs = data.draw(st.lists(st.tuples(ids, ids), max_size=10)) if rows else []
    return np.array(pairs, np.int64).reshape(-1, 2)


@given(small, st.data())
def test_unique_rows_and_intersections_are_sets(rows: list[list[int]], data: st.DataObject) -> None:
    pairs, unique = pairs_of(rows, data), REFERENCE.unique(table(rows))
    assert lists_of(unique) == [sorted(set(row)) for row in rows]
    both, either = REFERENCE.intersect(pairs, unique)
    assert both.tolist() == [len(set(rows[i]) & set(rows[j])) for i, j in pairs.tolist()]
    assert either.tolist() == [len(set(rows[i]) | set(rows[j])) for i, j in pairs.tolist()]
    assert both.dtype == either.dtype == np.int64


@given(st.lists(st.tuples(st.sampled_from([0, 1, 5, NO_DIGEST - 1, NO_DIGEST]), st.integers(0, 99)), max_size=20))
def test_collisions_and_candidates_are_those_of_every_pair(drawn: list[tuple[int, int]]) -> None:
    digest_of = {document: digest for digest, document in drawn}
    ids = np.array(list(digest_of), np.int64)
    buckets = REFERENCE.collisions(np.array(list(digest_of.values()), np.uint64), ids)
    wanted = [
        (i, j)
        for i, j in combinations(sorted(digest_of), 2)
        if digest_of[i] == digest_of[j] and digest_of[i] != NO_DIGEST
    ]
    assert REFERENCE.candidates(buckets).tolist() == [list(pair) for pair in wanted]
    members = [buckets.ids[a:b].tolist() for a, b in pairwise(buckets.offset)]
    assert all(len(bucket) > 1 and bucket == sorted(bucket) for bucket in members)
    digests = [{digest_of[i] for i in bucket} for bucket in members]
    assert all(len(shared) == 1 for shared in digests) and sorted(map(min, digests)) == list(map(min, digests))


def test_a_pair_of_two_buckets_comes_once() -> None:
    buckets = Buckets(np.array([1, 4, 9, 4, 9, 0, 1], np.int64), np.array([0, 3, 5, 7]))
    assert REFERENCE.candidates(buckets).tolist() == [[0, 1], [1, 4], [1, 9], [4, 9]]


edges = st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=25)


@given(edges)
def test_components(pairs: list[tuple[int, int]]) -> None:
    assert REFERENCE.components(20, np.array(pairs, np.int64).reshape(-1, 2)).tolist() == naive.components(20, pairs)


@given(small)
def test_frequencies_and_prefixes(rows: list[list[int]]) -> None:
    """Values stand in the upper bits here, so that each has a slot of its own and counts are exact."""
    spread = [sorted({value << 59 for value in row}) for row in rows]
    counts = REFERENCE.frequencies(table(spread), np.zeros(32, np.uint8))
    flat = [value >> 59 for row in spread for value in row]
    assert counts.tolist() == [flat.count(value) for value in range(32)] and counts.dtype == np.uint8
    full = np.full(32, 250, np.uint8)
    assert REFERENCE.frequencies(table(spread), full).tolist() == [min(250 + count, 255) for count in counts.tolist()]
    lengths = np.array([(len(row) + 1) // 2 for row in spread], np.int64)
    for row, found, length in zip(
        spread, lists_of(REFERENCE.prefixes(table(spread), counts, lengths)), lengths, strict=True
    ):
        rarest = sorted(row, key=lambda value: (flat.count(value >> 59), value))[:length]
        assert found == sorted(value for value in rarest if flat.count(value >> 59) > 1)


@given(st.lists(strings.map(known), max_size=4), shinglings)
def test_prefixes_of_texts(texts: list[str], shingling: Shingling) -> None:
    batch, counts = batch_of([text.encode() for text in texts]), np.arange(8, dtype=np.uint8)
    sets = REFERENCE.shingle_sets(batch, shingling)
    rows = lists_of(sets)
    for rare, share in ((0, 0.8), (0, 0.0), (4, 0.8), (256, 0.8)):
        found = REFERENCE.prefixes(sets, counts, prefix_lengths(sets.lengths, share), rare)
        for row, prefix in zip(rows, lists_of(found), strict=True):
            order = sorted((value >> 61, value) for value in row)
            few = sum(count < rare for count, _ in order)
            first = order[: max(few, len(row) - math.ceil(share * len(row)) + 1)]
            assert prefix == sorted(value for count, value in first if count > 1)


@given(small, st.sampled_from([16, 32]), st.data())
def test_bitmaps_bound_intersections(rows: list[list[int]], words: int, data: st.DataObject) -> None:
    """Values are spread so that some share a bit; the bound is never below the intersection, and tight."""
    sets = [{value << 54 | value % 3 for value in row} | {value << 53 for value in row[:2]} for row in rows]
    unique = table([sorted(one) for one in sets])
    shift = {16: 54, 32: 53}[words]
    odd = [{bit for bit, count in Counter(x >> shift for x in one).items() if count % 2} for one in sets]
    bitmaps = REFERENCE.bitmaps(unique, words)
    assert (bitmaps.shape, bitmaps.dtype) == ((len(rows), words), np.uint64)
    for bits, row in zip(odd, bitmaps.tolist(), strict=True):
        assert {64 * w + b for w in range(words) for b in range(64) if row[w] >> b & 1} == bits
    pairs = pairs_of(rows, data)
    bounds = REFERENCE.overlap_bounds(pairs, bitmaps, np.diff(unique.offset)).tolist()
    for (i, j), bound in zip(pairs.tolist(), bounds, strict=True):
        smaller, together = min(len(sets[i]), len(sets[j])), len(sets[i]) + len(sets[j])
        assert len(sets[i] & sets[j]) <= bound == min(smaller, (together - len(odd[i] ^ odd[j])) // 2)
