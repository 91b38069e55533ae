"""SimHash's kernels against the reference, and all that is made of bits by the array module alone against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulsh
from gpulsh import BitSignatures, Fingerprints, Shingling
from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.reference import ReferenceBackend
from tests.backends.parity.agreement import far_array
from tests.kernels.cuts import selecting
from tests.support.rows import LENGTHS, random_table, table, tables
from tests.support.texts import batch_of

pytestmark = pytest.mark.kernels
REFERENCE = ReferenceBackend()
KEYS = np.array([0, 2**64 - 1, 0x9E3779B97F4A7C15], np.uint64)


def check(cuda: CudaBackend, rows: Fingerprints, keys: Any = KEYS, weights: Any = None) -> None:
    there = None if weights is None else cuda.asarray(weights)
    found = cuda.asnumpy(cuda.simhash(rows.moved(cuda.asarray), keys, there))
    np.testing.assert_array_equal(found, REFERENCE.simhash(rows, keys, weights))
    assert found.dtype == np.uint64


def test_simhash_of_awkward_rows(cuda: CudaBackend) -> None:
    for lengths in (LENGTHS[:24], [0, 0, 0], [], [2, 1300, 1], [0] * 70 + [3] + [0] * 31 + [4] + [0] * 33 + [6] * 40):
        rows = random_table(lengths)
        check(cuda, rows)
        check(cuda, rows, KEYS[:1], np.random.default_rng(1).integers(0, 2**50, len(rows.values)))


@settings(max_examples=25)
@given(tables, st.integers(0, 5), st.data())
def test_simhash(cuda: CudaBackend, rows: list[list[int]], before: int, data: Any) -> None:
    fingerprints = table(rows, before)
    count = len(fingerprints.values)
    some = st.lists(st.integers(0, 3) | st.integers(0, 2**50), min_size=count, max_size=count)
    check(cuda, fingerprints)
    check(cuda, fingerprints, KEYS, np.array(data.draw(some), np.int64))


def test_rows_beyond_32_bits(cuda: CudaBackend) -> None:
    first, rows = 2**31 + 3, random_table([5, 0, 300, 40])
    far = Fingerprints(far_array(cuda, first, rows.values), cuda.asarray(rows.offset + first))
    np.testing.assert_array_equal(cuda.asnumpy(cuda.simhash(far, KEYS)), REFERENCE.simhash(rows, KEYS))


@pytest.mark.parametrize("distinct", [False, True])
def test_simhash_of_text(cuda: CudaBackend, distinct: bool) -> None:
    text = batch_of([b"", b"one", b"a b", b"a b c d e f " * 30, "漢字 かな हिन्दी ".encode() * 9, b" \xff "])
    for shingling in (Shingling(size=2), Shingling(unit="char", size=3)):
        found = cuda.text_simhash(text, shingling, KEYS, distinct)
        np.testing.assert_array_equal(cuda.asnumpy(found), REFERENCE.text_simhash(text, shingling, KEYS, distinct))


@pytest.fixture
def everywhere(cuda: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> CudaBackend:
    """Whoever asks for the backend "cuda" is given the one under test."""
    modules = "hamming_tables bit_sampling supershingles collisions similarity"
    homes = [*(f"lsh.{name}" for name in modules.split()), "sketch.bits.simhash", "sketch.bits.hyperplanes"]
    homes += ["sketch.bits.hamming", "text.documents"]
    for home in homes:
        monkeypatch.setattr(f"gpulsh.{home}.select_backend", selecting(cuda))
    return cuda


def both(cuda: CudaBackend, call: Any, *given: Any) -> None:
    """`call` gives the device's arrays there, equal to the reference's."""
    found, wanted = call(*given, backend="cuda"), call(*given, backend="reference")
    for one, other in zip(_arrays(found), _arrays(wanted), strict=True):
        assert not isinstance(one, np.ndarray)
        np.testing.assert_array_equal(cuda.asnumpy(one), other)
        assert one.dtype == other.dtype


def _arrays(result: Any) -> list[Any]:
    if hasattr(result, "offset"):
        return [result.ids, result.offset]
    return [getattr(result, "values", result)]


@pytest.mark.parametrize("weights", ["set", "count", "idf"])
def test_simhash_and_its_estimates(everywhere: CudaBackend, weights: Any) -> None:
    rows = random_table([40, 0, 33, 41, 90, 1], universe=64)
    sketch, pairs = gpulsh.SimHash(bits=128, weights=weights), [[0, 2], [1, 1], [3, 4]]
    both(everywhere, sketch, rows)
    texts = ["one two three four", None, "two three four five", "one two three four two three four"] * 3
    both(everywhere, sketch.from_texts, texts)
    signatures = sketch(rows, backend="reference")
    both(everywhere, gpulsh.hamming, signatures, pairs)
    both(everywhere, gpulsh.cosine, rows, pairs)
    np.testing.assert_allclose(
        everywhere.asnumpy(sketch.estimate(signatures, pairs, backend="cuda")),
        sketch.estimate(signatures, pairs, backend="reference"),
    )


def test_hyperplanes(everywhere: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(1).normal(size=(9, 13))
    vectors[4] = 0
    both(everywhere, gpulsh.Hyperplanes(bits=128), vectors)
    monkeypatch.setattr("gpulsh.sketch.hyperplanes.AT_ONCE", 700)
    monkeypatch.setattr("gpulsh.sketch.hyperplanes.ROWS", 2)
    both(everywhere, gpulsh.Hyperplanes(bits=128), vectors.astype(np.float32))
    both(everywhere, gpulsh.Hyperplanes(), vectors[:0])
    with pytest.raises(gpulsh.ParameterError, match="row 3"):
        gpulsh.Hyperplanes()(np.array([[0.0], [1], [2], [np.inf]]), backend="cuda")


@pytest.mark.parametrize(("width", "distance"), [(1, 3), (2, 2), (1, 0)])
def test_hamming_tables(everywhere: CudaBackend, monkeypatch: pytest.MonkeyPatch, width: int, distance: int) -> None:
    monkeypatch.setattr("gpulsh.lsh.hamming_tables.AT_ONCE", 300)
    words = np.random.default_rng(2).integers(0, 2**64, (120, width), np.uint64)
    words[60:] = words[:60] ^ (np.uint64(1) << np.random.default_rng(3).integers(0, 64, (60, width), np.uint64))
    words[7:9] = 0
    signatures = BitSignatures(words)
    search = gpulsh.HammingTables(bits=64 * width, distance=distance)
    both(everywhere, search.pairs, signatures)
    both(everywhere, search.pairs, BitSignatures(words[:0]))
    asked = BitSignatures(words[50:])
    for where in ("cuda", "reference"):
        built = search.build(signatures, backend=where)  # type: ignore[arg-type]
        both(everywhere, built.query, asked)
        both(everywhere, built.examined, asked)
    pieces = [everywhere.asnumpy(piece) for piece in search.pieces(signatures, backend="cuda")]
    assert sorted(np.concatenate(pieces).tolist()) == search.pairs(signatures, backend="cpu").tolist()


def test_bit_sampling_and_supershingles(everywhere: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulsh.lsh.banding.BITS_AT_ONCE", 50)
    words = np.random.default_rng(2).integers(0, 2**64, (20, 2), np.uint64)
    both(everywhere, gpulsh.BitSampling(bands=5, rows=3), BitSignatures(words))
    signatures = gpulsh.Signatures(np.random.default_rng(1).integers(0, 2, (30, 8)).astype(np.uint32))
    both(everywhere, gpulsh.Supershingles(groups=4, of=2, agree=2), signatures)
