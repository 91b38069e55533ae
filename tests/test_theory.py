"""The S-curve and the choice of bandings, against exact arithmetic and brute force."""

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import gpulsh
from gpulsh.errors import ParameterError
from gpulsh.lsh.hamming_tables import designs
from gpulsh.params import NearBits
from gpulsh.theory import SCurve, choose_banding, default_banding, meeting_probability, near_probability

BANDINGS = [(42, 3), (32, 4), (21, 6), (14, 9), (18, 7), (1, 1), (1, 9), (9, 1), (65536, 1), (1, 65536), (256, 256)]

similarities = st.floats(0, 1)
counts = st.integers(1, 300)


def exact_probability(s: float, bands: int, rows: int) -> Decimal:
    """1 - (1 - s^r)^b in 400 digits, far below the precision of a float."""
    with localcontext() as context:
        context.prec = 400
        context.Emin = -(10**9)
        return 1 - (1 - Decimal(s) ** rows) ** bands


@given(similarities, counts, counts)
@example(1e-200, 3, 1)
@example(1e-9, 65536, 2)
@example(math.nextafter(1, 0), 1, 1)
@example(math.nextafter(1, 0), 1, 300)
@example(5e-324, 1, 1)
def test_probability_is_accurate_to_the_last_digits(s: float, bands: int, rows: int) -> None:
    exact = float(exact_probability(s, bands, rows))
    assert SCurve(bands=bands, rows=rows).probability(s) == pytest.approx(exact, rel=4e-15, abs=1e-300)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("bands", "rows"), BANDINGS)
def test_ends_are_exact_and_the_curve_never_falls(bands: int, rows: int) -> None:
    curve = SCurve(bands=bands, rows=rows)
    p = curve.probability(np.linspace(0, 1, 1001))
    assert p[0] == 0 and p[-1] == 1 and np.all(np.diff(p) >= 0) and np.all((p >= 0) & (p <= 1))
    np.testing.assert_array_equal(curve.similarity_at([0.0, 1.0]), [0.0, 1.0])
    extremes = [5e-324, 1e-300, 0.5, math.nextafter(1, 0)]
    assert np.all(np.isfinite(curve.probability(extremes))) and np.all(np.isfinite(curve.similarity_at(extremes)))
    for value in (curve.threshold, curve.approximate_threshold, curve.slope, curve.width):
        assert math.isfinite(value)


def test_known_curves_have_their_published_values() -> None:
    curve = SCurve(bands=np.int32(42), rows=3)
    assert type(curve.bands) is int and curve == SCurve(bands=42, rows=3)
    # Leskovec, Rajaraman, Ullman, *Mining of Massive Datasets*, section 3.4.
    found = [curve.probability(s) for s in (0.5, 0.05, curve.approximate_threshold)]
    assert found == pytest.approx([0.9963, 0.00524, 0.6365], rel=1e-3)
    assert (curve.threshold, curve.approximate_threshold) == pytest.approx((0.25198, 0.28768), abs=5e-6)
    for twice in (SCurve(bands=5, rows=3), SCurve(bands=25, rows=6)):  # the rows, and the bands squared
        assert twice.approximate_threshold == pytest.approx(0.5848, abs=5e-5)
    curve = SCurve(bands=20, rows=5)
    assert curve.threshold == pytest.approx((0.8 / 19.8) ** 0.2, rel=1e-15)
    assert curve.approximate_threshold == pytest.approx(0.05**0.2, rel=1e-15)
    low, high = (1 - 0.95 ** (1 / 20)) ** 0.2, (1 - 0.05 ** (1 / 20)) ** 0.2
    assert curve.width == pytest.approx(high - low, rel=1e-12)
    several_bands, one_band, line = SCurve(bands=9, rows=1), SCurve(bands=1, rows=9), SCurve(bands=1, rows=1)
    assert (several_bands.threshold, several_bands.slope) == (0, 9)
    assert (one_band.threshold, one_band.slope) == (1, 9)
    assert (line.threshold, line.slope, line.width) == (0.5, 1, pytest.approx(0.9))


@pytest.mark.parametrize("method", ["probability", "similarity_at"])
def test_curves_take_numbers_and_arrays(method: str) -> None:
    call = getattr(SCurve(bands=20, rows=5), method)
    for number in (0.5, 1, np.float32(0.5), np.array(0.5)):
        assert isinstance(call(number), np.float64)
    for shape in ((0,), (3,), (2, 0), (2, 3)):
        array = call(np.full(shape, 0.25, np.float32))
        assert array.shape == shape and array.dtype == np.float64
    given = np.array([0.25, 0.75])
    np.testing.assert_array_equal(call(given), [call(0.25), call(0.75)])
    np.testing.assert_array_equal(given, [0.25, 0.75])  # left alone


