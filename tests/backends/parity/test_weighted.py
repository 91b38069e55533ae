"""Operations on weighted rows: occurrences, weighted_overlap, weighted_minhash, kleinberg_tardos."""

import math
from fractions import Fraction

import numpy as np
import pytest

from gpulsh.arrays import WeightedFingerprints
from gpulsh.backends.darts import RANK_BITS, SEGMENT_BITS, Streams, logarithms
from gpulsh.backends.protocol import GOLDEN, MIX_1, MIX_2, NO_VALUE, Backend
from gpulsh.backends.reference.weighted import darts_below, surprise
from gpulsh.errors import ParameterError
from tests.backends.parity.agreement import REFERENCE, agree, expected, far_array
from tests.support.rows import SCALES, random_table, random_weighted, same, weighted_of


@pytest.mark.parametrize("scale", SCALES)
def test_weights_of_every_scale(ops: Backend, scale: str) -> None:
    for num_perm in (1, 33):
        agree(ops, "weighted_minhash", random_weighted([0, 1, 2, 30, 0, 9], scale), num_perm, 5)
    agree(ops, "weighted_minhash", random_weighted([300, 3], scale), 9, 5)
    agree(ops, "weighted_minhash", random_weighted([], scale), 3, 5)


def test_subnormal_weights_do_not_count(ops: Backend) -> None:
    least = {x: 2.0**-1022 * (1 + x / 64) for x in range(9)}
    below = {x: 2.0**-1023 * (1 + x / 64) for x in range(9, 40)}
    rows = weighted_of([least, {**least, **below}, below])
    first, second, _ = agree(ops, "weighted_minhash", rows, 64, 1)
    assert (first == second).all()


def test_a_dense_row_below_two_to_the_minus_990_is_empty(ops: Backend) -> None:
    found = agree(ops, "kleinberg_tardos", np.array([[2.0**-990, 0.0], [np.nextafter(2.0**-990, 0), 0.0]]), 5, 1)
    assert (found == NO_VALUE).all(axis=1).tolist() == [False, True]


def test_a_dart_as_high_as_the_weight_misses(ops: Backend) -> None:
    for operation in ("weighted_minhash", "kleinberg_tardos"):
        streams = Streams.of(operation, 5)
        first = [next(darts_below(Fraction(99), streams, line, 0)) for line in range(9)]
        heights = [float(dart.height) for dart in first]
        assert heights == [dart.height for dart in first]
        sparse = weighted_of([{line: height} for line, height in enumerate(heights)])
        agree(ops, operation, sparse if operation == "weighted_minhash" else np.array(heights)[:, None], 9, 5)


def inverse_mix(x: int) -> int:
    """The inverse of `mix64`."""
    for factor, shift in ((1, 27), (MIX_2, 33), (MIX_1, 27)):
        x = x * pow(factor, -1, 1 << 64) % (1 << 64)
        x ^= x >> shift ^ x >> 2 * shift
    return x


def line_of(word: int, level: int, streams: Streams) -> int:
    """The line whose first dart at a level is drawn by `word`."""
    number = inverse_mix(word) - int(streams.addend) - level * GOLDEN
    return number * pow(int(streams.multiplier), -1, 1 << 64) % (1 << 64)


def test_a_value_of_all_ones_becomes_the_one_below(ops: Backend) -> None:
    streams = Streams.of("weighted_minhash", 5)
    places = [inverse_mix(NO_VALUE << 32 | low) ^ int(streams.value) for low in range(9)]
    lines = [line_of(inverse_mix(place) ^ int(streams.place), 0, streams) for place in places]
    assert all(next(darts_below(Fraction(99), streams, x, 0)).value == NO_VALUE - 1 for x in lines)
    found = agree(ops, "weighted_minhash", weighted_of([{line: 1.99999} for line in lines]), 1, 5)
    assert (found == NO_VALUE - 1).any()


def test_levels_count_down_to_a_fixed_depth(ops: Backend) -> None:
    """At each of these levels a line has a dart of almost no rank, which comes first if it counts."""
    streams, levels = Streams.of("weighted_minhash", 5), (-22, -23, -24)
    lines = [line_of(2**64 - 1, level, streams) for level in levels]
    found = agree(ops, "weighted_minhash", weighted_of([{line: 1.5} for line in lines]), 1, 5)
    pairs = zip(lines, levels, strict=True)
    values = [next(darts_below(Fraction(1), streams, line, level)).value for line, level in pairs]
    assert (found[:, 0] == values).tolist() == [True, True, False]


def test_weighted_operations_on_many_rows_and_pairs(ops: Backend) -> None:
    agree(ops, "weighted_minhash", random_weighted([3] * 40), 5, 1)  # more than a block has threads
    agree(ops, "occurrences", random_table([0, 5, 300, 1, 0, 40], 9))
    generator = np.random.default_rng(4)
    rows = [{int(x): float(generator.random()) for x in generator.choice(90, size)} for size in (40, 0, 70, 3)]
    agree(ops, "weighted_overlap", np.array([(i, j) for i in range(4) for j in range(4)] * 9), weighted_of(rows))


def test_rows_beyond_32_bits(ops: Backend) -> None:
    first, rows, pairs = 2**31 + 3, random_weighted([5, 0, 30], "counts"), np.array([[0, 2], [2, 1]])
    there = object.__new__(WeightedFingerprints)  # its check would read all values before the first
    for name, array in (("values", rows.values), ("weight", rows.weight)):
        object.__setattr__(there, name, far_array(ops, first, array))
    object.__setattr__(there, "offset", ops.asarray(rows.offset + first))
    same(ops.weighted_minhash(there, 9, 1), expected("weighted_minhash", rows, 9, 1), ops.asnumpy)
    same(ops.weighted_overlap(ops.asarray(pairs), there), expected("weighted_overlap", pairs, rows), ops.asnumpy)


def test_device_rows_are_checked_when_moved(ops: Backend) -> None:
    given_arrays = np.array([2, 1], np.uint64), np.array([1.0, 1.0]), np.array([0, 2])
    with pytest.raises(ParameterError, match="values does not ascend within each row"):
        WeightedFingerprints(*map(ops.asarray, given_arrays)).moved(ops.asarray)


def test_surprise_approximates_the_logarithm() -> None:
    one = 1 << RANK_BITS
    assert len(logarithms()) == (1 << SEGMENT_BITS) + 1
    assert [int(logarithms()[i]) for i in (0, -1)] == [0, one]
    generator = np.random.default_rng(1)
    words = [0, 1, 2, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1, *generator.integers(0, 2**64, 2000, np.uint64).tolist()]
    for word in words:
        assert surprise(word) >= 1 and abs(surprise(word) / one - (64 - math.log2(word | 1))) < 2.0**-22
    found = [surprise(word) for word in sorted(words)]
    assert found == sorted(found, reverse=True)


def test_weighted_values_are_pinned() -> None:
    rows, dense = weighted_of([{1: 1.0, 2: 2.5}, {2: 2.5}]), np.array([[1.0, 2.5], [0.0, 2.5]])
    first, second = REFERENCE.weighted_minhash(rows, 4, 1).tolist()
    assert first == [668735885, 1084406529, 4162099015, 1134744844]
    assert second == [668735885, 2474041179, 3336904682, 1134744844]
    first, second = REFERENCE.kleinberg_tardos(dense, 4, 1).tolist()
    assert first == second == [1043336741, 3077479019, 1745586837, 2687954061]
