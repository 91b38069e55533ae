"""All sketches, similarities and signatures that `sketches` lacks, on one thread: items per second.

Each operation has a bound where one is meaningful, measured in the same round. It is a copy of its bytes, a sort of as
many keys per table, MD5 of as many bytes, or a product of as many numbers. For results from text it is `shingle`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from functools import partial
from hashlib import md5
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import gpulsh
from benchmarks.bench import Bench, line
from benchmarks.engines.gpulsh import Gpulsh
from gpulsh import BitSignatures, Shingling
from gpulsh.backends.select import BackendName

TITLE = "Operations on ready fingerprints, signatures and texts, on one thread"
WORK: dict[str, Any] = {}
TEXTS, WORDS, VECTORS = 5000, 300_000, 4000
COLUMNS = 64  # of vectors
SHARE = 200  # of all these the reference judges one of as many
WANTED = 0.8  # of the speed of `shingle`

Work = Callable[[], Any]


class Operation(NamedTuple):
    """`work` takes `amount` things."""

    name: str
    things: str
    amount: int
    work: Work
    bound: str = ""
    least: Work | None = None  # the bound's work


def run(bench: Bench) -> dict[str, Any]:
    """Paired: each round does every operation once, and then its bound."""
    texts = Gpulsh(1).load(bench.corpus, min(TEXTS, bench.rows or TEXTS))
    checks = _check(texts[: max(len(texts) // SHARE, 2)])
    rows, lines = [], []
    for operation in operations(texts, 1, "cpu"):
        operation.work()
        took = [_seconds(operation.work) for _ in range(bench.rounds)]
        seconds = median(took)
        row: dict[str, Any] = {"operation": operation.name, "of": operation.things, "count": operation.amount}
        row |= {"seconds": round(seconds, 4), "M / s": round(operation.amount / seconds / 1e6, 3)}
        if operation.least:
            share = median(_seconds(operation.least) / _seconds(operation.work) for _ in range(bench.rounds))
            row |= {"bound": operation.bound, "share": round(share, 3)}
            if operation.name == "SimHash 64, set" and operation.bound == "shingle":
                lines.append(line("SimHash 64 from text: share of the speed of shingle", round(share, 2), WANTED,
                                  at_least=True))  # fmt: skip
        rows.append(row)
        bench.say(f"  {row}")
    return {"rows": rows, "checks": checks, "lines": lines, "raw": []}


def _check(texts: pa.Array) -> list[dict[str, Any]]:
    """On a share of the timed input, every operation gives the result of the reference."""
    ours, wanted = operations(texts, SHARE, "cpu"), operations(texts, SHARE, "reference")
    names = []
    for one, other in zip(ours, wanted, strict=True):
        for left, right in zip(_arrays(one.work()), _arrays(other.work()), strict=True):
            np.testing.assert_array_equal(left, right, err_msg=one.name)
        names.append(one.name)
    return [{"equal to the reference": "; ".join(names)}]


def _arrays(value: Any) -> list[NDArray[Any]]:
    return [np.asarray(array) for array in (vars(value).values() if is_dataclass(value) else [value])]


def _seconds(work: Work) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def operations(texts: pa.Array, share: int, backend: BackendName) -> Iterator[Operation]:
    """All of them, of these texts and of one of `share` of all else."""
    ask: dict[str, Any] = {"backend": backend, "threads": 1}
    yield from _of_texts(texts, ask)
    yield from _of_sets(texts, ask)
    yield from _of_words(WORDS // share, ask)
    yield from _of_vectors(VECTORS // share, ask)


def _of_texts(texts: pa.Array, ask: dict[str, Any]) -> Iterator[Operation]:
    count, shingle = size_of_texts(texts), partial(gpulsh.shingle, texts, **ask)
    whole = b"".join(text.as_buffer() for text in texts)
    for hashing in ("mix64", "rabin", "karp_rabin"):
        work = partial(gpulsh.shingle, texts, shingling=Shingling(hash=hashing), **ask)  # type: ignore[arg-type]
        yield Operation(f"shingle, {hashing}", "bytes", count, work, "shingle", shingle)
    for name, shingling in (("symbols", Shingling(symbols=True)), ("labels", Shingling(labels=True))):
        work = partial(gpulsh.shingle, texts, shingling=shingling, **ask)
        yield Operation(f"shingle, {name}", "bytes", count, work, "shingle", shingle)
    for bits, weights in ((64, "set"), (64, "count"), (64, "idf"), (128, "set"), (384, "set")):
        sketch = gpulsh.SimHash(bits=bits, weights=weights)  # type: ignore[arg-type]
        work = partial(sketch.from_texts, texts, **ask)
        yield Operation(f"SimHash {bits}, {weights}", "bytes", count, work, "shingle", shingle)
    yield Operation("weigh", "bytes", count, partial(gpulsh.weigh, texts, **ask), "shingle", shingle)
    digest = partial(md5, whole)
    yield Operation("md5_signatures", "bytes", count, partial(gpulsh.md5_signatures, texts), "MD5", digest)
    yield Operation("text_profiles", "bytes", count, partial(gpulsh.text_profiles, texts), "shingle", shingle)


def size_of_texts(texts: pa.Array) -> int:
    return sum(text.as_buffer().size for text in texts)


def _of_sets(texts: pa.Array, ask: dict[str, Any]) -> Iterator[Operation]:
    fingerprints = gpulsh.shingle(texts, **ask)
    weighted = gpulsh.weigh(texts, **ask)
    signatures = gpulsh.MinHash(num_perm=128)(fingerprints, **ask)
    pairs = np.random.default_rng(1).integers(0, len(texts), (20 * len(texts), 2))
    sketches: dict[str, Any] = {
        "SimHash 64, set": gpulsh.SimHash(),
        "SimHash 384, set": gpulsh.SimHash(bits=384),
        "SimHash 64, count": gpulsh.SimHash(weights="count"),
        "SimHash 64, idf": gpulsh.SimHash(weights="idf"),
        "BottomS 128": gpulsh.BottomS(size=128),
        "ModM 16": gpulsh.ModM(modulus=16),
    }
    for name, sketch in sketches.items():
        work: Work = partial(sketch, fingerprints, **ask)
        yield Operation(name, "fingerprints", len(fingerprints.values), work, *_copy(fingerprints, work()))
    for bits in (1, 8):
        work = partial(gpulsh.BBit(bits=bits, num_perm=128), signatures, **ask)
        yield Operation(f"BBit {bits}", "values", signatures.values.size, work, *_copy(signatures.values, work()))
    supershingles = gpulsh.Supershingles(groups=6, of=14)
    yield Operation("Supershingles", "signatures", len(texts), partial(supershingles, signatures, **ask))
    work = partial(gpulsh.WeightedMinHash(num_perm=128), weighted, **ask)
    yield Operation("WeightedMinHash 128", "weights", len(weighted.values), work)
    for similarity in (gpulsh.jaccard, gpulsh.containment, gpulsh.cosine):
        work = partial(similarity, fingerprints, pairs, **ask)
        yield Operation(similarity.__name__, "pairs", len(pairs), work)
    yield Operation("jaccard, weighted", "pairs", len(pairs), partial(gpulsh.jaccard, weighted, pairs, **ask))


def _of_words(count: int, ask: dict[str, Any]) -> Iterator[Operation]:
    generator = np.random.default_rng(1)
    words = BitSignatures(generator.integers(0, 2**64, (count, 1), np.uint64))
    pairs = generator.integers(0, count, (5 * count, 2))
    work: Work = partial(gpulsh.hamming, words, pairs, **ask)
    yield Operation("hamming", "pairs", len(pairs), work, *_copy(pairs, pairs, work()))  # two words per pair
    search = gpulsh.HammingTables(distance=3)
    keys = len(search.design(count).keys)
    sorts = f"sort of {keys} tables", partial(_sorts, words.values[:, 0], keys)
    yield Operation("HammingTables.pairs", "signatures", count, partial(search.pairs, words, **ask), *sorts)
    yield Operation("HammingTables.build", "signatures", count, partial(_tables, search, words, ask), *sorts)
    built, asked = search.build(words, **ask), BitSignatures(words.values[: max(count // 10, 1)] ^ np.uint64(5))
    yield Operation("HammingTables.query", "queries", len(asked), partial(built.query, asked, **ask))
    work = partial(gpulsh.BitSampling(bands=16, rows=16), words, **ask)
    yield Operation("BitSampling 16 x 16", "signatures", count, work, *_copy(words.values, work()))


def _tables(search: gpulsh.HammingTables, words: BitSignatures, ask: dict[str, Any]) -> NDArray[np.int64]:
    """int64 [tables, n]: the order of each table."""
    return np.stack([table.order for table in search.build(words, **ask).tables])


def _of_vectors(count: int, ask: dict[str, Any]) -> Iterator[Operation]:
    generator = np.random.default_rng(1)
    vectors = generator.random((count, COLUMNS)) * (generator.random((count, COLUMNS)) < 0.5)
    vectors[:, 0] += 1
    masses = vectors / vectors.sum(axis=1, keepdims=True)
    points = np.arange(COLUMNS, dtype=float)
    mover = gpulsh.EarthMover(abs(points[:, None] - points), num_trees=16)
    works: dict[str, Work] = {
        "WeightedMinHash 128, dense": partial(gpulsh.WeightedMinHash(num_perm=128), vectors, **ask),
        "KleinbergTardos 128": partial(gpulsh.KleinbergTardos(num_perm=128), vectors, **ask),
        "EarthMover 16": partial(mover, masses, **ask),
    }
    for name, work in works.items():
        yield Operation(name, "vectors", count, work)
    product = "product", partial(np.matmul, vectors, generator.random((COLUMNS, 64)))
    yield Operation("Hyperplanes 64", "vectors", count, partial(gpulsh.Hyperplanes(bits=64), vectors, **ask), *product)


def _copy(*values: Any) -> tuple[str, Work]:
    """Copies half as many bytes as there are: each is read and written."""
    half = np.zeros(sum(array.nbytes for value in values for array in _arrays(value)) // 2, np.uint8)
    return "copy", partial(np.copyto, np.zeros_like(half), half)


def _sorts(words: NDArray[np.uint64], times: int) -> None:
    for _ in range(times):
        np.argsort(words, kind="stable")
