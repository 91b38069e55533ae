"""The reference against plain Python sets: it is the oracle of all others, so this is where it is judged itself."""

import math
from collections import Counter
from itertools import combinations, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpulsh.arrays import Buckets, Fingerprints
from gpulsh.backends.protocol import NO_DIGEST, prefix_lengths, sketched
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.params import BandShape, Family, Shingling
from tests.support import naive
from tests.support.texts import KEYS, batch_of, known, licences, shinglings, strings

REFERENCE = ReferenceBackend()


def rows_of(fingerprints: Fingerprints) -> list[list[int]]:
    values, offset = fingerprints.values.tolist(), fingerprints.offset.tolist()
    return [values[start:stop] for start, stop in pairwise(offset)]


def check_partition(texts: list[str], shingling: Shingling) -> int:
    """Fingerprints are equal exactly where shingles are; returns how many distinct shingles there were."""
    words = [naive.tokens(text, shingling.unit, *shingling.reading) for text in texts]
    wanted = [naive.shingles(document, shingling.size) for document in words]
    batch = batch_of([text.encode() for text in texts])
    found = rows_of(REFERENCE.shingle(batch, shingling))
    assert list(map(len, found)) == list(map(len, wanted))
    shingle_of: dict[int, tuple[str, ...]] = {}
    fingerprint_of: dict[tuple[str, ...], int] = {}
    for row, shingles in zip(found, wanted, strict=True):
        for value, shingle in zip(row, shingles, strict=True):
            assert shingle_of.setdefault(value, shingle) == shingle
            assert fingerprint_of.setdefault(shingle, value) == value
    exact = list(map(tuple, REFERENCE.exact_hashes(batch, shingling, KEYS)[0].tolist()))
    for (i, a), (j, b) in combinations(enumerate(words), 2):
        assert (exact[i] == exact[j]) == (a == b)
    return len(shingle_of)


@given(st.lists(strings.map(known), max_size=6), shinglings)
def test_fingerprints_are_equal_exactly_where_shingles_are(texts: list[str], shingling: Shingling) -> None:
    check_partition(texts, shingling)


def test_fingerprints_of_real_text_do_not_collide() -> None:
    texts = [known(text)[:3000] for text in licences()[::60]]
    assert check_partition(texts, Shingling()) > 3500
    assert check_partition(texts, Shingling(unit="char", size=9)) > 10000


def test_words_in_another_order_are_other_shingles() -> None:
    texts = ["a b c", "a c b", "b a c", "b c a", "c a b", "c b a", "ab c", "a bc", "abc", "a b c a", "a b"]
    assert check_partition(texts, Shingling(size=3)) == 10
    assert check_partition(texts, Shingling(unit="char", size=3)) > 8


def test_a_short_document_never_equals_a_full_one() -> None:
    """Its only shingle has fewer tokens, whatever they are, one of all zero bits included."""
    texts = [" ".join(["a"] * count) for count in range(1, 12)]
    rows = rows_of(REFERENCE.shingle(batch_of([text.encode() for text in texts]), Shingling(size=5)))
    assert [len(row) for row in rows] == [1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7]
    assert len({row[0] for row in rows[:5]}) == 5
    assert all(set(row) == set(rows[4]) for row in rows[4:])


def test_documents_without_a_token() -> None:
    batch = batch_of([b"", b"...", b" \n", "🙂".encode(), b"\xff"])
    for unit in ("word", "char"):
        fingerprints = REFERENCE.shingle(batch, Shingling(unit=unit, size=1))  # type: ignore[arg-type]
        assert fingerprints.offset.tolist() == [0] * 6
        assert not REFERENCE.exact_hashes(batch, Shingling(unit=unit), KEYS)[0].any()  # type: ignore[arg-type]
    signatures = sketched(REFERENCE, fingerprints, Family(num_perm=6))
    assert (signatures == 2**32 - 1).all()
    assert (REFERENCE.band_digests(signatures, BandShape(bands=2, rows=3)) == NO_DIGEST).all()


small = st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=8)


def table(rows: list[list[int]]) -> Fingerprints:
    offset = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return Fingerprints(np.array([value for row in rows for value in row], np.uint64), offset)


def pairs_of(rows: list[list[int]], data: st.DataObject) -> NDArray[np.int64]:
    ids = st.integers(0, max(len(rows) - 1, 0))
    pairs = data.draw(st.lists(st.tuples(ids, ids), max_size=10)) if rows else []
    return np.array(pairs, np.int64).reshape(-1, 2)


@given(small, st.data())
def test_unique_rows_and_intersections_are_sets(rows: list[list[int]], data: st.DataObject) -> None:
    pairs, unique = pairs_of(rows, data), REFERENCE.unique(table(rows))
    assert rows_of(unique) == [sorted(set(row)) for row in rows]
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
        spread, rows_of(REFERENCE.prefixes(table(spread), counts, lengths)), lengths, strict=True
    ):
        rarest = sorted(row, key=lambda value: (flat.count(value >> 59), value))[:length]
        assert found == sorted(value for value in rarest if flat.count(value >> 59) > 1)


@given(st.lists(strings.map(known), max_size=4), shinglings)
def test_prefixes_of_texts(texts: list[str], shingling: Shingling) -> None:
    batch, counts = batch_of([text.encode() for text in texts]), np.arange(8, dtype=np.uint8)
    sets = REFERENCE.shingle_sets(batch, shingling)
    rows = rows_of(sets)
    for rare, share in ((0, 0.8), (0, 0.0), (4, 0.8), (256, 0.8)):
        found = REFERENCE.prefixes(sets, counts, prefix_lengths(sets.lengths, share), rare)
        for row, prefix in zip(rows, rows_of(found), strict=True):
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
