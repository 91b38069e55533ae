"""`deduplicate` and its single steps on the CUDA backend: what they ask of arrays, CuPy's can do."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpulsh
from gpulsh.backends.cuda import CudaBackend
from gpulsh.index import index
from gpulsh.lsh import banding, collisions, similarity
from gpulsh.sketch import b_bit, base, minhash, samples
from gpulsh.text import documents as reading
from tests.decide.test_shared_sentences import pages
from tests.kernels.cuts import WHERE, selecting
from tests.support.texts import SECRETS

DEFAULT_CUT = [where for where in WHERE if where.endswith("-default")]
pytestmark = [pytest.mark.kernels, pytest.mark.parametrize("cuda", DEFAULT_CUT, indirect=True)]


@pytest.fixture
def selected(cuda: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    """`backend="cuda"` takes the backend under test; other names what they always take."""
    import gpulsh.run.engines as engines
    from gpulsh.run import memory
    from gpulsh.text import sets

    sketches = b_bit, base, minhash, samples
    for module in (banding, collisions, similarity, *sketches, sets, reading, memory, engines, index):
        monkeypatch.setattr(module, "select_backend", selecting(cuda))
    yield cuda


def texts(count: int, seed: int = 3) -> list[str | None]:
    """Documents with planted near-duplicates, exact copies, nulls and empty ones."""
    source = random.Random(seed)
    words = [f"word{i}" for i in range(300)] + ["語", "नमस्ते", "É"]
    found: list[str | None] = [None, "", "..."]
    for _ in range(count):
        kind = source.random()
        earlier = [text for text in found if text and len(text) > 20]
        if kind < 0.4 and earlier:
            changed = source.choice(earlier).split()
            for _ in range(source.randrange(3)):
                changed[source.randrange(len(changed))] = source.choice(words)
            found.append(" ".join(changed))
        else:
            found.append(" ".join(source.choice(words) for _ in range(source.randrange(40, 80))))
    return found


@pytest.mark.parametrize("options", [{}, {"resolve": "components"}, {"verify": "signature"}, {"threshold": 0.5}])
def test_deduplicate(selected: CudaBackend, options: dict[str, Any]) -> None:
    documents = texts(40)
    wanted = gpulsh.deduplicate(documents, backend="reference", **options)
    found = gpulsh.deduplicate(documents, backend="cuda", **options).to_numpy()
    assert not wanted.keep.all()
    for name in ("keep", "duplicate_of", "similarity", "cluster", "pairs", "pair_similarity"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)


@pytest.mark.parametrize("options", [{}, {"resolve": "components"}, {"verify": "signature"}, {"verify": "none"}])
def test_no_decision_depends_on_the_secret(selected: CudaBackend, options: dict[str, Any]) -> None:
    documents = [*texts(30), *(f"{'the same words again and once more ' * 3} {number % 3}" for number in range(270))]
    wanted = gpulsh.deduplicate(documents, backend="reference", secret=SECRETS[0], **options)
    for secret in SECRETS:
        found = gpulsh.deduplicate(documents, backend="cuda", secret=secret, **options).to_numpy()
        assert not found.keep.all()
        for name in ("keep", "duplicate_of", "similarity", "cluster", "pairs", "pair_similarity"):
            np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)
        assert {**found.funnel, "seconds": None} == {**wanted.funnel, "seconds": None}


@pytest.mark.parametrize("indexed", [False, True], ids=["files", "index"])
def test_no_byte_of_the_results_depends_on_the_secret(selected: CudaBackend, indexed: bool, tmp_path: Path) -> None:
    pytest.importorskip("orjson", reason="orjson is not installed")
    lines = [json.dumps({"text": text, "id": number}) + "\n" for number, text in enumerate(texts(60))]
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file, part in zip(files, (lines[::2], lines[1::2]), strict=True):
        file.write_text("".join(part))

    def run(backend: Any, secret: bytes, name: str) -> dict[str, bytes]:
        out = tmp_path / f"out-{name}"
        earlier = {"index": tmp_path / f"index-{name}"} if indexed else {}
        gpulsh.deduplicate_files(files, out, backend=backend, id_column="id", secret=secret, **earlier)
        found = [path for path in out.rglob("*") if path.is_file() and not path.name.startswith("report.")]
        return {path.relative_to(out).as_posix(): path.read_bytes() for path in found}

    wanted = run("cpu", SECRETS[0], "cpu")
    assert len(wanted) == 3
    for number, secret in enumerate(SECRETS):
        assert run("cuda", secret, f"{number}") == wanted


def test_large_buckets(selected: CudaBackend) -> None:
    source = random.Random(4)
    page = [f"word{i}" for i in range(20)]
    documents = [" ".join([*page, *(f"own{source.randrange(9)}" for _ in range(2))]) for _ in range(270)]
    wanted = gpulsh.deduplicate(documents, backend="reference", num_perm=16, bands=8)
    found = gpulsh.deduplicate(documents, backend="cuda", num_perm=16, bands=8).to_numpy()
    for name in ("keep", "duplicate_of", "similarity", "cluster", "pairs"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)


def test_pages_of_shared_sentences(selected: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets of any size, whose pairs bitmaps rule out."""
    monkeypatch.setattr("gpulsh.lsh.collisions.SMALL_BUCKET", 20)
    monkeypatch.setattr("gpulsh.decide.large_buckets.Bitmaps.cost", lambda *given: -(1 << 40))
    options: dict[str, Any] = {"shingling": gpulsh.Shingling(size=2), "num_perm": 6, "bands": 6, "rows": 1}
    for threshold in (0.5, 0.8):
        wanted = gpulsh.deduplicate(pages(60, 4), backend="reference", threshold=threshold, **options)
        found = gpulsh.deduplicate(pages(60, 4), backend="cuda", threshold=threshold, **options).to_numpy()
        assert wanted.funnel.crowded > 30 and not wanted.keep.all()
        for name in ("keep", "duplicate_of", "similarity", "cluster", "pairs", "pair_similarity"):
            np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)
        assert found.funnel.candidates == wanted.funnel.candidates


