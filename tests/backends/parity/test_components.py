"""components: the smallest id of each, of forests of any shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.backends.protocol import Backend
from tests.backends.parity.agreement import agree


@settings(max_examples=25)
@given(st.integers(1, 90), st.data())
def test_any_pairs(ops: Backend, count: int, data: st.DataObject) -> None:
    node = st.integers(0, count - 1)
    pairs = np.array(data.draw(st.lists(st.tuples(node, node), max_size=120)), np.int64).reshape(-1, 2)
    agree(ops, "components", count, pairs)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 500, 5000])
def test_chains_and_stars(ops: Backend, count: int) -> None:
    ids = np.arange(count, dtype=np.int64)
    chain = np.stack((ids[:-1], ids[1:]), 1)
    shuffled = np.random.default_rng(2).permutation(count)
    last = np.full(max(count - 1, 0), count - 1)
    stars = [np.stack((ids[1:], last), 1), np.stack((ids[:-2], ids[2:]), 1)]
    for pairs in (chain, chain[::-1], chain[:, ::-1], shuffled[chain], chain[::2], *stars):
        agree(ops, "components", count, pairs)


@pytest.mark.parametrize("shape", ["chain", "chain of numbers at random", "star", "star with the last", "random"])
def test_large_components(ops: Backend, shape: str) -> None:
    count = 20_000
    generator = np.random.default_rng(4)
    ids, shuffled = np.arange(count, dtype=np.int64), generator.permutation(count)
    pairs = {
        "chain": np.stack((ids[:-1], ids[1:]), 1),
        "chain of numbers at random": np.stack((shuffled[:-1], shuffled[1:]), 1),
        "star": np.stack((np.zeros_like(ids), ids), 1),
        "star with the last": np.stack((ids, np.full_like(ids, count - 1)), 1),
        "random": generator.integers(0, count, (count, 2)),
    }[shape]
    agree(ops, "components", count, generator.permutation(pairs))
