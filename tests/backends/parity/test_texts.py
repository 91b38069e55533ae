"""Text to tokens, shingles, sets and windows, public and keyed, with rarely drawn arguments."""

import itertools
from itertools import pairwise

import numpy as np
import pytest

from gpulsh.arrays import Fingerprints, TextBatch, Tokens
from gpulsh.backends.protocol import NO_DIGEST, WINDOW_PART, Backend
from gpulsh.params import PLAIN, Folding, Reading, Shingling, Unit
from tests.backends.parity.agreement import REFERENCE, agree, expected, far_array, fewer
from tests.backends.parity.test_any import bounds_of_tokens, passes_over_text, texts
from tests.support import naive
from tests.support.rows import LENGTHS, random_table, same, table
from tests.support.texts import ALL_READINGS, AWKWARD, KEYS, READINGS, UNITS, batch_of, known, shingling_of

every_unit = pytest.mark.parametrize("unit", UNITS)


def check(ops: Backend, text: TextBatch, unit: Unit, size: int, reading: Reading = PLAIN) -> None:
    texts(ops, text, shingling_of(unit, size, *reading))


@every_unit
@pytest.mark.parametrize("vocabulary", [7, 600])
def test_shingles_of_every_size_and_number(ops: Backend, unit: Unit, vocabulary: int) -> None:
    joint, first = (" ", 0) if unit == "word" else ("", ord("a") if vocabulary == 7 else 0x4E00)
    tokens = [f"w{i % vocabulary}" if unit == "word" else chr(first + i % vocabulary) for i in range(600)]
    for size in (1, 64, 5, 33)[: fewer(ops, 4, 2)]:
        counts = [size - 1, *(size - 1 + count for count in (1, 2, 31, 32, 33, 255, 256, 257, 258, 512, 513))]
        documents = [joint.join(tokens[:count]).encode() for count in counts]
        check(ops, batch_of([part for document in documents for part in (document, b"", b"one")]), unit, size)


@every_unit
def test_shingles_of_empty_and_short_documents(ops: Backend, unit: Unit) -> None:
    little = [b"", b"one", b"a b", b"a b c d e f " * 30, "漢字 かな हिन्दी ".encode() * 9, b" \xff "]
    for rows in ([], [b""], [b"", b"", b""], [b"."], [b"\xff", b""], little):
        for around in ((), (b"before", b"behind")):
            check(ops, batch_of(rows, *around), unit, 5)
            passes_over_text(ops, batch_of(rows, *around), Shingling(unit=unit, size=2))


@every_unit
@pytest.mark.parametrize("reading", READINGS)
def test_shingles_of_awkward_documents(ops: Backend, unit: Unit, reading: Reading) -> None:
    """Documents end inside every awkward sequence; each byte also comes alone and in a row."""
    rows = [b"", b"x", b" ", b"", b" x ", b"  ", *AWKWARD, *(b"a" + piece for piece in AWKWARD), b"", b""]
    rows += [piece + b"a" for piece in AWKWARD] + [piece + "語".encode() + piece for piece in AWKWARD]
    check(ops, batch_of(rows, b"ab\xe4", b"\xb8\x80c"), unit, 2, reading)
    cuts = [(piece[:cut], piece[cut:]) for piece in AWKWARD for cut in range(1, len(piece))]
    check(ops, batch_of([part for before, behind in cuts for part in (b"a" + before, behind + b"b")]), unit, 1, reading)
    every = bytes(range(128))
    rows = [bytes([byte]) for byte in range(256)] + [b""] * 100 + [every, b"a" + b"a".join(bytes([b]) for b in every)]
    check(ops, batch_of(rows), unit, 1, reading)


@pytest.mark.parametrize("symbols", [False, True])
def test_shingles_of_stems(ops: Backend, symbols: bool) -> None:
    pytest.importorskip("snowballstemmer", reason="the extra text is not installed")
    rows = [b"The runner's CONNECTIONS, running; connected\xff to runs", b"", "Läufer laufen – connecting!".encode()]
    text = batch_of([*rows, b"to", *rows[::-1]], b"runn", b"ing")
    for choices in ({}, {"stop": ["The", "runs"]}, {"anchor": "stopwords", "stop": ["to", "running"]}):
        shingling = Shingling(size=2, symbols=symbols, stem="porter", **choices)
        texts(ops, text, shingling)
        texts(ops, text, shingling.with_folding(Folding(case=False)))


@every_unit
def test_shingles_of_every_byte_sequence_between_letters(ops: Backend, unit: Unit) -> None:
    edges = [0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0]
    rest = [(0x80, 0xA1), (0xBF, 0xBF), (0x7F, 0x80), (0xC0, 0x80), (0xA0, 0x61), (0x95, 0xC3)]
    leads = [*range(0x7E, 0x82), *range(0xBE, 0xC4), 0xCE, *range(0xDE, 0xE3), *range(0xEB, 0x100)]
    rows = [bytes([0x61, lead, second, *more, 0x62]) for lead in leads for second in edges for more in rest]
    text, shingling = batch_of(rows), Shingling(unit=unit, size=1)
    agree(ops, "shingle", text, shingling)
    agree(ops, "exact_hashes", text, shingling, KEYS)


