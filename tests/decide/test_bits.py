"""The main job by SimHash: what finds candidates, what filters them, on every way to it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gpulsh
from gpulsh.cli import group as command
from tests.sketch.test_main_job import decided, documents, dropped_rows
from tests.support.files import write_rows

every_backend = pytest.mark.parametrize("backend", ["reference", "cpu"])


@every_backend
def test_candidates_are_those_near_enough(backend: Any) -> None:
    texts = [*documents(60), None, "", "..."]
    fingerprints = gpulsh.shingle(texts, backend=backend)
    filled = np.flatnonzero(np.diff(fingerprints.offset) > 0)
    for sketch, distance in ((gpulsh.SimHash(bits=64), 3), (gpulsh.SimHash(bits=128, weights="count"), 10)):
        found = gpulsh.deduplicate(texts, threshold=0.6, sketch=sketch, distance=distance, backend=backend)
        bits = gpulsh.BitSignatures(sketch.from_texts(texts, backend=backend).values[filled])
        search = gpulsh.HammingTables(bits=sketch.bits, distance=distance)
        near = filled[search.pairs(bits, backend=backend)]
        near = near[gpulsh.jaccard(fingerprints, near, backend=backend) >= 0.6]
        assert set(map(tuple, near.tolist())) <= set(map(tuple, found.pairs.tolist())) and len(near) > 3
        assert (found.similarity >= 0.6).all() and found.keep[-3:].all()


@every_backend
def test_also_counts_only_what_is_near(backend: Any) -> None:
    texts = documents()
    sketch, distance = gpulsh.SimHash(bits=128), 12
    whole = gpulsh.deduplicate(texts, threshold=0.6, backend=backend)
    found = gpulsh.deduplicate(texts, threshold=0.6, also=sketch, distance=distance, backend=backend)
    apart = gpulsh.hamming(sketch.from_texts(texts, backend=backend), whole.pairs, backend=backend)
    wanted = {tuple(pair) for pair in whole.pairs[apart <= distance].tolist()}
    assert {tuple(pair) for pair in found.pairs.tolist()} == wanted
    assert 5 < len(wanted) < len(whole.pairs)
    everything = gpulsh.deduplicate(texts, threshold=0.6, also=sketch, distance=127, backend=backend)
    np.testing.assert_array_equal(everything.duplicate_of, whole.duplicate_of)


def test_also_holds_in_large_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, given = documents(), {"also": gpulsh.SimHash(bits=128), "distance": 12, "threshold": 0.6, "backend": "cpu"}
    wanted = gpulsh.deduplicate(texts, **given)  # type: ignore[arg-type]
    monkeypatch.setattr("gpulsh.lsh.collisions.SMALL_BUCKET", 1)
    found = gpulsh.deduplicate(texts, **given)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found.duplicate_of, wanted.duplicate_of)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"sketch": gpulsh.SimHash(bits=64), "distance": 3}, "--sketch simhash:64:3"),
        ({"seed": 7, "also": gpulsh.SimHash(bits=128, seed=7), "distance": 12}, "--and simhash:128:12 --seed 7"),
        ({"sketch": gpulsh.SimHash(), "also": gpulsh.SimHash(bits=128)}, "--sketch simhash --and simhash:128"),
    ],
)
def test_files_and_the_command_decide_as_memory(given: dict[str, Any], options: str, tmp_path: Path) -> None:
    _, parameters = decided(documents(), given, options, tmp_path)
    near = parameters["near" if "sketch" in given else "also"]
    assert near["distance"] == given.get("distance", 15) and near["seed"] == given.get("seed", 1)
    if given.get("distance") == 3:
        assert "in the key of one of 10 tables" in (tmp_path / "two/report.html").read_text()


def test_runs_with_an_index_of_bits_decide_as_memory(tmp_path: Path) -> None:
    texts = [*documents()[::2], *documents()[1::2]]
    half, found = len(texts) // 2, []
    for name, part in (("a", slice(half)), ("b", slice(half, None))):
        given = write_rows(tmp_path / f"{name}.parquet", texts[part])
        asked = ["dedup", given, "-o", str(tmp_path / name), "--index", str(tmp_path / "i"), "--threshold", "0.6"]
        ran = CliRunner().invoke(command, [*asked, "--sketch", "simhash:64:3", "--backend", "cpu"])
        assert ran.exit_code == 0, ran.output
        found += [part.indices(len(texts))[0] + row for row in dropped_rows(tmp_path / name)]
    wanted = gpulsh.deduplicate(texts, threshold=0.6, sketch=gpulsh.SimHash(), distance=3, backend="cpu")
    assert found == np.flatnonzero(~wanted.keep).tolist() and found[-1] >= half


def test_without_a_distance_pairs_at_the_threshold_are_found() -> None:
    generator, pairs, words = np.random.default_rng(3), 200, 400
    texts = []
    for pair in range(pairs):
        one = [f"w{word}x{pair}" for word in generator.integers(0, 1 << 40, words)]
        texts += [" ".join(one), " ".join([*one[:150], *(f"n{word}" for word in one[150:189]), *one[189:]])]
    similarity = gpulsh.jaccard(gpulsh.shingle(texts, backend="cpu"), [[0, 1]], backend="cpu")
    assert 0.8 <= similarity < 0.805
    ways: list[dict[str, Any]] = [{"sketch": gpulsh.SimHash()}, {"also": gpulsh.SimHash()}]
    ways += [{"also": gpulsh.SimHash(bits=384)}, {"sketch": gpulsh.SimHash(), "also": gpulsh.SimHash()}]
    for given in ways:
        assert len(gpulsh.deduplicate(texts, backend="cpu", **given).pairs) >= 0.97 * pairs
    given = {"backend": "cpu", "distance": 3}
    assert len(gpulsh.deduplicate(texts, also=gpulsh.SimHash(), **given).pairs) < 0.1 * pairs
    assert len(gpulsh.deduplicate(texts, sketch=gpulsh.SimHash(), **given).pairs) < 0.3 * pairs
