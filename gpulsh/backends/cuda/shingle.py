"""shingle and exact_hashes: both begin with `token_sums`, so `sign` cuts the text once for the two."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpulsh.arrays import Array, Fingerprints, TextBatch
from gpulsh.backends.cuda.keys import DeviceKeys
from gpulsh.backends.cuda.launcher import Machine
from gpulsh.params import Shingling

STRIP = 28  # bytes a thread of `tokens` takes, as kernels/text.cuh has it
SHINGLE_TOKENS = 5  # tokens a thread of `shingle` takes, as kernels/shingle.cu has it


class Table(NamedTuple):
    """The Unicode table on the device."""

    stage1: Array
    stage2: Array


class TokenSums(NamedTuple):
    """All tokens of a batch, end to end."""

    sums: Array  # uint64 [tokens]: token hashes before their last mix
    starts: Array  # int64 [n + 1]: tokens before each document
    skip: int  # tokens to pass over at the front of each document that has any
    packed: Array | None = None  # uint64 [tokens], where a proof was asked for


def token_sums(
    machine: Machine,
    table: Table,
    text: TextBatch,
    shingling: Shingling,
    keys: DeviceKeys,
    proof: DeviceKeys | None = None,
) -> TokenSums:
    """Tokens under `keys`, packed ones under `proof`, if given."""
    xp, geometry = machine.arrays, machine.geometry
    documents, threads = len(text), geometry.text_threads
    characters = shingling.unit == "char"
    length = machine.number(text.offset[-1] - text.offset[0])
    if length == 0:
        nothing = xp.zeros(0, np.uint64)
        return TokenSums(nothing, xp.zeros(documents + 1, np.int64), int(characters), nothing if proof else None)
    tile = threads * STRIP
    blocks = -(-length // tile)
    begins = xp.zeros(blocks * threads + 2, np.uint32)
    code_points, token_starts, state = (xp.empty(blocks * threads, np.uint32) for _ in range(3))
    block_tokens, block_open = xp.empty(blocks, np.int64), xp.empty(blocks, np.int64)
    offset = (text.offset, np.int64(documents))
    masks = (np.int32(characters), code_points, token_starts, state)
    machine.run("tokens", "tokens_documents", documents, geometry.threads, *offset, begins)
    machine.run(
        *("tokens", "tokens_count", length, tile),
        *(text.values, *offset, begins, *table, *masks, block_tokens, block_open),
        threads=threads,
    )
    tokens_end, open_end = xp.cumsum(block_tokens), xp.cumsum(block_open)
    sums = xp.zeros(1 + machine.number(tokens_end[-1]), np.uint64)
    packed = xp.zeros(len(sums), np.uint64) if proof else None
    machine.run(
        *("tokens", "tokens_sum_packed" if proof else "tokens_sum", length, tile),
        *(text.values, *offset, *table, *masks, tokens_end, open_end, keys.words, np.int32(keys.secret), sums),
        *((proof.words, packed) if proof else ()),
        threads=threads,
    )
    starts = xp.empty(documents + 1, np.int64)
    machine.run(
        *("tokens", "tokens_starts", documents + 1, geometry.threads),
        *(*offset, np.int32(characters), np.int32(threads), np.int64(blocks)),
        *(*masks[1:], tokens_end, starts),
    )
    return TokenSums(sums[1:], starts, int(characters), None if packed is None else packed[1:])


def shingle_tokens(machine: Machine, tokens: TokenSums, size: int, keys: DeviceKeys) -> Fingerprints:
    xp, geometry = machine.arrays, machine.geometry
    counts = xp.maximum(xp.diff(tokens.starts) - tokens.skip, 0)
    rows = machine.exclusive(xp.where(counts > 0, xp.maximum(counts - size, 0) + 1, 0))
    values = xp.empty(machine.number(rows[-1]), np.uint64)
    total = len(tokens.sums)
    machine.run(
        *("shingle", "shingle", total, geometry.threads * SHINGLE_TOKENS),
        *(tokens.sums, np.int64(total), tokens.starts, np.int64(len(counts))),
        *(np.int32(tokens.skip), np.int32(size), rows, keys.words, values),
    )
    return Fingerprints(values, rows)


def hash_tokens(machine: Machine, tokens: TokenSums, keys: DeviceKeys) -> Array:
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
