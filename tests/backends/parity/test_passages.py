"""winnow, window_hashes and token_bounds: samples and hashes of windows, and the bytes of tokens; examples."""

import itertools
from itertools import pairwise

import numpy as np
import pytest

from gpulsh.arrays import Fingerprints, TextBatch, Tokens
from gpulsh.backends.protocol import NO_DIGEST, WINDOW_PART, Backend
from gpulsh.params import Shingling, Unit
from tests.backends.parity.agreement import REFERENCE, agree, far_array, fewer, said
from tests.backends.parity.test_any import bounds_of_tokens
from tests.support import naive
from tests.support.rows import LENGTHS, random_table, table
from tests.support.texts import ALL_READINGS, AWKWARD, KEYS, UNITS, batch_of, known

every_unit = pytest.mark.parametrize("unit", UNITS)


@pytest.mark.parametrize("universe", [2, 2**64])
def test_samples_of_rows_of_every_length(ops: Backend, universe: int) -> None:
    for size in (1, 2, 3, 31, 64, 200):
        agree(ops, "winnow", random_table(LENGTHS[: fewer(ops, 28, 24)], universe), size)


def test_samples_of_awkward_rows(ops: Backend) -> None:
    up = list(range(90))
    rows = table([up, up[::-1], [7] * 90, [NO_DIGEST] * 40, [], [3], [1, 0] * 30, [*range(9)] * 30], 3)
    for size in (1, 2, 7, 90, 91):
        found, wanted = agree(ops, "winnow", rows, size), set()
        agree(ops, "winnow", table([[], []]), size)
        for start, stop in pairwise(rows.offset.tolist()):
            for first in range(start, stop - size + 1):  # each window has the last of its least among the samples
                window = rows.values[first : first + size].tolist()
                wanted.add(first + size - 1 - window[::-1].index(min(window)))
        assert set(found.tolist()) == wanted and len(wanted) == len(found)
    agree(ops, "winnow", table([]), 3)


def test_samples_beyond_4_gib(ops: Backend) -> None:
    far = 2**29 + 5
    for judged in (ops, REFERENCE):
        values = far_array(judged, far, np.array([5, 4, 6, 7], np.uint64))
        rows = Fingerprints(values, judged.asarray(np.array([far, far + 4])))
        assert judged.asnumpy(judged.winnow(rows, 2)).tolist() == [far + 1, far + 2]


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 16, 17, 33, 64, 65, 200, 1030])
def test_hashes_of_windows(ops: Backend, size: int) -> None:
    """Runs of windows at the beginning, the end and in the middle of rows, and a row that is one."""
    rows = random_table([size, size + 30, 5, size + 100])
    begin, windows = rows.offset[[0, 1, 1, 3, 3]] + np.array([0, 3, 25, 0, 60]), np.array([1, 20, 6, 40, 41])
    tokens = Tokens(rows.values, rows.offset)
    for keys, hashes in zip((None, KEYS), agree(ops, "window_hashes", tokens, begin, windows, size, KEYS), strict=True):
        assert len(np.unique(hashes)) == len(hashes) == windows.sum()
        if size <= WINDOW_PART:
            shingles = said("shingles", tokens, size, keys)
            assert hashes[:21].tolist() == shingles.values[[0, *range(4, 24)]].tolist()
    assert list(map(len, agree(ops, "window_hashes", tokens, begin[:0], windows[:0], size, KEYS))) == [0, 0]


def test_equal_windows_have_equal_hashes(ops: Backend) -> None:
    rows = table([list(range(90)), [5, 5, *range(20, 85), 1]], 3)
    begin, windows = rows.offset[:2] + np.array([20, 2]), np.array([16, 16])
    for found in agree(ops, "window_hashes", Tokens(rows.values, rows.offset), begin, windows, 50, KEYS):
        assert found[:16].tolist() == found[16:].tolist() and len(set(found.tolist())) == 16


def test_hashes_of_many_windows(ops: Backend) -> None:
    many = fewer(ops, 2500, 300)
    rows = random_table([many + 49])
    agree(ops, "window_hashes", Tokens(rows.values, rows.offset), rows.offset[:1], np.array([many]), 50, KEYS)


def check_bounds(ops: Backend, text: TextBatch, shingling: Shingling) -> None:
    for step in (1, 2, 7):
        bounds_of_tokens(ops, text, shingling, step)


@every_unit
def test_bounds_are_those_of_the_tokens(ops: Backend, unit: Unit) -> None:
    texts = ["One, two — drei 四五 six", "", "...", "नमस्ते दुनिया", "é", " x  y ", "a" * 300 + " b", "+ C++ 👍🏽 +"]
    text = batch_of([one.encode() for one in texts], b"zz\xc3", b"\xa9a")
    bounds = iter(bounds_of_tokens(ops, text, Shingling(unit=unit)).tolist())
    for one in texts:
        words = naive.tokens(known(one), unit)
        found = [one.encode()[start:stop].decode() for _, (start, stop) in zip(words, bounds, strict=False)]
        assert [naive.tokens(piece, unit) or [" "] for piece in found] == [[word] for word in words]
    assert next(bounds, None) is None


@pytest.mark.parametrize("shingling", ALL_READINGS)
def test_bounds_of_awkward_documents(ops: Backend, shingling: Shingling) -> None:
    rows = [b"", b"x", b" ", *AWKWARD, *(b"a" + piece + b"b " + piece for piece in AWKWARD)]
    check_bounds(ops, batch_of(rows, b"ab\xe4", b"\xb8\x80c"), shingling)
    cuts = [(piece[:cut], piece[cut:]) for piece in AWKWARD for cut in range(1, len(piece))]
    check_bounds(ops, batch_of([part for one, other in cuts for part in (b"a" + one, other + b"b")]), shingling)


@pytest.mark.parametrize("shingling", ALL_READINGS)
def test_bounds_around_blocks(ops: Backend, shingling: Shingling) -> None:
    """Words and gaps that end at, before and behind 28 and 64 bytes."""
    rows = []
    for gap, word in itertools.product((0, 1, 27, 28, 29, 63, 64, 65), (1, 27, 28, 29, 63, 64, 65, 200)):
        rows.append(b" " * gap + b"w" * word + b"+" + b" " * gap + b"v" * word)
    check_bounds(ops, batch_of([*rows, "é".encode().join(rows[:20]), b"w" * 5000, b" " * 3000 + b"x"]), shingling)


def test_no_bounds_are_wanted(ops: Backend) -> None:
    none = np.empty(0, np.int64)
    for rows in ([], [b"", b"a b"]):
        assert agree(ops, "token_bounds", batch_of(rows), Shingling(), none, none).shape == (0, 2)
