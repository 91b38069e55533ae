"""Text and MinHash on the CPU backend: the reference's bits, in any chunks, on any threads."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.cpu import shingle as kernels
from gpulsh.backends.cpu.fingerprinting import keys as keys_there
from gpulsh.backends.cpu.giants import GIANT_BYTES
from gpulsh.backends.protocol import Backend, sketched
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.backends.unicode_table import UnicodeTable, unicode_table
from gpulsh.params import BandShape, Family, Shingling
from tests.support import naive
from tests.support.bounds import set_bounds
from tests.support.rows import LENGTHS, random_table, table, tables
from tests.support.same import same
from tests.support.texts import KEYS, batch_of, batches, licences, shinglings

REFERENCE = ReferenceBackend()
ONE = CpuBackend(1)


def test_it_is_a_backend() -> None:
    assert isinstance(ONE, Backend)


# --- texts


def check_texts(ops: CpuBackend, batch: TextBatch, shingling: Shingling) -> None:
    same(ops.shingle(batch, shingling), REFERENCE.shingle(batch, shingling))
    for keys in (None, KEYS):
        tokens = REFERENCE.tokens(batch, shingling.unit, keys)
        same(ops.tokens(batch, shingling.unit, keys), tokens)
        for rows in (tokens, tokens.slice(len(batch) // 2, len(batch))):
            same(ops.shingles(rows, shingling.size, keys), REFERENCE.shingles(rows, shingling.size, keys))
    same(ops.exact_hashes(batch, shingling, KEYS), REFERENCE.exact_hashes(batch, shingling, KEYS))
    same(ops.shingle_sets(batch, shingling), REFERENCE.shingle_sets(batch, shingling))
    same(ops.shingle_sets(batch, shingling, KEYS), REFERENCE.shingle_sets(batch, shingling, KEYS))


@settings(max_examples=300)
@given(batches(), shinglings)
def test_texts(batch: TextBatch, shingling: Shingling) -> None:
    check_texts(ONE, batch, shingling)


@settings(max_examples=50)
@given(batches(), shinglings, st.sampled_from([1, 2, 3, 7, 2**64]))
def test_parts(batch: TextBatch, shingling: Shingling, parts: int) -> None:
    whole = REFERENCE.shingle_sets(batch, shingling)
    chosen = range(parts) if parts < 8 else [whole.values[0].item() if len(whole.values) else 5, 2**64 - 1]
    found = [REFERENCE.shingle_part(batch, shingling, part, parts) for part in chosen]
    for part, wanted in zip(chosen, found, strict=True):
        same(ONE.shingle_part(batch, shingling, part, parts), wanted)
    if parts < 8:
        for row in range(len(batch)):
            joined = np.concatenate([one.values[one.offset[row] : one.offset[row + 1]] for one in found])
            same(joined, whole.values[whole.offset[row] : whole.offset[row + 1]])


@pytest.mark.parametrize("size", range(1, 65))
@pytest.mark.parametrize("unit", ["word", "char"])
def test_every_size(unit: Any, size: int) -> None:
    counts = (size - 1, size, size + 1, size + 31, 255 + size, 256 + size, 257 + size, 511 + size, 512 + size)
    words = [f"w{i % 7}" if unit == "word" else "abcdefg"[i % 7] for i in range(600)]
    joint = " " if unit == "word" else ""
    check_texts(
        ONE, batch_of([joint.join(words[:count]).encode() for count in counts]), Shingling(unit=unit, size=size)
    )


@pytest.mark.parametrize("unit", ["word", "char"])
@pytest.mark.parametrize("documents", [[], [b""], [b"", b""]])
def test_a_thread_whose_first_text_is_empty(unit: Any, documents: list[bytes]) -> None:
    with ThreadPoolExecutor(1) as fresh:
        fresh.submit(check_texts, ONE, batch_of(documents), Shingling(unit=unit)).result()
    ops = CpuBackend(2)  # with threads of its own
    check_texts(ops, batch_of(documents), Shingling(unit=unit))


def test_every_byte_at_every_place_of_a_block() -> None:
    """A block of text is read 64 bytes at once; what stands at its edges must not matter."""
    middles = [b"a", b" ", b"\xc3\xa9", b"\xe6\xbc\xa2", b"\xf0\x9f\x99\x82", b"\xcc\x81", b"\xff", b"\xe6\xbc", b"\0"]
    documents = [
        before * place + middle + after
        for middle, place in itertools.product(middles, [*range(55, 75), *range(120, 137)])
        for before, after in ((b"b", b"c d"), (b" ", b"c" * 70), (b"b ", b""))
    ]
    for unit in ("word", "char"):
        check_texts(ONE, batch_of(documents), Shingling(unit=unit, size=2))  # type: ignore[arg-type]


def test_words_of_all_lengths_in_runs_of_all_lengths() -> None:
    """Words are summed by runs and by whole vectors; what lies behind the last of either must not matter."""
    random = np.random.default_rng(7)
    letters = [*"abyz059AZ"]
    documents = []
    for count in (*range(1, 70, 4), 511, 512, 513, 544, 576, 577, 1023, 1025, 1057):
        lengths = random.choice(
            [1, 3, 7, 8, 9, 15, 16, 17, 24, 25, 55, 63, 64, 65, 130], count, p=[0.2, *[0.8 / 14] * 14]
        )
        words = ["".join(random.choice(letters, length)) for length in lengths]
        documents.append(" ".join(words).encode())
        words[random.integers(count)] += "é"
        documents.append(", ".join(words).encode())
    check_texts(ONE, batch_of(documents), Shingling(size=3))
    for document in documents[:20]:  # nothing is left of one in the next
        check_texts(ONE, batch_of([document]), Shingling(size=3))


def test_every_pair_of_lengths_around_a_block() -> None:
    documents = [b"x" * a + b" " + b"Y" * b for a in (0, 1, 7, 8, 9, 62, 63, 64, 65, 1000) for b in range(60, 74)]
    documents += [b" " * gap + b"w" * length for gap in range(50, 66) for length in (1, 8, 63, 64, 65)]
    check_texts(ONE, batch_of(documents), Shingling(size=1))


def test_long_words_of_all_lengths() -> None:
    """Summed a block at a time, where keys are far from those of a table, and up to what nobody may read."""
    letters = np.random.default_rng(9).choice([*"abyz059AZ"], 1100).tolist()
    lengths = [*range(17, 270), 320, 639, 640, 641, 1023, 1024, 1025]
    check_texts(ONE, batch_of(["".join(letters[:length]).encode() for length in lengths]), Shingling(size=1))
    joined = " ".join(part for length in lengths for part in ("".join(letters[-length:]), "é" * (length % 3)))
    check_texts(ONE, batch_of([joined.encode(), joined[::-1].encode()]), Shingling(size=2))


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("chunk", [1, 1000, 1 << 30])
def test_chunks_and_threads_of_real_text(threads: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_bounds(monkeypatch, chunk, chunk)
    batch = batch_of([text.encode()[:2000] for text in licences()[::70]] + [b"", b"x", b""])
    ops, family, shape = CpuBackend(threads), Family(num_perm=16), BandShape(bands=5, rows=3)
    check_texts(ops, batch, Shingling())
    same(ops.sign(batch, Shingling(), family, shape, KEYS), REFERENCE.sign(batch, Shingling(), family, shape, KEYS))


@settings(max_examples=50)
@given(batches(), shinglings, st.integers(1, 20), st.sampled_from([1, 2, 5]))
def test_sign(batch: TextBatch, shingling: Shingling, columns: int, threads: int) -> None:
    family, shape = Family(num_perm=columns), BandShape(bands=max(columns // 3, 1), rows=min(columns, 3))
    wanted = REFERENCE.sign(batch, shingling, family, shape, KEYS)
    same(CpuBackend(threads).sign(batch, shingling, family, shape, KEYS), wanted)
    signatures = REFERENCE.text_signatures(batch, shingling, family)
    same(CpuBackend(threads).text_signatures(batch, shingling, family), signatures)
    counts = REFERENCE.text_frequencies(batch, shingling, np.full(64, 250, np.uint8))
    same(CpuBackend(threads).text_frequencies(batch, shingling, np.full(64, 250, np.uint8)), counts)
    for rare in (0, 252):
        wanted = REFERENCE.text_prefixes(batch, shingling, counts, rare, 0.7, KEYS)
        same(CpuBackend(threads).text_prefixes(batch, shingling, counts, rare, 0.7, KEYS), wanted)


@pytest.fixture
def sparse() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "sparse"


def test_offsets_beyond_32_bits_of_text(sparse: Path) -> None:
    documents = [b"one two three four five six", b"", "हिन्दी 漢字 caf".encode() + b"\xc3", b"\xa9 x", b"z" * 80]
    text, start = b"".join(documents), 2**32 + 2**31 + 77
    values = np.memmap(sparse, np.uint8, "w+", shape=(start + len(text),))
    values[start:] = np.frombuffer(text, np.uint8)
    batch = TextBatch(values, start + np.cumsum([0, *map(len, documents)], dtype=np.int64))
    for unit in ("word", "char"):
        shingling = Shingling(unit=unit, size=3)  # type: ignore[arg-type]
        wanted = REFERENCE.shingle(batch_of(documents), shingling)
        for ops in (ONE, CpuBackend(2), REFERENCE):
            same(ops.shingle(batch, shingling), wanted)
            same(ops.exact_hashes(batch, shingling, KEYS), REFERENCE.exact_hashes(batch_of(documents), shingling, KEYS))


def test_offsets_beyond_32_bits_of_fingerprints(sparse: Path) -> None:
    rows = [[5, 3, 3, 2**64 - 1], [], [3, 7], list(range(300, 0, -1))]
    start = 2**32 + 5
    values = np.memmap(sparse, np.uint64, "w+", shape=(start + sum(map(len, rows)),))
    values[start:] = np.array([value for row in rows for value in row], np.uint64)
    far = Fingerprints(values, start + np.cumsum([0, *map(len, rows)], dtype=np.int64))
    near = table(rows)
    family = Family(num_perm=9)
    same(ONE.unique(far), REFERENCE.unique(near))
    same(sketched(ONE, far, family), sketched(REFERENCE, near, family))
    same(ONE.bitmaps(far), REFERENCE.bitmaps(near))
    same(ONE.frequencies(far, np.zeros(16, np.uint8)), REFERENCE.frequencies(near, np.zeros(16, np.uint8)))
    pairs = np.array([[0, 2], [2, 3], [1, 3]])
    same(ONE.intersect(pairs, sorted_far(far)), REFERENCE.intersect(pairs, REFERENCE.unique(near)))


def sorted_far(rows: Fingerprints) -> Fingerprints:
    """The unique rows in place: their values stand where they stood, so that offsets stay far."""
    unique, start = REFERENCE.unique(rows), int(rows.offset[0])
    rows.values[start : start + len(unique.values)] = unique.values
    return Fingerprints(rows.values, unique.offset + start)


def test_a_long_document() -> None:
    """50 MB in one document, of one repeated page: its fingerprints repeat, and are the reference's for the page."""
    page = "".join(text + "\n" for text in licences()[:40] if text.isascii())[:100_000].rpartition(" ")[0] + " "
    times = 50_000_000 // len(page) + 1
    for shingling in (Shingling(), Shingling(unit="char", size=9)):
        once = REFERENCE.shingle(batch_of([(page + page[:200]).encode()]), shingling).values
        tokens = len(naive.tokens(page + "a", shingling.unit)) - 1
        found = CpuBackend(2).shingle(batch_of([page.encode() * times + b"a", b"next one"]), shingling)
        assert int(found.offset[1]) == tokens * times + 1 - shingling.size + 1
        same(found.values[:tokens], once[:tokens])
        whole = found.values[: found.offset[1]]
        assert (whole[tokens:-12] == whole[: -tokens - 12]).all()
        del found, whole