# Below 1e-290 a share of p, among that of one band, may be subnormal: of few digits, whatever takes it.
@given(st.floats(1e-290, 1), counts, counts)
@example(0.0, 42, 3)
@example(1.0, 42, 3)
@example(1e-290, 300, 2)
@example(math.nextafter(1, 0), 42, 3)
def test_similarity_at_is_the_inverse_of_many_digits(p: float, bands: int, rows: int) -> None:
    with localcontext(prec=400):  # of 1e-290 there are left a hundred
        expected = float((1 - (1 - Decimal(p)) ** (1 / Decimal(bands))) ** (1 / Decimal(rows)))
    assert SCurve(bands=bands, rows=rows).similarity_at(p) == pytest.approx(expected, rel=1e-12, abs=0)


@pytest.mark.parametrize(("bands", "rows"), [(42, 3), (32, 4), (21, 6), (14, 9), (2, 2), (500, 2), (2, 60)])
def test_threshold_and_slope_are_those_of_the_steepest_point(bands: int, rows: int) -> None:
    curve = SCurve(bands=bands, rows=rows)
    s = np.linspace(0, 1, 200_001)
    steepness = np.gradient(curve.probability(s), s)
    assert curve.threshold == pytest.approx(s[np.argmax(steepness)], abs=2e-5)
    assert curve.slope == pytest.approx(steepness.max(), rel=1e-5)


