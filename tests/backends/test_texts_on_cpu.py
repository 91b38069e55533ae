"""Text on the CPU backend: chunks and threads of real text, very long documents, and the ends of memory."""

import hashlib
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu import CpuBackend, shingle
from gpulsh.backends.cpu.fingerprinting.characters import KernelTable, kernel_table
from gpulsh.backends.cpu.hashes import sha1
from gpulsh.backends.cpu.shingle import GIANT_BYTES
from gpulsh.backends.cpu.texts import TOKEN_BYTES, token_texts
from gpulsh.backends.cpu.threads import Threads
from gpulsh.backends.host import keyed_hashes
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.errors import InputTypeError
from gpulsh.params import PLAIN, Reading, Shingling
from tests.backends.parity.test_texts import check
from tests.support import naive
from tests.support.rows import same, table
from tests.support.runs import python
from tests.support.texts import batch_of, licences

REFERENCE = ReferenceBackend()
ONE = CpuBackend(1)


@pytest.mark.parametrize("unit", ["word", "char"])
def test_a_new_thread_may_begin_with_an_empty_text(unit: Any) -> None:
    for documents in ([], [b""], [b"", b""]):
        with ThreadPoolExecutor(1) as fresh:
            fresh.submit(check, ONE, batch_of(documents), unit, 5).result()


def test_a_long_repeated_page_has_the_fingerprints_of_the_page() -> None:
    """A document of many chunks repeats one page: it has the reference's fingerprints of that page."""
    page = "".join(text + "\n" for text in licences()[:40] if text.isascii())[:50_000].rpartition(" ")[0] + " "
    times = 5_000_000 // len(page) + 1
    for shingling in (Shingling(), Shingling(unit="char", size=9)):
        once = REFERENCE.shingle(batch_of([(page + page[:200]).encode()]), shingling).values
        tokens = len(naive.tokens(page + "a", shingling.unit)) - 1
        found = CpuBackend(2).shingle(batch_of([page.encode() * times + b"a", b"next one"]), shingling)
        assert int(found.offset[1]) == tokens * times + 1 - shingling.size + 1
        whole = found.values[: found.offset[1]]
        same(whole[:tokens], once[:tokens])
        assert (whole[tokens:-12] == whole[: -tokens - 12]).all()


@pytest.mark.parametrize("count", [2, 8, 32, 192])
def test_many_threads_do_not_get_short_chunks(count: int) -> None:
    """Python's work for a chunk holds a lock, and many short chunks take longer than a few long ones."""
    chunks: list[tuple[int, int]] = []
    text = batch_of([b"word " * 1000] * 3200)  # 16 MB
    shingle.TextPass(Threads(count), text, Shingling()).map(lambda start, stop: chunks.append((start, stop)))
    assert sorted(chunks)[0][0] == 0 and all(stop == start for (_, stop), (start, _) in pairwise(sorted(chunks)))
    assert 8 <= len(chunks) <= 20


def test_a_kernel_table_lives_while_threads_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads make several tables at the same time, and the cache keeps one."""
    threads = 4
    together, made, dead = Barrier(threads), kernel_table(PLAIN), list[int]()

    def made_anew(reading: Reading) -> KernelTable:
        together.wait(30)
        stages = made.stages.copy()
        weakref.finalize(stages, dead.append, stages.ctypes.data)
        return KernelTable(stages, stages.ctypes.data)

    def read(*given: Any) -> None:
        together.wait(30)
        assert given[3][1] not in dead
        read_before(*given)

    read_before = shingle.fingerprint_documents
    monkeypatch.setattr(shingle, "kernel_table", cache(made_anew))
    monkeypatch.setattr(shingle, "fingerprint_documents", read)
    batch = batch_of([b"Some words", b"other WORDS"])
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(lambda _: ONE.shingle(batch, Shingling()), range(threads)))
    for one in found:
        same(one, REFERENCE.shingle(batch, Shingling()))


def test_a_token_of_many_megabytes_is_hashed_as_defined() -> None:
    """The expected hash is the defined sum, computed with arrays."""
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
    began = time.process_time()
    found = ONE.shingle(TextBatch(text, np.array([0, length])), Shingling())
    assert time.process_time() - began < 5
    assert found.values.tolist() == [naive.hashed(naive.SHINGLE, [token])]


@pytest.mark.parametrize(("a", "b"), [(0, 1), (2**63 + 5, 2**63 + 6), (0, 2**64 - 1), (3, 3)])
def test_unique_takes_linear_time_for_repeats(a: int, b: int) -> None:
    """The time must not grow with the square of the repeats."""
    rows = table([[a, b] * 50_000 + [a], [b] * 100_000])
    began = time.process_time()
    found = ONE.unique(rows)
    assert time.process_time() - began < 5
    same(found, REFERENCE.unique(rows))


READS_TO_THE_LAST_BYTE = """
import ctypes, mmap
import numpy as np
from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu import CpuBackend
from gpulsh.params import Shingling

