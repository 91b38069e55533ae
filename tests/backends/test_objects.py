"""Byte strings of Python as texts, and their hashes; keyed hashes, which are SipHash-2-4 with 128 bits."""

import hashlib
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu.hashes import sha1
from gpulsh.backends.cpu.texts import TOKEN_BYTES, texts_of
from gpulsh.backends.host import keyed_hashes
from gpulsh.errors import InputTypeError
from tests.support.texts import batch_of

lenders: Any = st.sampled_from([bytes, bytes, bytes, bytearray, memoryview])
tokens = st.builds(lambda lent, text: lent(text), lenders, st.binary(max_size=3 * TOKEN_BYTES))


def taken(sets: list[list[Any]]) -> list[list[bytes]]:
    texts, begins = texts_of(sets)
    rows = [texts.values[start:stop].tobytes() for start, stop in pairwise(texts.offset.tolist())]
    return [rows[start:stop] for start, stop in pairwise(begins.tolist())]


@given(sets=st.lists(st.lists(tokens, max_size=9), max_size=9))
def test_any_sets(sets: list[list[Any]]) -> None:
    assert taken(sets) == [[bytes(token) for token in one] for one in sets]


@pytest.mark.parametrize("seen", [0, 1, 3])
def test_a_list_that_another_thread_changes(seen: int) -> None:
    """Between `len` and the kernel: the kernel takes the tokens that are there, and nothing beyond."""

    class Changing(list[bytes]):
        def __len__(self) -> int:
            return seen

    assert taken([[b"a"], Changing([b"b", b"c"]), [b"d"]]) == [[b"a"], [b"b", b"c"], [b"d"]]


def test_a_token_without_bytes_is_refused() -> None:
    with pytest.raises(InputTypeError, match="tokens hold a str; give bytes"):
        texts_of([[b"a"], [b"b", "text"]])
    assert taken([[b"c"]]) == [[b"c"]]


def check_hashes(rows: list[bytes]) -> None:
    batch = batch_of([b"before", *rows])
    found = sha1(TextBatch(batch.values, batch.offset[1:]))
    assert found.tolist() == [int.from_bytes(hashlib.sha1(row).digest()[:8], "little") for row in rows]


@given(st.lists(st.binary(max_size=300), max_size=40))
def test_sha1_of_any_texts(rows: list[bytes]) -> None:
    check_hashes(rows)


def test_sha1_of_every_length() -> None:
    text = bytes(range(256)) * 2
    several = [text[:length] for length in range(200)]
    for rows in (several, [b"", text[:55], text[:56], text[:63], text[:64], text[:120], text, b"\xff" * 3], []):
        check_hashes(rows)


MASK = (1 << 64) - 1


def siphash(data: bytes, key_0: int, key_1: int) -> tuple[int, int]:
    """Aumasson, Bernstein 2012, section 2; the second half as their reference code has it."""

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
def test_siphash(rows: list[bytes], key_0: int, key_1: int) -> None:
    offset = np.cumsum([0, *map(len, rows)])
    values = np.frombuffer(b"".join(rows), np.uint8)
    found = keyed_hashes(values, offset, np.array([key_0, key_1], np.uint64))
    assert [tuple(row) for row in found.tolist()] == [siphash(row, key_0, key_1) for row in rows]


def test_the_vectors_of_the_reference_code() -> None:
    key = np.frombuffer(bytes(range(16)), np.uint64)
    found = keyed_hashes(np.arange(2, dtype=np.uint8), np.array([0, 0, 1]), key)
    assert [row.tobytes().hex() for row in found] == [
        "a3817f04ba25a8e66df67214c7550293",
        "da87c1d86b99af44347659119b22fc45",
    ]