def brute_force(num_perm: int, capture: tuple[float, float], reject: tuple[float, float]) -> tuple[int, int] | None:
    for rows in range(num_perm, 0, -1):
        for bands in range(num_perm // rows, 0, -1):
            found, unwanted = (1 - (1 - at**rows) ** bands for at in (capture[0], reject[0]))
            if found >= capture[1] and unwanted <= reject[1]:
                return bands, rows
    return None


@given(
    st.integers(1, 80),
    st.tuples(st.integers(2, 100), st.integers(1, 99)),
    st.tuples(st.integers(0, 99), st.integers(1, 99)),
)
def test_choice_equals_brute_force(num_perm: int, capture: tuple[int, int], reject: tuple[int, int]) -> None:
    wanted = (capture[0] / 100, capture[1] / 100 + 0.00123)  # off the round values that tie in floating point
    unwanted = (min(reject[0], capture[0] - 1) / 100, reject[1] / 100 + 0.00123)
    best = brute_force(num_perm, wanted, unwanted)
    if best is None:
        with pytest.raises(ParameterError, match="closest is"):
            choose_banding(num_perm, wanted, unwanted)
    else:
        assert choose_banding(num_perm, wanted, unwanted) == SCurve(bands=best[0], rows=best[1])


def test_choose_banding_meets_its_requirements() -> None:
    assert choose_banding(num_perm=128, capture=(0.5, 0.99), reject=(0.05, 0.01)) == SCurve(bands=42, rows=3)
    assert choose_banding() == SCurve(bands=42, rows=3)
    assert choose_banding(1, capture=(0.75, 0.75), reject=(0.5, 0.5)) == SCurve(bands=1, rows=1)  # met exactly
    # 42 x 3, all that fits into 128, finds 0.68 at 0.3: some values stay unused.
    chosen = choose_banding(128, capture=(0.5, 0.9), reject=(0.3, 0.5))
    assert chosen.rows == 3 and chosen.bands < 42
    assert chosen.probability(0.5) >= 0.9 and chosen.probability(0.3) <= 0.5
    assert SCurve(bands=chosen.bands + 1, rows=3).probability(0.3) > 0.5
    # Of 4 values: 4 x 1 misses by 0.06 and 0.49, 3 x 1 by 0.12 and 0.39, 2 x 1 by 0.25 and 0.26, 2 x 2 by 0.56.
    with pytest.raises(ParameterError, match=r"closest is 2 bands of 1 row with 0.75 and 0.36"):
        choose_banding(4, capture=(0.5, 0.9999), reject=(0.2, 0.1))
    with pytest.raises(ParameterError, match=r"capture is .*; give two numbers, \(similarity, probability\)"):
        choose_banding(128, capture={0.5, 0.9})  # type: ignore[arg-type] - a set has no order


def test_default_bandings_for_128_values_are_pinned() -> None:
    bandings = {0.5: (42, 3), 0.7: (32, 4), 0.8: (21, 6), 0.9: (14, 9), 1.0: (1, 128)}
    assert {threshold: default_banding(128, threshold) for threshold in bandings} == bandings
    for chosen, completed in (({"rows": 7}, (18, 7)), ({"bands": 18}, (18, 7)), ({"bands": 10, "rows": 10}, (10, 10))):
        assert default_banding(128, 0.8, **chosen) == completed
    assert default_banding(128, 0.01, bands=1) == (1, 128)  # the user's choice, however little it finds
    for threshold in (1e-5, 5e-324):
        with pytest.raises(ParameterError, match="not even the largest num_perm, 65536"):
            default_banding(128, threshold)


@given(st.integers(1, 400), st.integers(1, 100))
def test_the_default_banding_takes_the_most_rows(num_perm: int, percent: int) -> None:
    threshold = percent / 100

    def enough(bands: int, rows: int) -> bool:
        return exact_probability(threshold, bands, rows) >= Decimal("0.995")

    expected = max((r for r in range(1, num_perm + 1) if enough(num_perm // r, r)), default=None)
    if expected is not None:
        assert default_banding(num_perm, threshold) == (num_perm // expected, expected)
        return
    with pytest.raises(ParameterError) as error:
        default_banding(num_perm, threshold)
    named = int(str(error.value).split("give num_perm=")[1].split()[0])
    assert named > num_perm
    default_banding(named, threshold)
    with pytest.raises(ParameterError):
        default_banding(named - 1, threshold)


CURVE = SCurve(bands=42, rows=3)
BAD_NUMBERS = [1.5, -1e-9, math.nan, math.inf, "0.5", None, True, 1j, ["a"], [[0.1], [0.1, 0.2]], [0.1, 0.2, -3.0]]
REFUSED: list[tuple[Any, dict[str, Any]]] = [
    *((choose_banding, {"num_perm": number}) for number in (0, 12.5)),
    *((choose_banding, {"capture": capture}) for capture in (0.5, (0.5, 0.9, 0.1), (1.5, 0.9), (math.nan, 0.9))),
    *((choose_banding, {"reject": reject}) for reject in ((0.05, 0), (0.05, math.nan), (0.05, "x"))),
    *((choose_banding, {"capture": (0.5, 1.0)}), (choose_banding, {"capture": (0.5, 0.9), "reject": (0.5, 0.1)})),
    *((default_banding, {"bands": 13, "rows": 10}), (default_banding, {"bands": 129}), (default_banding, {"rows": 0})),
    *((default_banding, {"threshold": threshold}) for threshold in (0, 1.01, math.nan, "0.8", True)),
    *((default_banding, {"capture": 1}), (default_banding, {"num_perm": 65537})),
    *((SCurve, {"bands": bad}) for bad in (0, -1, 65537, 2.0, "3", None, True)),
    *((SCurve, {"rows": bad}) for bad in (0, 65537, "3")),
    *((CURVE.probability, {"similarity": bad}) for bad in BAD_NUMBERS),
    *((CURVE.similarity_at, {"probability": bad}) for bad in BAD_NUMBERS),
]
DEFAULTS = {default_banding: {"num_perm": 128, "threshold": 0.8}, SCurve: {"bands": 2, "rows": 2}}


def test_wrong_values_are_refused() -> None:
    for call, wrong in REFUSED:
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            call(**{**DEFAULTS.get(call, {}), **wrong})
    with pytest.raises(ParameterError, match=r"\[0, 1\] is nan"):
        CURVE.probability(np.array([[0.0, np.nan]]))
    with pytest.raises(ParameterError, match="MaskedArray"):  # the masked value was taken
        CURVE.probability(np.ma.array([0.5, 0.2], mask=[False, True]))


@pytest.mark.parametrize(("bits", "distance", "similarity"), [(64, 3, 0.95), (128, 12, 0.8)])
def test_near_bits_find_pairs_as_often_as_in_theory(bits: int, distance: int, similarity: float) -> None:
    """The share of equal-sized sets with near bits, and of those that meet in a table, equal the theory's."""
    generator, pairs, size = np.random.default_rng(1), 1000, 405
    common = round(2 * size * similarity / (1 + similarity))
    values = generator.integers(0, 2**64, (pairs, 2, size), np.uint64)
    values[:, 1, :common] = values[:, 0, :common]
    rows = gpulsh.Fingerprints(values.reshape(-1), np.arange(2 * pairs + 1) * size)
    words = np.asarray(gpulsh.SimHash(bits=bits)(rows, backend="cpu").values).reshape(pairs, 2, -1)
    apart = [int.from_bytes(one.tobytes(), "little") for one in words[:, 0] ^ words[:, 1]]
    near = NearBits(bits=bits, weights="set", seed=1, distance=distance)
    keys = designs(bits, distance)[near.tables].keys
    exact = common / (2 * size - common)
    for probability, found in (
        (near_probability(near, exact), sum(word.bit_count() <= distance for word in apart)),
        (meeting_probability(near, exact), sum(any(not word & key for key in keys) for word in apart)),
    ):
        assert 0.03 < probability < 0.9999
        assert abs(found / pairs - probability) < 4 * np.sqrt(probability * (1 - probability) / pairs) + 0.01
