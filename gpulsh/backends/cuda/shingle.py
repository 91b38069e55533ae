"""shingles, shingle (whose kernel also does the last mix of tokens), and exact_hashes."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Tokens
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.tokens import DeviceKeys, TokenSums

TOKENS = 5  # a thread takes, as kernels/shingle.cu has it


def shingles(machine: Machine, tokens: Tokens, size: int, keys: DeviceKeys) -> Fingerprints:
    first, last = machine.number(tokens.offset[0]), machine.number(tokens.offset[-1])
    return _shingles(
        machine, "shingle_hashes", TokenSums(tokens.values[first:last], tokens.offset - first, 0), size, keys
    )


def shingle_sums(machine: Machine, tokens: TokenSums, size: int, keys: DeviceKeys) -> Fingerprints:
    """`shingles` of tokens that are not mixed yet."""
    return _shingles(machine, "shingle", tokens, size, keys)


def _shingles(machine: Machine, kernel: str, tokens: TokenSums, size: int, keys: DeviceKeys) -> Fingerprints:
    xp, geometry, total = machine.arrays, machine.geometry, len(tokens.sums)
    counts = tokens.counts(xp)
    rows = machine.exclusive(xp.where(counts > 0, xp.maximum(counts - size, 0) + 1, 0))
    values = xp.empty(machine.number(rows[-1]), np.uint64)
    machine.run(
        *("shingle", kernel, total, geometry.threads * TOKENS),
        *(tokens.sums, np.int64(total), tokens.starts, np.int64(len(counts))),
        *(np.int32(tokens.skip), np.int32(size), rows, keys.words, values),
    )
    return Fingerprints(values, rows)


def exact_hashes(machine: Machine, tokens: TokenSums, keys: DeviceKeys) -> Array:
    hashes = machine.arrays.zeros((len(tokens.starts) - 1, 2), np.uint64)
    add_exact_terms(machine, tokens, 0, keys, hashes)
    return hashes


def add_exact_terms(machine: Machine, tokens: TokenSums, before: int, keys: DeviceKeys, hashes: Array) -> None:
    """Add to uint64 [n, 2] the terms of tokens that follow `before` others of their documents."""
    geometry, total = machine.geometry, len(tokens.sums)
    machine.run(
        *("exact_hashes", "exact_hashes", total, geometry.threads * geometry.exact_items),
        *(tokens.packed, np.int64(total), tokens.starts, np.int64(len(tokens.starts) - 1)),
        *(np.int32(tokens.skip), np.int64(before), np.int32(geometry.exact_items), keys.words, hashes),
    )