@every_unit
def test_shingles_at_every_alignment(ops: Backend, unit: Unit) -> None:
    rows = [b"Alignment 0123456789 of 16 bytes, @[`{/:", b"", "é語x".encode() * 5, b"z"]
    for shift in range(16):
        check(ops, batch_of(rows, b"x" * shift, b"y" * (-3 * shift % 16)), unit, 1)


@every_unit
@pytest.mark.parametrize("reading", READINGS[::3])
def test_characters_at_every_position_of_a_block(ops: Backend, unit: Unit, reading: Reading) -> None:
    """The CPU reads a block of text 64 bytes at once; the characters at its edges must not matter."""
    middles = ["a", " ", "@", "_ ", "é", "漢", "🙂", "\u0301", "\0"]
    places = [*range(55, 75), *range(120, 137)][:: fewer(ops, 1, 9) if reading == PLAIN else 9]
    documents = [
        before * place + middle + after
        for middle, place in itertools.product([*map(str.encode, middles), b"\xff", b"\xe6\xbc"], places)
        for before, after in ((b"b", b"c d"), (b" ", b"c" * 70), (b"b ", b""))
    ]
    text, shingling = batch_of(documents), shingling_of(unit, 2, *reading)
    agree(ops, "shingle", text, shingling)
    agree(ops, "exact_hashes", text, shingling, KEYS)


def test_runs_of_words_of_all_lengths(ops: Backend) -> None:
    """Words are summed by runs and by whole vectors; the bytes after either must not matter."""
    random = np.random.default_rng(7)
    some, letters, documents = [1, 3, 7, 8, 9, 15, 16, 17, 24, 25, 55, 63, 64, 65, 130], [*"abyz059AZ"], []
    for count in (1, 5, 9, 33, 65, 511, 512, 513, 576, 577, 1025)[:: fewer(ops, 1, 3)]:
        lengths = random.choice(some, count, p=[0.2, *[0.8 / 14] * 14])
        words = ["".join(random.choice(letters, length)) for length in lengths]
        documents.append(" ".join(words).encode())
        words[random.integers(count)] += "é"
        documents.append(", ".join(words).encode())
    text, shingling = batch_of(documents), Shingling(size=3)
    agree(ops, "shingle", text, shingling)
    agree(ops, "exact_hashes", text, shingling, KEYS)
    for document in documents[:10]:  # nothing is left of one in the next
        check(ops, batch_of([document]), "word", 3)


def test_shingles_of_long_words(ops: Backend) -> None:
    """Words are summed a block at a time, far beyond the keys of a table, up to memory that cannot be read."""
    documents = [b"x" * a + b" " + b"Y" * b for a in (0, 1, 8, 9, 62, 63, 64, 65, 1000) for b in range(60, 74)]
    documents += [b" " * gap + b"w" * length for gap in range(50, 66) for length in (1, 8, 63, 64, 65)]
    check(ops, batch_of(documents), "word", 1)
    letters = np.random.default_rng(9).choice([*"abyz059AZ"], 1100).tolist()
    lengths = [*range(17, 270, fewer(ops, 2, 5)), 320, 639, 640, 641, 1023, 1024, 1025]
    check(ops, batch_of(["".join(letters[:length]).encode() for length in lengths]), "word", 1)
    joined = " ".join(part for length in lengths for part in ("".join(letters[-length:]), "é" * (length % 3)))
    check(ops, batch_of([joined.encode(), joined[::-1].encode()]), "word", 2)


@every_unit
def test_full_tiles_and_tokens_longer_than_a_tile(ops: Backend, unit: Unit) -> None:
    lengths = [31, 119, 120, 121, 240, 671, 672, 673, 1500]
    rows = [b"a" * length for length in lengths] + [b"bc " + "é".encode() * length + b"-d" for length in lengths]
    rows += ["語".encode() * 400, b" " * 700 + b"end", b"z" + b"." * 999, b"", b"q" * 12000 + b" r"]
    check(ops, batch_of(rows), unit, 3)
    agree(ops, "shingle", batch_of([" ".join(f"{i:x}" for i in range(2500)).encode()]), Shingling(unit=unit, size=64))


@every_unit
@pytest.mark.parametrize("first", [2**31 + 5, 2**32 + 2**31 + 77])
def test_offsets_beyond_32_bits(ops: Backend, unit: Unit, first: int) -> None:
    rows = [b"one two three four five six", b"", "हिन्दी 漢字 caf".encode() + b"\xc3", b"\xa9 x", b"z" * 80]
    near, shingling = batch_of(rows), Shingling(unit=unit, size=3)
    for judged in (ops, REFERENCE):
        far = TextBatch(far_array(judged, first, near.values), judged.asarray(near.offset + first))
        same(judged.shingle(far, shingling), expected("shingle", near, shingling), judged.asnumpy)
        same(judged.exact_hashes(far, shingling, KEYS), expected("exact_hashes", near, shingling, KEYS), judged.asnumpy)


