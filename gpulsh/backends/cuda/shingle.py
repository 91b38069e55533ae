"""shingles and shingle, which leaves the last mix of tokens to the kernel."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Fingerprints, Tokens
from gpulsh.backends.cuda.keys import DeviceKeys
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.tokens import TokenSums

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