def test_a_table_that_several_threads_make_lives_while_they_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what they make at the same time a cache keeps one."""
    threads = 4
    together, table, dead = Barrier(threads), unicode_table(), list[int]()

    def made_anew() -> UnicodeTable:
        together.wait(30)
        stages = table.stage1.copy(), table.stage2.copy()
        for stage in stages:
            weakref.finalize(stage, dead.append, stage.ctypes.data)
        return UnicodeTable(*stages)

    def read(*given: Any) -> None:
        together.wait(30)
        assert not {given[4], given[5]} & set(dead)
        read_before(*given)

    read_before = kernels.fingerprint_words
    monkeypatch.setattr(keys_there, "unicode_table", made_anew)
    monkeypatch.setattr(kernels, "fingerprint_words", read)
    batch = batch_of([b"Some words", b"other WORDS"])
    keys_there.kernel_table.cache_clear()
    try:
        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(lambda _: ONE.shingle(batch, Shingling()), range(threads)))
    finally:
        keys_there.kernel_table.cache_clear()
    for one in found:
        same(one, REFERENCE.shingle(batch, Shingling()))


def test_one_token_of_many_megabytes() -> None:
    """Its hash is the defined sum, taken here by vector arithmetic."""
    length = 20_000_000
    text = np.random.default_rng(3).integers(ord("a"), ord("z") + 1, length, np.uint8)
    u = np.uint64

    def mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
        x = (x ^ x >> u(27)) * u(0x3C79AC492BA7B653)
        x = (x ^ x >> u(33)) * u(0x1C69B3F74AC4AE35)
        return x ^ x >> u(27)

    total = length * naive.LENGTH
    for first in range(0, length, 1 << 20):
        part = text[first : first + (1 << 20)].astype(u)
        places = np.arange(first + 1, first + len(part) + 1, dtype=u)
        keys = mixed(places * u(naive.GOLDEN) + u(naive.TOKEN)) | u(1)
        total += int((keys * part).sum(dtype=u))
    token = naive.mix(total)
    ONE.shingle(TextBatch(text, np.array([0, 2 * GIANT_BYTES])), Shingling())  # compiled, or loaded
    began = time.perf_counter()
    found = ONE.shingle(TextBatch(text, np.array([0, length])), Shingling())
    assert time.perf_counter() - began < 5
    assert found.values.tolist() == [naive.hashed(naive.SHINGLE, [token])]


# --- fingerprints


@pytest.mark.parametrize(("a", "b"), [(0, 1), (2**63 + 5, 2**63 + 6), (0, 2**64 - 1), (3, 3)])
def test_a_row_of_two_values_many_times_over(a: int, b: int) -> None:
    """Nothing there is quadratic in repeats."""
    rows = table([[a, b] * 50_000 + [a], [b] * 100_000])
    began = time.perf_counter()
    found = ONE.unique(rows)
    assert time.perf_counter() - began < 5
    same(found, REFERENCE.unique(rows))


@settings(max_examples=60)
@given(tables, st.integers(1, 40), st.integers(0, 2**64 - 1))
def test_minhash(rows: list[list[int]], columns: int, seed: int) -> None:
    family = Family(num_perm=columns, seed=seed)
    same(sketched(ONE, table(rows, 2), family), sketched(REFERENCE, table(rows, 2), family))


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("columns", [1, 8, 127, 128])
def test_minhash_of_every_length(columns: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if threads > 1:
        set_bounds(monkeypatch, 300, 300)
    family, rows = Family(num_perm=columns), random_table(LENGTHS)
    same(sketched(CpuBackend(threads), rows, family), sketched(REFERENCE, rows, family))


# --- signatures and digests


READS_TO_THE_LAST_BYTE = """
import ctypes, mmap
import numpy as np
from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu import CpuBackend
from gpulsh.params import Shingling

page = mmap.PAGESIZE
memory = mmap.mmap(-1, 2 * page)
bytes_of = np.frombuffer(memory, np.uint8)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.mprotect(ctypes.c_void_p(bytes_of.ctypes.data + page), ctypes.c_size_t(page), 0) == 0
tails = [b"", b"a", b"ab " * 50, b"w" * 200, "é".encode(), b"\\xc3", b"\\xe6\\xbc", b"\\xf0\\x9d\\x92", b" "]
for tail in tails:
    for length in range(130):
        text = (b"x" * length + tail)
        bytes_of[page - len(text) : page] = np.frombuffer(text, np.uint8)
        for offset in ([0, length, len(text)], [0, len(text)]):
            batch = TextBatch(bytes_of[page - len(text) : page], np.array(offset))
            for unit in ("word", "char"):
                CpuBackend(1).shingle(batch, Shingling(unit=unit, size=2))
print("read")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect by ctypes")
def test_nothing_is_read_behind_the_text() -> None:
    """The text ends where a page begins that may not be read: one byte too far ends the process."""
    command = [sys.executable, "-c", READS_TO_THE_LAST_BYTE]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "read\n"), done.stderr[-500:]
