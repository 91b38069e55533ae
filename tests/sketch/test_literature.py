"""Worked examples of the literature, each with its source."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import gpulsh
from gpulsh.arrays import Fingerprints, Signatures
from gpulsh.errors import ParameterError
from gpulsh.theory import SCurve, choose_banding, epsilon_of_chance


def fingerprints(*sets: set[str] | set[int]) -> Fingerprints:
    """Of the sets' elements, which stand for fingerprints."""
    known = {element: number for number, element in enumerate(sorted(set().union(*sets), key=str))}
    rows = [sorted(known[element] for element in one) for one in sets]
    return Fingerprints(
        np.array([x for row in rows for x in row], np.uint64), np.cumsum([0, *map(len, rows)], dtype=np.int64)
    )


def similarities(*sets: set[str] | set[int]) -> list[float]:
    pairs = np.array(list(combinations(range(len(sets)), 2)))
    return list(gpulsh.jaccard(fingerprints(*sets), pairs, backend="cpu"))


class TestCurve:
    """Leskovec, Rajaraman, Ullman, *Mining of Massive Datasets*, section 3.4."""

    def test_42_bands_of_3_rows(self) -> None:
        curve = SCurve(bands=42, rows=3)
        assert curve.probability(0.5) == pytest.approx(0.9963, abs=5e-5)
        assert curve.probability(0.05) == pytest.approx(0.00524, abs=5e-6)
        assert curve.threshold == pytest.approx(0.25198, abs=5e-6)
        at = curve.approximate_threshold
        assert at == pytest.approx(0.28768, abs=5e-6) and curve.probability(at) == pytest.approx(0.6365, abs=5e-5)
        step = 1e-6
        slope = (curve.probability(at + step) - curve.probability(at - step)) / (2 * step)
        assert slope == pytest.approx(3.883, abs=5e-4)
        assert 3 / (np.e * at) == pytest.approx(3.836, abs=1e-3)

    def test_twice_the_rows_and_the_bands_squared_keep_the_threshold(self) -> None:
        for curve in (SCurve(bands=5, rows=3), SCurve(bands=25, rows=6)):
            assert curve.approximate_threshold == pytest.approx(0.5848, abs=5e-5)
        assert SCurve(bands=25, rows=6).slope > SCurve(bands=5, rows=3).slope

    def test_what_no_banding_of_128_meets(self) -> None:
        with pytest.raises(ParameterError, match=r"closest is 35 bands of 3 rows with .* P\(0.05\) = 0.0043"):
            choose_banding(num_perm=128, capture=(0.5, 0.99), reject=(0.05, 0.001))
        meeting = [
            (SCurve(bands=b, rows=r).probability(0.05), b, r)
            for r in range(1, 129)
            for b in range(1, 128 // r + 1)
            if SCurve(bands=b, rows=r).probability(0.5) >= 0.99
        ]
        assert min(meeting)[1:] == (35, 3) and min(meeting)[0] == pytest.approx(0.0044, abs=5e-5)

    def test_rows_of_a_band_meet_where_all_agree(self) -> None:
        rows = np.array([(1, 3, 6, 0), (2, 3, 1, 0), (1, 3, 6, 0), (2, 1, 3, 1)], np.uint32)
        digests = gpulsh.Banding(bands=1, rows=4)(Signatures(rows), backend="cpu")
        assert gpulsh.candidate_pairs(digests, backend="cpu").tolist() == [[0, 2]]


class TestSets:
    def test_furniture(self) -> None:
        assert similarities({"chair", "desk", "rug", "keyboard", "mouse"}, {"chair", "rug", "keyboard"}) == [0.6]


class TestRowsAToG:
    """Leskovec, Rajaraman, Ullman, section 3.3; their slides print 3/5 for the pair (1, 3), which has 3/4."""

    SETS = ({*"ABFG"}, {*"CDE"}, {*"AFG"}, {*"BCDE"})
    SIGNATURES = ((1, 2, 1, 2), (2, 1, 3, 1), (3, 1, 3, 1))

    def test_signatures_of_given_row_orders(self) -> None:
        orders = ("ACGFBED", "DBACFGE", "CDGFABE")
        places = np.array([[order.index(row) + 1 for order in orders] for row in "ABCDEFG"])
        found = gpulsh.minima([["ABCDEFG".index(row) for row in one] for one in self.SETS], places, backend="cpu")
        assert found.values.T.tolist() == [list(wanted) for wanted in self.SIGNATURES]

    def test_true_and_estimated_similarity(self) -> None:
        assert similarities(*self.SETS) == [0, 3 / 4, 1 / 7, 0, 3 / 4, 0]
        signatures = Signatures(np.array(self.SIGNATURES, np.uint32).T.copy())
        pairs = np.array(list(combinations(range(4), 2)))
        found = gpulsh.jaccard(signatures, pairs, backend="cpu")
        assert found == pytest.approx([0, 2 / 3, 0, 0, 1, 0])
        assert similarities({*"ABFG"}, {*"AEFG"}) == [3 / 5]

    def test_minima_while_rows_are_read(self) -> None:
        """h(x) = x + 1 mod 5 and g(x) = 2 x + 3 mod 5, row after row: each step of the trace."""
        infinity, x = 2**32 - 1, np.arange(5)
        functions = np.stack([(x + 1) % 5, (2 * x + 3) % 5], axis=1)
        trace = []
        for read in range(1, 6):
            sets = [[row for row in one if row < read] for one in ({0, 2, 3}, {1, 2, 4})]
            trace.append(gpulsh.minima(sets, functions, backend="cpu").values.tolist())
        assert trace == [
            [[1, 3], [infinity, infinity]],
            [[1, 3], [2, 0]],
            [[1, 2], [2, 0]],
            [[1, 2], [2, 0]],
            [[1, 2], [0, 0]],
        ]

    @pytest.mark.parametrize(
        ("sets", "functions", "said"),
        [
            ([[5]], [[1], [2]], "elements from 5 to 5; functions are given of 2, from 0 on"),
            ([[-1]], [[1], [2]], "elements from -1 to -1"),
            ([["a"]], [[1], [2]], "give the numbers of elements"),
            ([[0]], [1, 2], "shape .2,.; give integers of shape"),
            ([[0]], [[1], [2, 3]], "functions is not an array"),
            ([[0]], [[2**32 - 1]], "give values from 0 to 4294967294"),
        ],
    )
    def test_what_is_refused_of_given_functions(self, sets: Any, functions: Any, said: str) -> None:
        with pytest.raises(gpulsh.GpulshError, match=said):
            gpulsh.minima(sets, functions, backend="cpu")


class TestEpsilon:
    """Broder, Charikar, Frieze, Mitzenmacher 2000, section 1: the relative error of a family on a set."""

    def test_random_numbers(self) -> None:
        rows = gpulsh.fingerprint([range(300), range(5), [], [7]], backend="cpu")
        found = gpulsh.MinHash(num_perm=20_000).epsilon(rows, backend="cpu")
        assert 0 < found[0] < epsilon_of_chance(300, 20_000) and found[2:].tolist() == [0, 0]

    def test_masks(self) -> None:
        """Of 0, 1, 2, 9 and 200 the last is the minimum of half of all masks, in place of a fifth."""
        rows = Fingerprints(np.array([0, 1, 2, 9, 200], np.uint64) << np.uint64(32), np.array([0, 5]))
        found = gpulsh.MinHash(num_perm=20_000, family="xor").epsilon(rows, backend="cpu")
        assert found[0] == pytest.approx(5 / 2 - 1, abs=0.1)


class TestXor:
    """Masks keep the binary trie of a set: Broder, Charikar, Frieze, Mitzenmacher 2000 ask for more of a family."""

    def test_each_element_is_the_minimum_as_often_as_branchings_say(self) -> None:
        values = np.array([0, 1, 2, 9, 200], np.uint64)
        rows = Fingerprints(np.concatenate([values << np.uint64(32), values << np.uint64(32)]), np.array([0, 5, 10]))
        signature = gpulsh.MinHash(num_perm=20_000, family="xor")(rows, backend="cpu")[0]
        top = Fingerprints(np.array([1 << 63], np.uint64), np.array([0, 1]))
        masks = gpulsh.MinHash(num_perm=20_000, family="xor")(top, backend="cpu")[0] ^ np.uint32(1 << 31)
        winner = signature ^ masks
        for value, branchings in ((0, 4), (1, 4), (2, 3), (9, 2), (200, 1)):
            share = float((winner == value).mean())
            assert share == pytest.approx(2.0**-branchings, abs=4 * np.sqrt(0.25 / 20_000))
