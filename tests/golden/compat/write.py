"""Writes what other libraries make of the rows here, a file a library, installed where this runs alone.

python -m tests.golden.compat.write datasketch      with datasketch, as the others with the package of their name
python -m tests.golden.compat.write nemo            of the transcription below: cuDF runs on devices alone
"""

import importlib.metadata
import json
import pickle
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
WORDS = ["the", "quick", "brown", "fox", "", "naïve", "漢字", "x" * 70, "fox", "0"]
ROWS = [[], ["a"], WORDS, WORDS[::-1], [f"w{i}" for i in range(40)]]
TEXTS = [
    "",
    "a",
    "The same text, as it stood: twice.",
    "naïve 漢字, 𝒳 and é́; x" * 3,
    " ".join(f"w{i}" for i in range(30)),
]
SIMPLIFIED = [
    "On Monday, the 3rd of MARCH 2020: 3.5% of ٣٫٥ Résumés!\n\tI'd  say “no”…",
    "1|2|3 １．２ ½ ǅ İ ﬁ Straße\u2028x\x1fy\x85z ~~ [a]{b}",
    "漢字、かな。ば\u3099 한국어 हिन्दी",
    "",
]
VECTORS = [[1, 0, 0, 2, 0.5], [3, 1, 4, 1, 5], [0, 0, 0, 1e-3, 0], [3, 1, 4, 1, 6]]


def datasketch() -> dict[str, Any]:
    from datasketch import MinHash, WeightedMinHashGenerator

    signatures = {}
    for scheme in ("affine32", "affine64", "legacy"):
        for num_perm, seed in ((9, 1), (128, 1), (4, 2**32 - 1)):
            kept = ROWS if num_perm < 100 else ROWS[2:3]
            tokens = [[word.encode() for word in row] for row in kept]
            made = MinHash.bulk(tokens, num_perm=num_perm, seed=seed, scheme=scheme)
            signatures[f"{scheme} {num_perm} {seed}"] = [one.hashvalues.tolist() for one in made]
    stored = {scheme: stored_bytes(scheme) for scheme in ("affine32", "affine64", "legacy")}
    generator = WeightedMinHashGenerator(5, 12, seed=3)
    matrix = np.array(VECTORS)
    return {
        "rows": ROWS,
        "signatures": signatures,
        "bytes": stored,
        "index": index(),
        "vectors": VECTORS,
        "weighted": [generator.minhash(row).hashvalues.tolist() for row in matrix],
        "weighted many": [one.hashvalues.tolist() for one in generator.minhash_many(matrix)],
    }


def index() -> dict[str, Any]:
    from datasketch import MinHash, MinHashLSH, MinHashLSHEnsemble, MinHashLSHForest
    from datasketch.lsh import _optimal_param
    from datasketch.lshensemble import optimal_partitions

    bands = [
        [threshold, num_perm, weight, *_optimal_param(threshold, num_perm, weight, 1 - weight)]
        for num_perm in (4, 16, 100, 128)
        for threshold in (0.05, 0.3, 0.5, 0.77, 0.8, 0.95)
        for weight in (0.5, 0.25)
    ]
    forest, signatures = MinHashLSHForest(num_perm=16, l=4), []
    for place in range(30):
        signatures.append(MinHash(16))
        signatures[-1].update_batch([b"%d" % token for token in range(place, place + 8)])
        forest.add(place, signatures[-1])
    forest.index()
    nearest = [sorted(forest.query(one, 4)) for one in signatures]
    ensemble = MinHashLSHEnsemble(threshold=0.6, num_perm=16, num_part=3, m=4)
    ensemble.index([(place, one, 3 + place % 7) for place, one in enumerate(signatures)])
    contained = [sorted(ensemble.query(one, 4)) for one in signatures]
    more = [
        MinHashLSHEnsemble(threshold=t, num_perm=32, m=8, weights=(w, 1 - w)) for t in (0.1, 0.9) for w in (0.5, 0.25)
    ]
    sizes, counts = np.array([1, 2, 3, 5, 8, 20, 21, 22, 40, 90]), np.array([9, 1, 4, 2, 2, 7, 1, 1, 3, 5])
    parts = [np.array(optimal_partitions(sizes, counts, n)).tolist() for n in (1, 2, 3, 4, 6, 10, 16)]
    tables, pickles = MinHashLSH(threshold=0.5, num_perm=16), {}
    for key, tokens in {"a": "xyz", "b": "xyzw", "c": "q"}.items():
        one = MinHash(16)
        one.update_batch([token.encode() for token in tokens])
        tables.insert(key, one)
    for key, scheme in {"2.0": "affine32", "1.x": "legacy"}.items():
        made, one = MinHashLSH(threshold=0.5, num_perm=16), MinHash(16, scheme=scheme)
        one.update_batch([b"x", b"y", b"z"])
        made.insert("a", one)
        if key == "1.x":  # whose objects did not tell a scheme
            del made._minhash_scheme, one.scheme
            MinHash.__getstate__ = lambda self: self.__dict__
        pickles[key] = pickle.dumps([made, one], protocol=4).hex()
    hexadecimal = [sorted(band.hex() for band in table) for table in tables.hashtables]
    return {
        "bands": bands,
        "tables": hexadecimal,
        "pickles": pickles,
        "forest": nearest,
        "ensemble": contained,
        "partitions": parts,
        "ensemble bands": [one.params.tolist() for one in [ensemble, *more]],
    }


