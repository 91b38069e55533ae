"""Writes bits.json from the oracle. Only a new version of the scheme, named in CHANGELOG.md, may change it.

python -m tests.golden.write
"""

import json
from pathlib import Path
from typing import Any

from gpulsh.backends.protocol import Backend, sketched
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.backends.reference.texts import code_points
from gpulsh.params import SCHEME, BandShape, Family, Folding, Shingling
from gpulsh.permutations import coefficients
from tests.support.texts import KEYS, NOT_UTF8, SEPARATORS, WORDS, batch_of

FILE = Path(__file__).with_name("bits.json")

DOCUMENTS = [
    b"",
    b" .,!\n",
    b"a",
    b"a b c d e",
    b"A  b\tC, d-E",
    b"the quick brown fox jumps over the lazy dog, and the lazy dog sleeps on",
    b"x" * 63 + b" " + b"y" * 64 + b" " + b"Z" * 65 + b" " + b"0" * 150,
    "".join(WORDS).encode(),
    " ".join(WORDS).encode(),
    "".join(word + SEPARATORS[i % len(SEPARATORS)] for i, word in enumerate(WORDS)).encode(),
    b"a\0b\0\0c",
    b"ab".join(NOT_UTF8),
    " ".join(f"w{i}" for i in range(70)).encode(),
]
SHINGLINGS = [("word", 1), ("word", 5), ("word", 64), ("char", 9)]
FAMILIES = [(16, 1), (16, 2**64 - 1), (128, 1)]
SHAPES = [(16, 1), (8, 2), (3, 5), (1, 16)]


def bits(ops: Backend) -> dict[str, Any]:
    """Everything that is pinned, as `ops` computes it; 64-bit numbers in hexadecimal."""
    batch = batch_of(DOCUMENTS)
    families = {f"{count} {seed}": Family(num_perm=count, seed=seed) for count, seed in FAMILIES}
    drawn = {name: coefficients(family) for name, family in families.items()}
    signed = {}
    for unit, size in SHINGLINGS:
        shingling = Shingling(unit=unit, size=size)  # type: ignore[arg-type]
        fingerprints = ops.shingle(batch, shingling)
        signatures = {name: sketched(ops, fingerprints, family) for name, family in families.items()}
        small = signatures["16 1"]
        signed[f"{unit}:{size}"] = {
            "offset": fingerprints.offset.tolist(),
            "fingerprints": _hexadecimal(fingerprints.values.tolist()),
            "exact": [_hexadecimal(row) for row in ops.exact_hashes(batch, shingling, KEYS)[0].tolist()],
            "signatures": {name: values.tolist() for name, values in signatures.items() if name != "128 1"},
            "digests": {
                f"{bands}x{rows}": [
                    _hexadecimal(row) for row in ops.band_digests(small, BandShape(bands=bands, rows=rows)).tolist()
                ]
                for bands, rows in SHAPES
            },
        }
    return {
        "scheme": SCHEME,
        "documents": [document.hex() for document in DOCUMENTS],
        "tokens": {unit: [code_points(document, unit) for document in DOCUMENTS] for unit in ("word", "char")},
        "coefficients": {name: [c.multiplier.tolist(), c.addend.tolist()] for name, c in drawn.items()},
        "parameters": {
            repr(parameters): [parameters.to_json(), parameters.digest()]
            for parameters in (Shingling(), Folding(), Folding(form="NFKC"), Family(), BandShape(bands=21, rows=6))
        },
        "signed": signed,
    }


def _hexadecimal(values: list[int]) -> list[str]:
    return [f"{value:016x}" for value in values]


if __name__ == "__main__":
    FILE.write_text(json.dumps(bits(ReferenceBackend()), indent=None, separators=(",", ":")) + "\n")
