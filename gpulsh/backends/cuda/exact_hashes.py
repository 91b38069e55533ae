"""exact_hashes: of a batch, or a piece of a document after another."""

from __future__ import annotations

import numpy as np

from gpulsh.arrays import Array
from gpulsh.backends.cuda.keys import DeviceKeys
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.backends.cuda.tokens import TokenSums


def exact_hashes(machine: Machine, tokens: TokenSums, keys: DeviceKeys) -> Array:
    hashes = machine.arrays.zeros((len(tokens.starts) - 1, 2), np.uint64)
    add_exact_terms(machine, tokens, 0, keys, hashes)
    return hashes


def add_exact_terms(machine: Machine, tokens: TokenSums, before: int, keys: DeviceKeys, hashes: Array) -> None:
    """Adds to uint64 [n, 2] the share of tokens that follow `before` others of their documents."""
    geometry, total = machine.geometry, len(tokens.sums)
    machine.run(
        *("exact_hashes", "exact_hashes", total, geometry.threads * geometry.exact_items),
        *(tokens.packed, np.int64(total), tokens.starts, np.int64(len(tokens.starts) - 1)),
        *(np.int32(tokens.skip), np.int64(before), np.int32(geometry.exact_items), keys.words, hashes),
    )
