"""Text on the CPU backend: chunks and threads of real text, very long documents, and the ends of memory."""

import subprocess
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu import CpuBackend, passes
from gpulsh.backends.cpu.fingerprinting.keys import KernelTable, kernel_table
from gpulsh.backends.cpu.passes import GIANT_BYTES
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.params import PLAIN, Reading, Shingling
from tests.backends.parity.test_texts import check
from tests.support import naive
from tests.support.rows import table
from tests.support.same import same
from tests.support.texts import batch_of, licences

REFERENCE = ReferenceBackend()
ONE = CpuBackend(1)


@pytest.mark.parametrize("unit", ["word", "char"])
def test_a_thread_whose_first_text_is_empty(unit: Any) -> None:
    for documents in ([], [b""], [b"", b""]):
        with ThreadPoolExecutor(1) as fresh:
            fresh.submit(check, ONE, batch_of(documents), unit, 5).result()


def test_a_long_document() -> None:
    """Of many chunks, of one repeated page: its fingerprints repeat, and are the reference's for the page."""
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


def test_a_table_that_several_threads_make_lives_while_they_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several that they make at the same time a cache keeps one."""
    threads = 4
    together, made, dead = Barrier(threads), kernel_table(PLAIN), list[int]()

    def made_anew(reading: Reading) -> KernelTable:
        together.wait(30)
        stages = made.stages.copy()
        weakref.finalize(stages, dead.append, stages.ctypes.data)
        return KernelTable(stages, stages.ctypes.data)

    def read(*given: Any) -> None:
        together.wait(30)
        assert given[4] not in dead
        read_before(*given)

    read_before = passes.fingerprint_words
    monkeypatch.setattr(passes, "kernel_table", cache(made_anew))
    monkeypatch.setattr(passes, "fingerprint_words", read)
    batch = batch_of([b"Some words", b"other WORDS"])
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(lambda _: ONE.shingle(batch, Shingling()), range(threads)))
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
    began = time.process_time()
    found = ONE.shingle(TextBatch(text, np.array([0, length])), Shingling())
    assert time.process_time() - began < 5
    assert found.values.tolist() == [naive.hashed(naive.SHINGLE, [token])]


@pytest.mark.parametrize(("a", "b"), [(0, 1), (2**63 + 5, 2**63 + 6), (0, 2**64 - 1), (3, 3)])
def test_a_row_of_two_values_many_times_over(a: int, b: int) -> None:
    """Nothing there is quadratic in repeats."""
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
bytes_of = np.frombuffer(memory, np.uint8)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.mprotect(ctypes.c_void_p(bytes_of.ctypes.data + page), ctypes.c_size_t(page), 0) == 0
tails = [b"", b"a", b"ab " * 50, b"w" * 200, "é".encode(), b"\\xc3", b"\\xe6\\xbc", b"\\xf0\\x9d\\x92", b" "]
for tail in tails:
    for length in (*range(18), *range(54, 74), *range(118, 130)):
        text = (b"x" * length + tail)
        bytes_of[page - len(text) : page] = np.frombuffer(text, np.uint8)
        for offset in ([0, length, len(text)], [0, len(text)]):
            batch = TextBatch(bytes_of[page - len(text) : page], np.array(offset))
            for unit in ("word", "char"):
                CpuBackend(1).shingle(batch, Shingling(unit=unit, size=2))
print("read")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect by ctypes")
def test_nothing_is_read_after_the_text() -> None:
    """The text ends where a page begins that may not be read: one byte too far ends the process."""
    command = [sys.executable, "-c", READS_TO_THE_LAST_BYTE]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "read\n"), done.stderr[-500:]
