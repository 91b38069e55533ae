"""Every operation once on one text, each on what the one before it gave; and the same by the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpulsh.arrays import Buckets, Fingerprints, SignedBatch, TextBatch, Tokens, WeightedFingerprints
from gpulsh.backends.protocol import Backend, sketched
from gpulsh.params import FOREIGN_SKETCHES, SKETCHES, BandShape, Family, Shingling
from gpulsh.secret import evidence_keys

SHINGLING = Shingling(unit="word", size=5)
FAMILY = Family(num_perm=128)
FEW_COLUMNS = 33  # more than a warp has: the reference takes a step for each value and column
FOREIGN_BINS = 64  # a power of two, as one of them asks for
SHAPE = BandShape(bands=14, rows=9)
KEYS = evidence_keys(bytes(range(32)))
SLOTS = 1 << 16
WINDOW = 20  # tokens, as for passages
BITS = np.array([1, 2], np.uint64)  # what fingerprints are combined with for two words of SimHash
# Of the protocol what computes nothing: where arrays go, and who works when.
NOT_OPERATIONS = {
    "name",
    "asarray",
    "asnumpy",
    "use_device",
    "keep",
    "stage",
    "hold",
    "sizes",
    "pipelined_map",
    "parallel_map",
    "shared_by",
}


def operations_of(protocol: type = Backend) -> set[str]:
    """The names of all operations that the protocol asks for."""
    return {name for name in vars(protocol) if not name.startswith("_")} - NOT_OPERATIONS


def run(backend: Any, text: TextBatch, shingling: Shingling = SHINGLING) -> dict[str, Any]:
    """The result of each operation, by its name."""
    found: dict[str, Any] = {}
    found["tokens"] = tokens = backend.tokens(text, shingling)
    found["shingles"] = backend.shingles(tokens, shingling.size)
    found["shingle"] = backend.shingle(text, shingling)
    found["labelled"] = backend.labelled(found["shingle"])
    found["winnow"] = backend.winnow(found["shingle"], 3)
    counts = np.diff(backend.asnumpy(tokens.offset))
    filled = np.flatnonzero(counts)
    long = np.flatnonzero(counts >= WINDOW)
    first, windows = tokens.offset[backend.asarray(long)], backend.asarray(counts[long] - WINDOW + 1)
    found["window_hashes"] = backend.window_hashes(tokens, first, windows, WINDOW, KEYS)
    found["token_bounds"] = backend.token_bounds(
        text, shingling, backend.asarray(filled), backend.asarray(counts[filled] - 1)
    )
    found["exact_hashes"] = backend.exact_hashes(text, shingling, KEYS)
    found["shingle_sets"] = backend.shingle_sets(text, shingling)
    found["shingle_sets secret"] = backend.shingle_sets(text, shingling, KEYS)
    begin, end = text.offset[:-1].copy(), text.offset[1:].copy()
    found["gather"] = backend.gather(text.values, begin[::-1].copy(), end[::-1].copy())
    for part in range(2):
        found[f"shingle_part {part}"] = backend.shingle_part(text, shingling, part, 2)
    found["unique"] = unique = backend.unique(found["shingle"])
    for name in SKETCHES:
        family = FAMILY if name == FAMILY.name else Family(name=name, num_perm=FEW_COLUMNS)
        found[f"set_sketch {name}"] = sketched(backend, found["shingle"], family)
    for foreign in FOREIGN_SKETCHES:
        found[f"set_sketch {foreign}"] = sketched(
            backend, found["shingle"], Family(name=foreign, num_perm=FOREIGN_BINS)
        )
    found["text_signatures"] = backend.text_signatures(text, shingling, FAMILY)
    found["band_digests"] = digests = backend.band_digests(found[f"set_sketch {FAMILY.name}"], SHAPE)
    found["sign"] = backend.sign(text, shingling, FAMILY, SHAPE, KEYS)
    ids = backend.asarray(np.arange(len(text), dtype=np.int64))
    found["collisions"] = buckets = backend.collisions(digests[:, 0].copy(), ids)
    found["candidates"] = pairs = backend.candidates(buckets)
    found["intersect"] = backend.intersect(pairs, unique)
    found["bitmaps"] = backend.bitmaps(unique)
    sizes = np.diff(backend.asnumpy(unique.offset))
    found["overlap_bounds"] = backend.overlap_bounds(pairs, found["bitmaps"], backend.asarray(sizes))
    found["simhash"] = backend.simhash(unique, BITS)
    found["text_simhash"] = backend.text_simhash(text, shingling, BITS, True)
    found["occurrences"] = weighted = backend.occurrences(found["shingle"])
    found["weighted_overlap"] = backend.weighted_overlap(pairs, weighted)
    found["weighted_minhash"] = backend.weighted_minhash(weighted, 3, 1)
    dense = np.arange(4.0 * len(text)).reshape(-1, 4)
    found["kleinberg_tardos"] = backend.kleinberg_tardos(backend.asarray(dense), 3, 1)
    found["components"] = backend.components(len(text), pairs)
    found["frequencies"] = counts = backend.frequencies(unique, backend.asarray(np.zeros(SLOTS, np.uint8)))
    found["prefixes"] = backend.prefixes(unique, counts, backend.asarray((sizes + 1) // 2), 2)
    return found


def check(
    backend: Any,
    text: TextBatch,
    wanted: Any,
    shingling: Shingling = SHINGLING,
    expected: Callable[[], dict[str, Any]] | None = None,
) -> list[str]:
    """Compare with the backend `wanted`; an AssertionError names the operation. Returns what was compared.

    `text` is in host memory; `expected` gives the answers of `wanted`, where it need not be asked.
    """
    found = run(backend, TextBatch(backend.asarray(text.values), backend.asarray(text.offset)), shingling)
    answers = expected() if expected else run(wanted, text, shingling)
    for name, value in found.items():
        for one, other in zip(parts(value), parts(answers[name]), strict=True):
            np.testing.assert_array_equal(backend.asnumpy(one), wanted.asnumpy(other), err_msg=name)
    return sorted({name.split()[0] for name in found})


def parts(value: Any) -> list[Any]:
    """The arrays that an operation takes or gives."""
    if isinstance(value, (Fingerprints, TextBatch, Tokens)):
        return [value.values, value.offset]
    if isinstance(value, WeightedFingerprints):
        return [value.values, value.weight, value.offset]
    if isinstance(value, Buckets):
        return [value.ids, value.offset]
    if isinstance(value, SignedBatch):
        return [value.digests, value.exact, value.shingles]
    if isinstance(value, tuple):
        return [part for item in value for part in parts(item)]
    return [value]


def size_of(*values: Any) -> int:
    """Bytes of all arrays among `values`, each once: what an operation would move if it read nothing twice."""
    arrays = [array for value in values for array in parts(value) if hasattr(array, "dtype") and hasattr(array, "size")]
    return sum(int(array.size) * array.dtype.itemsize for array in arrays)
