"""The join of few documents of large buckets decides as that of many does, and reads each text once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpulsh
from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.protocol import Backend
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.decide import large_buckets
from gpulsh.decide.large_buckets import HeldJoin, can_be_held
from gpulsh.decide.prefix_join import PrefixJoin
from gpulsh.decide.relation import Relation
from gpulsh.errors import DeviceMemoryError
from gpulsh.method import Method
from tests.decide.test_prefix_join import all_pairs, join_of, joined, near_copies, readable_of, template
from tests.decide.test_shared_sentences import pages

KINDS = {
    "own": template(60),
    "copies": near_copies(100) + template(30),
    "sentences": pages(80, 6),
    "one": ["a b c d e f"],
}


@pytest.mark.parametrize("texts", KINDS.values(), ids=KINDS)
def test_it_finds_what_all_pairs_do(monkeypatch: pytest.MonkeyPatch, texts: list[str]) -> None:
    wanted = all_pairs(texts, 0.8)
    backends: list[Backend] = [CpuBackend(1), CpuBackend(2), ReferenceBackend()]
    for first, most in ((64, 1 << 22), (1, 1 << 22), (1 << 20, 1 << 22), (64, 50)):
        monkeypatch.setattr(large_buckets, "FIRST_BLOCK", first)
        monkeypatch.setattr(large_buckets, "LARGEST_JOIN", most)
        for ops in backends:
            assert joined(join_of(texts, ops, kind=HeldJoin), len(texts)) == wanted


def test_who_asks_and_who_is_protected_are_as_by_prefixes() -> None:
    texts = near_copies(100) + template(30)
    for relation in Relation(protected=40, asking=40), Relation(protected=40):
        held, by_prefixes = (
            joined(join_of(texts, CpuBackend(2), relation=relation, kind=kind), len(texts))
            for kind in (HeldJoin, PrefixJoin)
        )
        assert held == by_prefixes and held[0].count(False) > 0


def test_each_text_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, read = template(60), []
    sets = CpuBackend.shingle_sets
    monkeypatch.setattr(
        CpuBackend, "shingle_sets", lambda ops, text, *given: read.append(len(text)) or sets(ops, text, *given)
    )
    assert joined(join_of(texts, CpuBackend(2), kind=HeldJoin), len(texts)) == all_pairs(texts, 0.8)
    assert read == [len(texts)]


def test_what_can_be_held_is_few_short_and_measured() -> None:
    texts, exact = template(60), Method.chosen()
    readable = readable_of(texts, CpuBackend(1))
    assert can_be_held(readable, exact, CpuBackend(1))
    assert not can_be_held(readable, exact, CpuBackend(1, memory=1 << 18))
    assert not can_be_held(readable, Method.chosen(verify="signature"), CpuBackend(1))
    many = readable.renumbered(np.arange(large_buckets.MOST_DOCUMENTS + 1) % len(texts))
    assert not can_be_held(many, exact, CpuBackend(1))


def test_what_a_device_does_not_hold_is_joined_by_prefixes(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = near_copies(300) + template(60)
    given: dict[str, Any] = {"backend": "cpu", "num_perm": 42, "bands": 42, "rows": 1}
    wanted = gpulsh.deduplicate(pa.array(texts), **given)
    assert wanted.funnel.crowded > 250
    sets, refused = CpuBackend.shingle_sets, []

    def scarce(ops: CpuBackend, text: TextBatch, *others: Any) -> Any:
        if len(text) > 250:
            refused.append(len(text))
            raise DeviceMemoryError("too many")
        return sets(ops, text, *others)

    monkeypatch.setattr(CpuBackend, "shingle_sets", scarce)
    found = gpulsh.deduplicate(pa.array(texts), **given)
    assert refused
    for name in ("keep", "duplicate_of", "similarity", "cluster", "pairs", "pair_similarity"):
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name
