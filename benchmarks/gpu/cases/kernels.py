"""Every operation on inputs in device memory, against the limits that the roofline case measured in the same run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from benchmarks.gpu import corpora, operations, synthetic
from benchmarks.gpu.bench import Bench, Found
from benchmarks.gpu.operations import BITS, FAMILY, KEYS, SHAPE, SHINGLING, WINDOW, size_of
from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.protocol import sketched
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.params import Family

TITLE = "Operations, their inputs in device memory"

SETS = 3  # inputs in turn
MEGABYTES = 128.0  # of text each: more than the L2 cache holds
FINGERPRINTS = 64e6  # each: 512 MB
ITEMS = 1e8  # digests, pairs
SLOTS = 1 << 24  # of the frequency table
CHECKED = 40  # documents, by the reference
FAST = "fast_similarity"  # is measured beside MinHash
VALUES = (64, 128, 256, 2048)  # of a signature


@dataclass
class Measured:
    """One operation on one kind of input."""

    operation: str
    given: str
    calls: Sequence[Callable[[], Any]]
    inputs: Any  # of the first call
    text: int = 0  # bytes
    items: float = 0  # of `unit`
    unit: str = ""
    evaluations: float = 0


def run(bench: Bench) -> Found:
    found = Found()
    head = corpora.make_text(np.full(CHECKED, 8, np.int64), script="mixed")
    names = operations.check(bench.backend, head, ReferenceBackend())
    found.checks.append(f"equal to the reference on {CHECKED} documents: {', '.join(names)}")
    missing = operations.operations_of() - set(names)
    found.not_measured += [f"{name}: has no case here" for name in sorted(missing)]
    for group in (of_text, of_fingerprints, of_signatures, of_digests, of_pairs, of_edges, of_bits, of_weights):
        if bench.left < 4:
            found.not_measured.append(f"{group.__name__}: no time left")
            continue
        for measured in group(bench, found):
            _measure(bench, found, measured)
        bench.free()
    return found


def _measure(bench: Bench, found: Found, of: Measured) -> None:
    moved = size_of(of.inputs, of.calls[0]())
    times, kernels = bench.measure(of.calls, limit=2.0)
    copy, roof = bench.figure("copy"), bench.figure("multiply_add")
    row: dict[str, Any] = {"operation": of.operation, "input": of.given, **times.columns()}
    row["GB/s"] = moved / times.median / 1e9
    row["% of copy"] = None if copy is None else 100 * moved / times.median / copy
    row["text GB/s"] = of.text / times.median / 1e9 if of.text else None
    row["rate"] = f"{of.items / times.median / 1e9:.4g} G {of.unit}/s" if of.items else None
    row["G evaluations/s"] = of.evaluations / times.median / 1e9 if of.evaluations else None
    row["% of multiply-adds"] = 100 * of.evaluations / times.median / roof if roof and of.evaluations else None
    row["kernels"] = kernels
    found.rows.append(row)
    bench.say(
        f"  {of.operation:17}{of.given:30}{times.median * 1e3:10.3f} ms {row['GB/s']:8.1f} GB/s  {row['rate'] or ''}"
    )


def of_text(bench: Bench, found: Found) -> list[Measured]:
    ops, family = bench.backend, FAMILY
    rows = []
    for given, phrases in (("400 words", corpora.PAGE), ("50 shingles", corpora.SHINGLES_50)):
        host = [corpora.even(MEGABYTES * bench.scale, phrases, seed=seed) for seed in range(SETS)]
        texts = [bench.text(text) for text in host]
        size = len(host[0].values)
        work: dict[str, Callable[[TextBatch], Any]] = {
            "sign": lambda text: ops.sign(text, SHINGLING, family, SHAPE, KEYS),
            "tokens": lambda text: ops.tokens(text, SHINGLING),
            "shingle": lambda text: ops.shingle(text, SHINGLING),
            "exact_hashes": lambda text: ops.exact_hashes(text, SHINGLING, KEYS),
            "shingle_sets": lambda text: ops.shingle_sets(text, SHINGLING),
            "token_bounds": lambda text: ops.token_bounds(
                text,
                SHINGLING,
                bench.cupy.arange(len(text), dtype=np.int64),
                bench.cupy.zeros(len(text), np.int64),
            ),
            "gather": lambda text: ops.gather(text.values, text.offset[:-1], text.offset[1:]),
            "shingle_part": lambda text: ops.shingle_part(text, SHINGLING, 1, 4),
            "text_signatures": lambda text: ops.text_signatures(text, SHINGLING, family),
        }
        shingles = len(ops.shingle(texts[0], SHINGLING).values)
        for name, do in work.items():
            evaluations = float(shingles * FAMILY.num_perm) if name in ("sign", "text_signatures") else 0.0
            calls = [lambda do=do, text=text: do(text) for text in texts]  # type: ignore[misc]
            rows.append(
                Measured(name, given, calls, texts[0], text=size, items=shingles, unit="shingles",
                         evaluations=evaluations)
            )  # fmt: skip
        tokens = [ops.tokens(text, SHINGLING) for text in texts]
        calls = [lambda one=one: ops.shingles(one, SHINGLING.size) for one in tokens]  # type: ignore[misc]
        rows.append(Measured("shingles", given, calls, tokens[0], items=shingles, unit="shingles"))
        windows = [one.offset[1:] - one.offset[:-1] - np.int64(WINDOW - 1) for one in tokens]
        calls = [
            lambda one=one, count=count: ops.window_hashes(one, one.offset[:-1], count, WINDOW, KEYS)  # type: ignore[misc]
            for one, count in zip(tokens, windows, strict=True)
        ]
        items = int(ops.asnumpy(windows[0]).sum())
        rows.append(Measured("window_hashes", given, calls, tokens[0], items=items, unit="windows"))
    return rows


def of_fingerprints(bench: Bench, found: Found) -> list[Measured]:
    ops, total = bench.backend, bench.count(FINGERPRINTS, 300)
    rows = []
    values = [bench.cupy.asarray(synthetic.draw(total, seed)) for seed in range(SETS)]
    for given, length in (("one row", total), ("rows of 1000", 1000), ("rows of 50", 50), ("rows of 10", 10)):
        sets = [synthetic.rows_of(bench, one, length) for one in values]
        for name, num_perm in product((FAMILY.name, FAST), VALUES if length == 1000 else (128,)):
            family = Family(name=name, num_perm=num_perm)
            calls = [lambda one=one, family=family: sketched(ops, one, family) for one in sets]  # type: ignore[misc]
            evaluations = 0.0 if name == FAST else float(total * num_perm)
            rows.append(
                Measured("set_sketch", f"{given}, {name}, k={num_perm}", calls, sets[0], items=total, unit="shingles",
                         evaluations=evaluations)
            )  # fmt: skip
        if length == 50:
            # Of each set an eighth: sorting takes several times its input in working memory.
            parts = [_first(one, max(len(one) // 8, 2)) for one in sets]
            uniques = [ops.unique(part) for part in parts]
            several = int(uniques[0].offset[-1])
            lengths = bench.cupy.full(len(uniques[0]), 10, np.int64)
            counts = ops.frequencies(uniques[0], bench.cupy.zeros(SLOTS, np.uint8))
            work: dict[str, tuple[list[Fingerprints], Callable[[Fingerprints], Any]]] = {
                "unique": (parts, ops.unique),
                "labelled": (parts, ops.labelled),
                "winnow": (parts, lambda one: ops.winnow(one, 10)),
                "bitmaps": (uniques, ops.bitmaps),
                "frequencies": (uniques, lambda one, counts=counts: ops.frequencies(one, counts)),
                "prefixes": (uniques, lambda one, counts=counts, lengths=lengths: ops.prefixes(one, counts, lengths)),
            }
            for name, (given_sets, do) in work.items():
                calls = [lambda do=do, one=one: do(one) for one in given_sets]  # type: ignore[misc]
                rows.append(Measured(name, given, calls, given_sets[0], items=several, unit="shingles"))
    return rows


def of_signatures(bench: Bench, found: Found) -> list[Measured]:
    count = bench.count(1e6, 20)
    sets = [synthetic.signatures(bench, count, FAMILY.num_perm, seed) for seed in range(SETS)]
    calls = [lambda one=one: bench.backend.band_digests(one, SHAPE) for one in sets]  # type: ignore[misc]
    return [Measured("band_digests", "k=128, 14 bands", calls, sets[0], items=count * SHAPE.bands, unit="digests")]


def of_digests(bench: Bench, found: Found) -> list[Measured]:
    count = bench.count(ITEMS, 200)
    ids = bench.cupy.arange(count, dtype=np.int64)
    rows = []
    for given, share in (("none equal", 0.0), ("20% in pairs", 0.2), ("all in pairs", 1.0)):
        digests, pairs = synthetic.digests(bench, count, share)
        buckets = bench.backend.collisions(digests, ids)
        assert len(buckets) == pairs and len(buckets.ids) == 2 * pairs, "collisions missed or made up pairs"
        calls = [lambda digests=digests: bench.backend.collisions(digests, ids)]  # type: ignore[misc]
        rows.append(Measured("collisions", given, calls, (digests, ids), items=count, unit="digests"))
    found.checks.append(f"collisions of {count:,} digests found every planted pair and no other")
    return rows


def of_pairs(bench: Bench, found: Found) -> list[Measured]:
    ops, count = bench.backend, bench.count(ITEMS, 100)
    buckets = synthetic.buckets(bench, count // 10)
    pairs = ops.candidates(buckets)
    assert len(pairs) == count // 10 * 10, "candidates missed or made up pairs"
    rows = [Measured("candidates", "buckets of 5", [lambda: ops.candidates(buckets)], buckets, items=len(pairs),
                     unit="pairs")]  # fmt: skip
    unique, mates = synthetic.mated_rows(bench, max(count // 50, 4))
    both, either = ops.intersect(mates, unique)
    assert bool((both == synthetic.SHARED).all()) and bool((either == 100 - synthetic.SHARED).all()), "intersect"
    pairs = synthetic.random_pairs(bench, len(unique), count)
    bitmaps, sizes = ops.bitmaps(unique), bench.cupy.diff(unique.offset)
    rows += [
        Measured("intersect", "rows of 50", [lambda: ops.intersect(pairs, unique)], (pairs, unique), items=count,
                 unit="pairs"),
        Measured("overlap_bounds", "rows of 50", [lambda: ops.overlap_bounds(pairs, bitmaps, sizes)],
                 (pairs, bitmaps, sizes), items=count, unit="pairs"),
    ]  # fmt: skip
    found.checks.append(f"candidates gave {count:,} pairs of {count // 10:,} buckets; intersect the planted overlaps")
    return rows


def of_edges(bench: Bench, found: Found) -> list[Measured]:
    ops, rows, count = bench.backend, [], bench.count(ITEMS, 100)
    for given, nodes, edges, labels in synthetic.graphs(bench, count):
        found_labels = ops.components(nodes, edges)
        if labels is not None:
            assert bool((found_labels == labels).all()), f"components of {given}"
        assert bool((found_labels[edges[:, 0]] == found_labels[edges[:, 1]]).all()), f"components of {given}"
        calls = [lambda nodes=nodes, edges=edges: ops.components(nodes, edges)]  # type: ignore[misc]
        rows.append(Measured("components", given, calls, edges, items=len(edges), unit="edges"))
    found.checks.append("components gave the planted labels, and one label to both ends of every edge")
    return rows


def _first(rows: Fingerprints, count: int) -> Fingerprints:
    stop = int(rows.offset[count])
    return Fingerprints(rows.values[:stop], rows.offset[: count + 1])


def of_bits(bench: Bench, found: Found) -> list[Measured]:
    ops, xp = bench.backend, bench.cupy
    unique = synthetic.mated_rows(bench, max(bench.count(ITEMS, 100) // 50, 4))[0]
    words = np.tile(np.frombuffer(b"some words of a text ", np.uint8), len(unique))
    text = TextBatch(xp.asarray(words), xp.asarray(np.arange(len(unique) + 1) * 21))
    calls = {
        "simhash": (unique, lambda: ops.simhash(unique, BITS)),
        "text_simhash": (text, lambda: ops.text_simhash(text, SHINGLING, BITS, True)),
    }
    for name, (_, call) in calls.items():
        assert bool((call() == call()).all()), name
    return [
        Measured(name, "rows of 50", [call], given, items=len(unique), unit="rows")
        for name, (given, call) in calls.items()
    ]


def of_weights(bench: Bench, found: Found) -> list[Measured]:
    ops, xp = bench.backend, bench.cupy
    rows, mates = synthetic.mated_rows(bench, max(bench.count(ITEMS, 100) // 50, 4))
    weighted = ops.occurrences(rows)
    assert bool((weighted.weight == 1).all()), "occurrences"
    least, _ = ops.weighted_overlap(mates, weighted)
    assert bool((least == synthetic.SHARED).all()), "weighted_overlap"
    dense = xp.asarray(np.ones((len(rows), 50)))
    calls = {
        "occurrences": (rows, lambda: ops.occurrences(rows)),
        "weighted_overlap": (weighted, lambda: ops.weighted_overlap(mates, weighted)),
        "weighted_minhash": (weighted, lambda: ops.weighted_minhash(weighted, FAMILY.num_perm, 1)),
        "kleinberg_tardos": (dense, lambda: ops.kleinberg_tardos(dense, FAMILY.num_perm, 1)),
    }
    return [
        Measured(name, "rows of 50", [call], given, items=len(rows), unit="rows")
        for name, (given, call) in calls.items()
    ]
