"""sha1: of texts of every length about a block's, alone and beside others."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.arrays import TextBatch
from gpulsh.backends.protocol import Backend
from tests.backends.parity.agreement import agree, fewer
from tests.backends.parity.cuts import few_cuts
from tests.support.texts import batch_of


def check(ops: Backend, texts: Sequence[bytes]) -> None:
    batch = batch_of([b"before", *texts])
    found = agree(ops, "sha1", TextBatch(batch.values, batch.offset[1:]))
    assert found.tolist() == [int.from_bytes(hashlib.sha1(text).digest()[:8], "little") for text in texts]


@few_cuts
@settings(max_examples=20)
@given(texts=st.lists(st.binary(max_size=140), max_size=40))
def test_any_texts(ops: Backend, texts: list[bytes]) -> None:
    check(ops, texts)


def test_every_length(ops: Backend) -> None:
    text = bytes(range(256)) * 2
    check(ops, [text[:length] for length in range(0, fewer(ops, 200, 130), fewer(ops, 1, 3))])
    check(ops, [b"", text[:55], text[:56], text[:63], text[:64], text[:119], text[:120], text, b"\xff" * 3])
    check(ops, [])