def stored_bytes(scheme: str) -> dict[str, Any]:
    from datasketch import LeanMinHash, MinHash, bBitMinHash

    full, other, found = MinHash(5, seed=7, scheme=scheme), MinHash(5, seed=7, scheme=scheme), {}
    full.update_batch([b"a", b"b"])
    other.update(b"b")
    for order in "@<>":
        buffer = bytearray(LeanMinHash(full).bytesize(order))
        LeanMinHash(full).serialize(buffer, order)
        found[f"lean {order}"] = buffer.hex()
    for bits in (1, 3, 9, 32):
        found[f"{bits} bits"] = bytes(bBitMinHash(full, bits).__getstate__()).hex()
        pairs = [(bBitMinHash(full, bits, r), bBitMinHash(other, bits, s)) for r, s in ((0.0, 0.0), (0.3, 0.1))]
        found[f"{bits} bits estimates"] = [one.jaccard(two) for one, two in pairs]
    return found


def datatrove() -> dict[str, Any]:
    from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupSignature
    from datatrove.utils.hashing import HashConfig
    from datatrove.utils.text import TextNormConfig, simplify_text

    signatures, rows = {}, [row for row in ROWS if len(row) > 2]
    for precision in (32, 64):
        for hash_fc in ("sha1", "xxhash"):
            hashes = HashConfig(precision=precision, hash_fc=hash_fc)
            config = MinhashConfig(n_grams=3, num_buckets=4, hashes_per_bucket=3, hash_config=hashes)
            step = MinhashDedupSignature(tempfile.mkdtemp(), config)
            made = []
            for row in rows:
                step.word_tokenizer = SimpleNamespace(word_tokenize=lambda _, words=row: words)
                made.append([value for bucket in step.get_signature(step.get_shingles("")) for value in bucket])
            signatures[f"{precision} {hash_fc}"] = made
    every = TextNormConfig(norm_weekdays=True, norm_monthnames=True)
    none = TextNormConfig(False, False, False, False, False)
    simplified = [[text, *(simplify_text(text, c) for c in (TextNormConfig(), every, none))] for text in SIMPLIFIED]
    return {"rows": rows, "signatures": signatures, "simplified": simplified}


def text_dedup() -> dict[str, Any]:
    from text_dedup.config.algorithms.minhash import MinHashAlgorithmConfig

    signatures = {}
    for bits in (64, 32, 16):
        for name in ("sha1", "xxh3"):
            shape = {"num_perm": 12, "ngram_size": 3, "min_length": 2, "threshold": 0.5, "bands": 2, "rows": 6}
            names = {"algorithm_name": "minhash", "text_column": "text", "hash_bits": bits, "hash_func_name": name}
            config = MinHashAlgorithmConfig(**shape, **names)
            embed, big_endian = config.get_embed_func(), np.dtype(f"uint{bits}").newbyteorder()
            bands = [embed([text], [0])["__band_val__"] for text in TEXTS]
            signatures[f"{bits} {name}"] = [np.frombuffer(b"".join(row), big_endian).tolist() for row in bands]
    words = MinHashAlgorithmConfig._get_tokenize_func(config)
    return {"texts": TEXTS, "signatures": signatures, "tokens": [words(text) for text in SIMPLIFIED]}


