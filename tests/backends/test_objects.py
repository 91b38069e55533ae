"""Byte strings of Python as texts, and their hashes."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu.hashes import sha1
from gpulsh.backends.cpu.texts import TOKEN_BYTES, texts_of
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