page = mmap.PAGESIZE
memory = mmap.mmap(-1, 2 * page)
content = np.frombuffer(memory, np.uint8)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.mprotect(ctypes.c_void_p(content.ctypes.data + page), ctypes.c_size_t(page), 0) == 0
tails = [b"", b"a", b"ab " * 50, b"w" * 200, "é".encode(), b"\\xc3", b"\\xe6\\xbc", b"\\xf0\\x9d\\x92", b" "]
for tail in tails:
    for length in (*range(18), *range(54, 74), *range(118, 130)):
        text = (b"x" * length + tail)
        content[page - len(text) : page] = np.frombuffer(text, np.uint8)
        for offset in ([0, length, len(text)], [0, len(text)]):
            batch = TextBatch(content[page - len(text) : page], np.array(offset))
            for unit in ("word", "char"):
                CpuBackend(1).shingle(batch, Shingling(unit=unit, size=2))
print("read")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect by ctypes")
def test_no_byte_is_read_after_the_text() -> None:
    """The text ends at a page that cannot be read: one byte too far ends the process."""
    assert python(READS_TO_THE_LAST_BYTE) == "read\n"


# --- byte strings of Python, and their hashes

lenders: Any = st.sampled_from([bytes, bytes, bytes, bytearray, memoryview])
tokens = st.builds(lambda lent, text: lent(text), lenders, st.binary(max_size=3 * TOKEN_BYTES))


def texts_by_set(sets: list[list[Any]]) -> list[list[bytes]]:
    texts, begins = token_texts(sets)
    rows = [texts.values[start:stop].tobytes() for start, stop in pairwise(texts.offset.tolist())]
    return [rows[start:stop] for start, stop in pairwise(begins.tolist())]


@given(sets=st.lists(st.lists(tokens, max_size=9), max_size=9))
def test_token_sets_become_texts(sets: list[list[Any]]) -> None:
    assert texts_by_set(sets) == [[bytes(token) for token in one] for one in sets]


@pytest.mark.parametrize("seen", [0, 1, 3])
def test_a_list_that_another_thread_changes_is_read_safely(seen: int) -> None:
    """Where `len` and the list differ, the kernel reads the list's tokens and nothing beyond."""

    class Changing(list[bytes]):
        def __len__(self) -> int:
            return seen

    assert texts_by_set([[b"a"], Changing([b"b", b"c"]), [b"d"]]) == [[b"a"], [b"b", b"c"], [b"d"]]


def test_a_token_without_bytes_is_refused() -> None:
    with pytest.raises(InputTypeError, match="tokens hold a str; give bytes"):
        token_texts([[b"a"], [b"b", "text"]])
    assert texts_by_set([[b"c"]]) == [[b"c"]]


def test_sha1_of_every_length_equals_hashlib() -> None:
    text = bytes(range(256)) * 2
    several = [text[:length] for length in range(200)]
    for rows in (several, [b"", text[:55], text[:56], text[:63], text[:64], text[:120], text, b"\xff" * 3], []):
        batch = batch_of([b"before", *rows])
        found = sha1(TextBatch(batch.values, batch.offset[1:]))
        assert found.tolist() == [int.from_bytes(hashlib.sha1(row).digest()[:8], "little") for row in rows]


MASK = (1 << 64) - 1


def siphash(data: bytes, key_0: int, key_1: int) -> tuple[int, int]:
    """Aumasson, Bernstein 2012, section 2; the second half follows their reference code."""

    def turned(x: int, bits: int) -> int:
        return (x << bits | x >> (64 - bits)) & MASK

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = (v[0] + v[1]) & MASK
            v[2] = (v[2] + v[3]) & MASK
            v[1], v[3] = turned(v[1], 13) ^ v[0], turned(v[3], 16) ^ v[2]
            v[0] = turned(v[0], 32)
            v[2] = (v[2] + v[1]) & MASK
            v[0] = (v[0] + v[3]) & MASK
            v[1], v[3] = turned(v[1], 17) ^ v[2], turned(v[3], 21) ^ v[0]
            v[2] = turned(v[2], 32)

    begun = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v = [word ^ key for word, key in zip(begun, (key_0, key_1, key_0, key_1), strict=True)]
    v[1] ^= 0xEE
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 255])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(4)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(4)
    return first, v[0] ^ v[1] ^ v[2] ^ v[3]


@given(st.lists(st.binary(max_size=40) | st.text().map(str.encode)), st.integers(0, MASK), st.integers(0, MASK))
def test_keyed_hashes_equal_siphash(rows: list[bytes], key_0: int, key_1: int) -> None:
    offset = np.cumsum([0, *map(len, rows)])
    values = np.frombuffer(b"".join(rows), np.uint8)
    found = keyed_hashes(values, offset, np.array([key_0, key_1], np.uint64))
    assert [tuple(row) for row in found.tolist()] == [siphash(row, key_0, key_1) for row in rows]


def test_siphash_equals_the_reference_code() -> None:
    key = np.frombuffer(bytes(range(16)), np.uint64)
    found = keyed_hashes(np.arange(2, dtype=np.uint8), np.array([0, 0, 1]), key)
    assert found.tobytes().hex() == "a3817f04ba25a8e66df67214c7550293da87c1d86b99af44347659119b22fc45"
