"""Rows of fingerprints, and the bytes of texts, with rarely drawn arguments."""

import itertools
import time

import numpy as np
import pytest

from gpulsh.arrays import Fingerprints, Numbers
from gpulsh.backends.cpu import CpuBackend, intersect
from gpulsh.backends.protocol import GOLDEN, NO_DIGEST, Backend
from gpulsh.errors import ParameterError
from tests.backends.parity.agreement import REFERENCE, agree, expected, far_array
from tests.backends.parity.test_any import SIMHASH_KEYS, bytes_of_texts, overlaps, rows, simhash
from tests.support.rows import LENGTHS, random_table, same, table

EMPTY = [0] * 70 + [3] + [0] * 31 + [4] + [0] * 33 + [6] * 40
# Around the spans of simhash, too.
AROUND = [*LENGTHS, *range(14, 19), *range(238, 258), 479, 480, 481]


@pytest.mark.parametrize(("universe", "bits"), [(2**64, 2), (2**64, 16), (5000, 8), (60, 16), (2, 8)])
def test_operations_on_rows_of_every_length(ops: Backend, universe: int, bits: int) -> None:
    rows(ops, random_table(LENGTHS, universe), np.full(1 << bits, 250 if bits == 2 else 0, np.uint8))


def test_unique_of_awkward_rows(ops: Backend) -> None:
    up, generator = list(range(300)), np.random.default_rng(7)
    for universe in (2, 100, 2**20):
        for lengths in (LENGTHS[::-1], [40], [3000], [], [0, 0], [2] * 70, [0] * 300 + [290]):
            agree(ops, "unique", random_table(lengths, universe))
    for upper in (1, 5, 1 << 10, 1 << 16, 1 << 40, 1 << 64):  # values that are no hashes
        values = generator.integers(0, upper, 30_000, dtype=np.uint64)
        agree(ops, "unique", Fingerprints(values, np.array([0, 30, 30, 700, 30_000])))
    agree(ops, "unique", table([up, up[::-1], up, [NO_DIGEST] * 300, up[:2], [0] * 33]))
    agree(ops, "unique", table([up, up[5:], []]))  # nothing to leave out


def test_frequencies_stop_at_255(ops: Backend) -> None:
    given = table([[1 << 62] * 300, [3 << 62] * 254])
    assert agree(ops, "frequencies", given, np.zeros(4, np.uint8)).tolist() == [0, 255, 0, 254]


@pytest.mark.parametrize("bits", [2, 6, 12])
def test_prefixes_of_any_frequencies(ops: Backend, bits: int) -> None:
    unique, generator = expected("unique", random_table(LENGTHS, 2**40)), np.random.default_rng(bits)
    for frequencies in ([2], [0, 1, 2], [1, 2, 3, 254, 255], range(256)):
        rows(ops, unique, generator.choice(np.array(frequencies, np.uint8), 2**bits))


def all_pairs(count: int) -> Numbers:
    return np.array(list(itertools.product(range(count), repeat=2)), np.int64).reshape(-1, 2)


@pytest.mark.parametrize("universe", [60, 1024, 6000])
def test_overlaps_of_rows_of_every_length(ops: Backend, universe: int) -> None:
    unique = expected("unique", random_table([*LENGTHS[:27], *range(1, 30)], universe))
    overlaps(ops, all_pairs(len(unique)), unique, 16, 64)


def test_overlaps_in_tiles_and_of_nothing(ops: Backend) -> None:
    up = np.arange(0, 4200, 3, dtype=np.uint64)
    tiles = [up, up[100:], up[:256], up[:257], up[700:], up + np.uint64(1), up[::7], up[:0], up[255:258], up[-1:]]
    overlaps(ops, all_pairs(len(tiles)), table([row.tolist() for row in tiles]), 16)
    overlaps(ops, all_pairs(0), table([[1, 2], []]), 16, 64)
    overlaps(ops, all_pairs(0), table([]), 16)
    overlaps(ops, np.array([[0, 2], [0, 1]], np.int64), table([[], [5], []]), 16)


@pytest.mark.parametrize("first", [2**31 + 3, 2**32 + 5])
def test_rows_beyond_32_bits(ops: Backend, first: int) -> None:
    near = table([[5, 3, 3, 2**64 - 1], [], [3, 7], list(range(300, 0, -1))])
    unique, counts = expected("unique", near), np.zeros(16, np.uint8)
    pairs = np.array([[0, 2], [1, 2], [2, 3], [1, 3]], np.int64)
    far, far_unique = (
        Fingerprints(far_array(ops, first, one.values), ops.asarray(one.offset + first)) for one in (near, unique)
    )
    same(ops.unique(far), unique, ops.asnumpy)
    same(ops.frequencies(far, ops.asarray(counts.copy())), expected("frequencies", near, counts), ops.asnumpy)
    same(ops.bitmaps(far_unique), expected("bitmaps", unique), ops.asnumpy)
    same(ops.intersect(ops.asarray(pairs), far_unique), expected("intersect", pairs, unique), ops.asnumpy)
    same(ops.simhash(far_unique, SIMHASH_KEYS), expected("simhash", unique, SIMHASH_KEYS), ops.asnumpy)


@pytest.mark.parametrize("lengths", [AROUND, [0, 0], [], EMPTY])
def test_simhash_of_awkward_rows(ops: Backend, lengths: list[int]) -> None:
    simhash(ops, random_table(lengths))