def test_the_single_steps(selected: CudaBackend) -> None:
    documents = texts(30)

    def steps(backend: Any) -> list[Any]:
        fingerprints = gpulsh.shingle(documents, backend=backend)
        signatures = gpulsh.MinHash(num_perm=32, seed=2)(fingerprints, backend=backend)
        digests = gpulsh.Banding(bands=16, rows=2)(signatures, backend=backend)
        pairs = gpulsh.candidate_pairs(digests, backend=backend)
        return [
            *(fingerprints.values, fingerprints.offset, signatures.values, digests.values, pairs),
            *(gpulsh.jaccard(fingerprints, pairs, backend=backend), gpulsh.jaccard(signatures, pairs, backend=backend)),
            gpulsh.containment(fingerprints, pairs, backend=backend),
        ]

    for found, wanted in zip(steps("cuda"), steps("reference"), strict=True):
        np.testing.assert_array_equal(selected.asnumpy(found), wanted)


def test_a_lane_that_fails_waits_for_its_stream(cuda: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = cuda._machine.arrays
    plain, made, waited = arrays.cuda.Stream, list[Any](), list[Any]()

    def stream(**options: Any) -> Any:
        made.append(plain(**options))
        return made[-1]

    class Watched(arrays.cuda.Event):  # type: ignore[misc]
        def record(self, stream: Any = None) -> None:
            self.recorded = stream
            super().record(stream)

        def synchronize(self) -> None:
            waited.append(self.recorded)
            super().synchronize()

    monkeypatch.setattr(arrays.cuda, "Stream", stream)
    monkeypatch.setattr(arrays.cuda, "Event", Watched)
    failing = CudaBackend(arrays, cuda._machine.launch, cuda._machine.geometry)

    def fail(lane: Any, item: int) -> None:
        raise ValueError("no such item")

    with pytest.raises(ValueError, match="no such item"):
        list(failing.pipelined_map([1], fail))
    assert made and any(one is another for one in made for another in waited)


@pytest.mark.parametrize("sketch", [gpulsh.BottomS(size=9), gpulsh.ModM(modulus=3)])
def test_samples(selected: CudaBackend, sketch: gpulsh.BottomS | gpulsh.ModM) -> None:
    documents, pairs = texts(20), np.random.default_rng(1).integers(0, 23, (60, 2))
    found = sketch.from_texts(documents, shingling=gpulsh.Shingling(size=1), backend="cuda")
    wanted = sketch.from_texts(documents, shingling=gpulsh.Shingling(size=1), backend="reference")
    for name in ("values", "offset"):
        np.testing.assert_array_equal(selected.asnumpy(getattr(found, name)), getattr(wanted, name))
    estimates = sketch.estimate(found, pairs, backend="cuda")
    np.testing.assert_array_equal(selected.asnumpy(estimates), sketch.estimate(wanted, pairs, backend="reference"))


@pytest.mark.parametrize("bits", [1, 8])
def test_packed_signatures(selected: CudaBackend, bits: int) -> None:
    documents, pairs = texts(20), np.random.default_rng(1).integers(0, 23, (60, 2))
    sketch = gpulsh.BBit(bits=bits, num_perm=70)
    found, wanted = (sketch.from_texts(documents, backend=name) for name in ("cuda", "reference"))  # type: ignore[arg-type]
    np.testing.assert_array_equal(selected.asnumpy(found.values), wanted.values)
    estimates = sketch.estimate(found, pairs, backend="cuda")
    np.testing.assert_array_equal(selected.asnumpy(estimates), sketch.estimate(wanted, pairs, backend="reference"))


def test_sets_of_any_items(selected: CudaBackend) -> None:
    sets = [range(40), range(20, 60), [], ["a"] * 0, range(60, 64)]
    found, wanted = (gpulsh.fingerprint(sets, backend=name) for name in ("cuda", "reference"))  # type: ignore[arg-type]
    for name in ("values", "offset"):
        np.testing.assert_array_equal(selected.asnumpy(getattr(found, name)), getattr(wanted, name))
    sketch = gpulsh.MinHash(num_perm=64)
    np.testing.assert_array_equal(sketch.epsilon(found, backend="cuda"), sketch.epsilon(wanted, backend="reference"))
    signatures = selected.asnumpy(sketch(found, backend="cuda").values)
    np.testing.assert_array_equal(signatures, sketch(wanted, backend="reference").values)
    plain = gpulsh.Fingerprints(selected.asarray(np.arange(8, dtype=np.uint64)), selected.asarray(np.array([0, 4, 8])))
    with pytest.raises(gpulsh.ParameterError, match=r"give gpulsh.fingerprint\(sets\)"):
        sketch(plain, backend="cuda")
    given = gpulsh.minima(sets, np.arange(128).reshape(64, 2), backend="cuda")
    assert selected.asnumpy(given.values)[1].tolist() == [40, 41]