def fastsketchlsh() -> dict[str, Any]:
    from FastSketchLSH import FastSimilaritySketch

    rows = [[5], [3, 1, 4, 1, 5, 9, 2, 6], list(range(0, 4000, 7)), [0, 2**31, 2**32 - 1]]
    signatures = {}
    for size, seed in ((1, 42), (8, 42), (64, 7), (256, 42)):
        sketch = FastSimilaritySketch(size, seed=seed)
        signatures[f"{size} {seed}"] = [list(map(int, sketch(row))) for row in (rows if size < 100 else rows[1:3])]
    return {"rows": rows, "signatures": signatures}


def nemo() -> dict[str, Any]:
    signatures = {}
    for bits in (32, 64):
        for width in (2, 5, 24):
            signatures[f"{bits} {width}"] = [nemo_signature(text, width, 9, 42, bits) for text in TEXTS]
    return {"texts": TEXTS, "signatures": signatures}


def nemo_signature(text: str, width: int, count: int, seed: int, bits: int) -> list[int]:
    """As cuDF's `minhash_seed_kernel` and `minhash_kernel`, in words of `bits`; an empty text gives zeros."""
    generator, dtype, word = np.random.RandomState(seed), np.dtype(f"uint{bits}").type, (1 << bits) - 1
    modulus = 2**31 - 1 if bits == 32 else 2**61 - 1
    drawn = [[int(generator.randint(low, modulus, dtype=dtype)) for low in (1, 0)] for _ in range(count)]
    windows = [text[i : i + width] for i in range(max(len(text) - width + 1, 1))] if text else []
    murmur = murmur3_32 if bits == 32 else murmur3_128
    hashes = [max(murmur(window.encode(), drawn[0][0]), 1) for window in windows]
    return [min(((x * a + b & word) % (2**61 - 1) & word for x in hashes), default=0) for a, b in drawn]


def murmur3_32(data: bytes, seed: int) -> int:
    """MurmurHash3_x86_32, byte by byte."""
    mask, hashed = 2**32 - 1, seed
    for at in range(0, len(data), 4):
        word = int.from_bytes(data[at : at + 4], "little") * 0xCC9E2D51 & mask
        hashed ^= (word << 15 & mask | word >> 17) * 0x1B873593 & mask
        if at + 4 <= len(data):
            hashed = ((hashed << 13 & mask | hashed >> 19) * 5 + 0xE6546B64) & mask
    hashed ^= len(data)
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & mask
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & mask
    return hashed ^ hashed >> 16


def murmur3_128(data: bytes, seed: int) -> int:
    """The first half of MurmurHash3_x64_128."""
    mask, one, two = 2**64 - 1, 0x87C37B91114253D5, 0x4CF5AD432745937F

    def rotated(word: int, left: int) -> int:
        return word << left & mask | word >> 64 - left

    def finished(word: int) -> int:
        word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & mask
        word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & mask
        return word ^ word >> 33

    first = second = seed
    for at in range(0, len(data), 16):
        low, high = (int.from_bytes(data[at + skip : at + skip + 8], "little") for skip in (0, 8))
        first ^= rotated(low * one & mask, 31) * two & mask
        whole = at + 16 <= len(data)
        if whole:
            first = (rotated(first, 27) + second) * 5 + 0x52DCE729 & mask
        second ^= rotated(high * two & mask, 33) * one & mask
        if whole:
            second = (rotated(second, 31) + first) * 5 + 0x38495AB5 & mask
    first, second = first ^ len(data), second ^ len(data)
    first = first + second & mask
    second = second + first & mask
    first, second = finished(first), finished(second)
    return first + second & mask


if __name__ == "__main__":
    for name in sys.argv[1:]:
        versions = {"numpy": np.__version__}
        if name != "nemo":
            versions[name] = importlib.metadata.version(name.replace("_", "-"))
        made = {"versions": versions, **globals()[name]()}
        (FOLDER / f"{name}.json").write_text(json.dumps(made, ensure_ascii=True, separators=(",", ":")) + "\n")
