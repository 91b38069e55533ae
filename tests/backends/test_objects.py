"""Byte strings of Python as texts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.backends.cpu.texts import TOKEN_BYTES, texts_of
from gpulsh.errors import InputTypeError

lenders: Any = st.sampled_from([bytes, bytes, bytes, bytearray, memoryview])
tokens = st.builds(lambda lent, text: lent(text), lenders, st.binary(max_size=3 * TOKEN_BYTES))


def taken(sets: list[list[Any]]) -> list[list[bytes]]:
    texts, begins = texts_of(sets)
    rows = [texts.values[start:stop].tobytes() for start, stop in pairwise(texts.offset.tolist())]
    return [rows[start:stop] for start, stop in pairwise(begins.tolist())]


@settings(max_examples=25)
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
