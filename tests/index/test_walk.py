"""An index walked: its buckets are those of its documents' digests, its pairs those that are similar."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpulsh
from gpulsh.backends.select import BackendName
from gpulsh.errors import ParameterError
from gpulsh.index.index import Index
from gpulsh.index.manifest import NAME
from tests.sketch.test_main_job import documents


def digests_of(texts: list[str]) -> gpulsh.BandDigests:
    signatures = gpulsh.MinHash(num_perm=64).from_texts(texts, backend="cpu")
    return gpulsh.Banding(bands=16, rows=4)(signatures, backend="cpu")


def naive_pairs(texts: list[str], threshold: float) -> dict[tuple[int, ...], float]:
    pairs = gpulsh.candidate_pairs(digests_of(texts), backend="cpu")
    exact = gpulsh.jaccard(gpulsh.shingle(texts, backend="cpu"), pairs, backend="cpu")
    return {tuple(pair): value for pair, value in zip(pairs.tolist(), exact, strict=True) if value >= threshold}


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("most", [3, 1 << 22])
def test_pairs_and_buckets(backend: BackendName, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulsh.index.candidates.PAIRS_AT_ONCE", most)
    texts = [*documents(60), "", "..."]
    keys = [f"key {i}" for i in range(len(texts))]
    index = Index(threshold=0.6, num_perm=64, bands=16, rows=4, backend=backend)
    index.insert(keys[:50], texts[:50])
    index.insert(keys[50:], texts[50:])
    index.save(tmp_path / "index")
    wanted = naive_pairs(texts, 0.6)
    assert len(wanted) > 40
    for one in (index, Index.open(tmp_path / "index", backend=backend)):
        found = one.pairs()
        named = zip(found.first.tolist(), found.second.tolist(), found.similarity.tolist(), strict=True)
        assert {(keys.index(a), keys.index(b)): value for a, b, value in named} == wanted
        assert len(found) == len(wanted)

    digests = digests_of(texts[:-2])
    for_bands = [
        {tuple(np.flatnonzero(column == value)) for value in column if (column == value).sum() > 1}
        for column in np.asarray(digests).T
    ]
    walked: list[set[tuple[int, ...]]] = [set() for _ in for_bands]
    for band, members in index.buckets():
        walked[band].add(tuple(keys.index(key) for key in members.tolist()))
    assert walked == for_bands


def test_removed_and_dropped_documents_are_in_none() -> None:
    texts = documents()
    index = Index(threshold=0.6, backend="cpu")
    added = index.add(list(range(len(texts))), texts)
    assert len(index.pairs()) == 0 and not added.keep.all()  # what was kept resembles nothing that was
    index = Index(threshold=0.6, backend="cpu")
    index.insert([7, 8, 9], [texts[0]] * 3)
    assert [members.tolist() for _, members in index.buckets()] == [[7, 8, 9]] * index.parameters.banding.bands
    index.remove([8])
    found = index.pairs()
    assert (found.first.tolist(), found.second.tolist(), found.similarity.tolist()) == ([7], [9], [1.0])
    index.remove([7])
    assert len(index.pairs()) == 0 and list(index.buckets()) == []
    assert list(Index(backend="cpu").buckets()) == [] and len(Index(backend="cpu").pairs()) == 0


def test_hamming_tables_answer_a_stream(tmp_path: Path) -> None:
    """Query, then add, then reopened and changed: as `deduplicate` with the same tables, and as its pairs."""
    given: dict[str, Any] = {"threshold": 0.6, "sketch": gpulsh.SimHash(bits=64), "distance": 3, "backend": "cpu"}
    texts = [*documents()[::2], "", *documents()[1::2], "..."]
    half = len(texts) // 2
    wanted = gpulsh.deduplicate(texts, **given)
    first = Index(**given)
    assert first.parameters.banding.bands == 10 and len(first.query(texts)) == 0
    one = first.add(range(half), texts[:half])
    first.save(tmp_path / "index")
    first.close()
    index = Index.open(tmp_path / "index", backend="cpu", sketch=gpulsh.SimHash(), distance=3)
    asked = index.query(texts[half:])
    two = index.add(range(half, len(texts)), texts[half:])
    targets = [*one.duplicate_of.tolist(), *two.duplicate_of.tolist()]
    assert targets == wanted.duplicate_of.tolist() and not two.keep.all()
    best = dict(reversed([*zip((asked.positions + half).tolist(), asked.keys.tolist(), strict=True)]))
    earlier = {row: target for row, target in enumerate(targets) if row >= half > target}
    assert len(earlier) > 3 and all(best[row] == target for row, target in earlier.items())
    witness = next(iter(earlier.values()))
    index.remove([witness])
    assert witness in asked.keys and witness not in index.query(texts[half:]).keys

    every = Index(**given)
    every.insert(range(len(texts)), texts)
    found = every.pairs()
    pairs = [*zip(found.first.tolist(), found.second.tolist(), strict=True)]
    assert len(set(pairs)) == len(pairs) and set(pairs) >= set(map(tuple, wanted.pairs.tolist()))
    assert {band for band, _ in every.buckets()} <= set(range(10))


def test_an_index_of_bits_is_no_other(tmp_path: Path) -> None:
    Index(sketch=gpulsh.SimHash(), backend="cpu").save(tmp_path / "bits")
    Index(backend="cpu").save(tmp_path / "sets")
    formats = [
        json.loads((tmp_path / name / NAME).read_bytes().partition(b"\n")[2])["format"] for name in ("bits", "sets")
    ]
    assert formats == [4, 3]  # versions that know no bits refuse the first, and read the second
    assert Index.open(tmp_path / "bits", backend="cpu", sketch=gpulsh.SimHash()).parameters.near is not None
    with pytest.raises(ParameterError, match="sketch simhash:64:12 of seed 1, by set and simhash:64:2 of seed 1"):
        Index.open(tmp_path / "bits", backend="cpu", sketch=gpulsh.SimHash(), distance=2)
    with pytest.raises(ParameterError, match="sketch affine32:128 of seed 1 and simhash:64:12 of seed 1, by set"):
        Index.open(tmp_path / "sets", backend="cpu", sketch=gpulsh.SimHash())