# --- samples and hashes of windows, and the bytes of tokens


def test_winnowing_of_awkward_rows(ops: Backend) -> None:
    for universe, size in itertools.product((2, 2**64), (1, 2, 3, 31, 64, 200)):
        agree(ops, "winnow", random_table(LENGTHS[: fewer(ops, 28, 24)], universe), size)
    up = list(range(90))
    rows = table([up, up[::-1], [7] * 90, [NO_DIGEST] * 40, [], [3], [1, 0] * 30, [*range(9)] * 30], 3)
    for size in (1, 2, 7, 90, 91):
        found, wanted = agree(ops, "winnow", rows, size), set()
        for start, stop in pairwise(rows.offset.tolist()):
            for first in range(start, stop - size + 1):  # each window has the last of its least among the samples
                window = rows.values[first : first + size].tolist()
                wanted.add(first + size - 1 - window[::-1].index(min(window)))
        assert set(found.tolist()) == wanted and len(wanted) == len(found)
    for nothing in ([], [[], []]):
        agree(ops, "winnow", table(nothing), 3)


def test_winnowing_beyond_4_gib(ops: Backend) -> None:
    far = 2**29 + 5
    for judged in (ops, REFERENCE):
        values = far_array(judged, far, np.array([5, 4, 6, 7], np.uint64))
        rows = Fingerprints(values, judged.asarray(np.array([far, far + 4])))
        assert judged.asnumpy(judged.winnow(rows, 2)).tolist() == [far + 1, far + 2]


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 16, 17, 33, 64, 65, 200, 1030])
def test_window_hashes_at_the_ends_and_middles_of_rows(ops: Backend, size: int) -> None:
    """Windows are taken at both ends and in the middle of rows, and from a row of one window."""
    rows = random_table([size, size + 30, 5, size + 100])
    begin, windows = rows.offset[[0, 1, 1, 3, 3]] + np.array([0, 3, 25, 0, 60]), np.array([1, 20, 6, 40, 41])
    tokens = Tokens(rows.values, rows.offset)
    for keys, hashes in zip((None, KEYS), agree(ops, "window_hashes", tokens, begin, windows, size, KEYS), strict=True):
        assert len(np.unique(hashes)) == len(hashes) == windows.sum()
        if size <= WINDOW_PART:
            shingles = expected("shingles", tokens, size, keys)
            assert hashes[:21].tolist() == shingles.values[[0, *range(4, 24)]].tolist()
    assert list(map(len, agree(ops, "window_hashes", tokens, begin[:0], windows[:0], size, KEYS))) == [0, 0]


def test_equal_windows_have_equal_hashes(ops: Backend) -> None:
    rows = table([list(range(90)), [5, 5, *range(20, 85), 1]], 3)
    begin, windows = rows.offset[:2] + np.array([20, 2]), np.array([16, 16])
    for found in agree(ops, "window_hashes", Tokens(rows.values, rows.offset), begin, windows, 50, KEYS):
        assert found[:16].tolist() == found[16:].tolist() and len(set(found.tolist())) == 16
    many = fewer(ops, 2500, 300)
    rows = random_table([many + 49])
    agree(ops, "window_hashes", Tokens(rows.values, rows.offset), rows.offset[:1], np.array([many]), 50, KEYS)


@every_unit
def test_bounds_enclose_their_tokens(ops: Backend, unit: Unit) -> None:
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
    """Awkward sequences, whole and cut; words and gaps that end at, before and after 28 and 64 bytes."""
    rows = [b"", b"x", b" ", *AWKWARD, *(b"a" + piece + b"b " + piece for piece in AWKWARD)]
    cuts = [(piece[:cut], piece[cut:]) for piece in AWKWARD for cut in range(1, len(piece))]
    blocks = [
        b" " * gap + b"w" * word + b"+" + b" " * gap + b"v" * word
        for gap, word in itertools.product((0, 1, 27, 28, 29, 63, 64, 65), (1, 27, 28, 29, 63, 64, 65, 200))
    ]
    for text in (
        batch_of(rows, b"ab\xe4", b"\xb8\x80c"),
        batch_of([part for one, other in cuts for part in (b"a" + one, other + b"b")]),
        batch_of([*blocks, "é".encode().join(blocks[:20]), b"w" * 5000, b" " * 3000 + b"x"]),
    ):
        for step in (1, 2, 7):
            bounds_of_tokens(ops, text, shingling, step)
    none = np.empty(0, np.int64)
    for few in ([], [b"", b"a b"]):
        assert agree(ops, "token_bounds", batch_of(few), shingling, none, none).shape == (0, 2)