def test_simhash_counts_as_many_bits_as_a_row_may_have(ops: Backend) -> None:
    """One of two values fills half of a row, or one place less or more."""
    given = []
    for size in [1, 2, 15, 16, 17, 239, 240, 241, 255, 256, 257, 1000, 4097]:
        firsts = {min(max(size // 2 + more, 0), size) for more in (-1, 0, 1)}
        given += [[5] * first + [6] * (size - first) for first in sorted(firsts)]
    agree(ops, "simhash", table(given), SIMHASH_KEYS)


# --- bitmaps of rows in many pairs, which only the CPU backend has


@pytest.mark.parametrize("count", [2, 90])
def test_rows_in_many_pairs_are_bounded_by_bitmaps(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Near-copies are in many pairs and get bitmaps; the other rows are in few and get none."""
    taken: list[int] = []
    found = intersect.overlap_bounds
    monkeypatch.setattr(intersect, "overlap_bounds", lambda *given: taken.append(len(given[1])) or found(*given))
    monkeypatch.setattr(intersect, "MIN_PAIRS", 1)
    generator = np.random.default_rng(count)
    page, own = generator.integers(0, 2**64, 200, np.uint64), generator.integers(0, 2**64, count, np.uint64)
    alike = [[*generator.choice(page, 190, replace=False), int(value)] for value in own]
    unique = REFERENCE.unique(table([*alike, *([value] for value in page[:30]), page.tolist(), []], before=2))
    apart = np.stack([generator.integers(0, len(unique), 40), generator.integers(count, len(unique), 40)], axis=1)
    pairs = generator.permutation(np.concatenate([all_pairs(count), apart]))
    for threads in (1, 2):
        taken.clear()
        same(CpuBackend(threads).intersect(pairs, unique), expected("intersect", pairs, unique))
        assert (sum(taken) >= count * (count - 1)) == (count > 2)


@pytest.mark.parametrize("values", ["in one slot", "many"])
def test_intersections_beyond_the_hash_table(values: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unhashed values, and more values than the table holds, are compared in order without long probing."""
    monkeypatch.setattr(intersect, "overlap_bounds", None)
    numbers = np.arange(300_000, dtype=np.uint64) * np.uint64(pow(GOLDEN, -1, 2**64))
    if values == "many":
        numbers = np.random.default_rng(1).integers(0, 2**64, 300_000, np.uint64)
    firsts = range(60) if values == "in one slot" else range(0, 300_000, 5000)
    unique = REFERENCE.unique(table([numbers[first : first + 5000].tolist() for first in firsts]))
    pairs = np.array(list(itertools.combinations(range(60), 2)) * 2, np.int64)
    began = time.process_time()
    found = CpuBackend(1).intersect(pairs, unique)
    assert time.process_time() - began < 5
    some = slice(None, None, 11)  # the reference takes its time
    same(tuple(one[some] for one in found), REFERENCE.intersect(pairs[some], unique))


def test_a_long_row_is_searched_for_the_values_of_short_ones() -> None:
    """A page and its quotations."""
    page = np.arange(100_000, dtype=np.uint64) * np.uint64(3)
    quotes = [page[first : first + 6] + np.uint64(first % 2) for first in range(0, 100_000, 199)]
    values, ends = np.concatenate([*quotes, page]), np.arange(len(quotes) + 1) * 6
    unique = Fingerprints(values, np.append(ends, len(values)))
    pairs = np.stack([np.full(len(quotes), len(quotes)), np.arange(len(quotes))], axis=1)
    pairs[::3] = pairs[::3, ::-1]
    both, either = CpuBackend(1).intersect(pairs, unique)
    assert both.tolist() == [6 * (number % 2 == 0) for number in range(len(quotes))]
    assert (both + either == 100_006).all()


# --- bytes

TEXT = "aé語\0😀".encode() + b"\xff" + bytes(range(256)) * 3
END = len(TEXT)
SPANS: list[list[tuple[int, int]]] = [  # starts and lengths
    *([], [(0, 0)], [(END, 0)] * 3, [(0, END)], [(5, 4), (0, 0), (1, 1)]),
    [(3, 0)] * 300 + [(0, 1)] + [(7, 0)] * 300 + [(END - 1, 1)] + [(2, 0)] * 40,
    [(place, 1) for place in reversed(range(300))],
    [(0, 257), (0, 256), (0, 255), (1, 32), (1, 31), (2, 31)],
]


def test_gather_of_awkward_spans(ops: Backend) -> None:
    for spans in SPANS:
        bytes_of_texts(ops, TEXT, spans)


@pytest.mark.parametrize(("begin", "end"), [(-1, 1), (0, 5), (3, 2)])
def test_gather_refuses_spans_outside_the_bytes(begin: int, end: int) -> None:
    with pytest.raises(ParameterError, match=r"outside \[0, 4\]"):
        CpuBackend(1).gather(np.zeros(4, np.uint8), np.array([0, begin]), np.array([1, end]))


def test_gather_beyond_4_gib(ops: Backend) -> None:
    far = 2**32 + 5
    begin, end = np.array([far, 0, far + 2], np.int64), np.array([far + 3, 2, far + 3], np.int64)
    for judged in (ops, REFERENCE):
        values = far_array(judged, far, np.array([1, 2, 3], np.uint8))
        found = judged.gather(values, judged.asarray(begin), judged.asarray(end))
        assert judged.asnumpy(found.values).tolist() == [1, 2, 3, 0, 0, 3]
