"""The sample of candidate pairs: drawn by the pairs alone, however the work is cut, and measured exactly."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpulsh
from gpulsh.backends.protocol import Sizes
from gpulsh.backends.select import select_backend
from gpulsh.budget import Cut
from gpulsh.decide import sample
from gpulsh.decide.sample import NOTHING, Draw, Sample
from gpulsh.permutations import splitmix64
from gpulsh.report.evidence import by_similarity
from tests.support.files import write_rows

SHINGLING = gpulsh.Shingling(size=1)
BANDING: dict[str, Any] = {"num_perm": 32, "bands": 16, "rows": 2}


def test_that_of_all_pairs_is_that_of_the_samples_of_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "MOST", 50)
    monkeypatch.setattr(sample, "AT_ONCE", 64)
    rng = np.random.default_rng(1)
    positions, pairs = np.sort(rng.choice(1 << 40, 300, replace=False)), rng.integers(0, 300, (1000, 2))
    pairs = np.unique(pairs, axis=0)
    similarity = rng.random(len(pairs))

    def sampled(some: Any) -> Sample:
        draw = Draw(positions)
        draw.measured(similarity[some][draw.of(pairs[some], np.arange(300), select_backend("reference"))])
        return draw.sample

    whole, parts = sampled(np.arange(len(pairs))), NOTHING
    for part in np.array_split(rng.permutation(len(pairs)), 7):
        parts = sampled(part).and_of(parts)
    i, j = positions[pairs].T.tolist()
    naive = [splitmix64(splitmix64(a) + b) for a, b in zip(i, j, strict=True)]
    least = sorted(range(len(pairs)), key=naive.__getitem__)[:50]
    for found in (whole, parts):
        assert found.hash.tolist() == [naive[place] for place in least]
        assert found.similarity.tolist() == similarity[least].tolist()


@pytest.mark.parametrize(("group", "tile"), [(1 << 40, None), (1 << 40, 4000), (2000, None)])
def test_candidates_below_the_threshold_are_as_similar_as_brute_force_says(
    group: int, tile: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all pairs, whether one task compares them, in tiles, too, or several their shares."""
    if tile is not None:
        monkeypatch.setattr("gpulsh.backends.cpu.backend.SIZES", Sizes(tile, tile, tile))
    source = random.Random(3)
    words = [f"word{number}" for number in range(60)]
    texts = [" ".join(words[:16] + source.sample(words[16:], source.randrange(2, 40))) for _ in range(60)]
    write_rows(tmp_path / "a.jsonl", texts)
    monkeypatch.setattr("gpulsh.run.files.missing", lambda: "tested elsewhere")
    cut = Cut(memory=1 << 30, partition=2000, digests=1 << 40, group=group)
    monkeypatch.setattr("gpulsh.run.file_run.cut", lambda memory, sizes: cut)
    given: dict[str, Any] = {"threshold": 0.8, "shingling": SHINGLING, "backend": "cpu", "threads": 1, **BANDING}
    report = gpulsh.deduplicate_files(tmp_path / "a.jsonl", tmp_path / "out", **given).report

    fingerprints = gpulsh.shingle(texts, shingling=SHINGLING, backend="cpu")
    signatures = gpulsh.MinHash(num_perm=32)(fingerprints, backend="cpu")
    digests = gpulsh.Banding(bands=16, rows=2)(signatures, backend="cpu")
    pairs = gpulsh.candidate_pairs(digests, backend="cpu")
    similarity = np.asarray(gpulsh.jaccard(fingerprints, pairs, backend="cpu"))
    assert report["sampled"] == by_similarity(similarity)
    assert 1000 < len(pairs) == report["funnel"]["candidates"] < sample.MOST
    assert ("compare" in report["funnel"]["seconds"]) == (group == 2000)
    assert similarity.min() < 0.5 and (similarity >= 0.8).any()
