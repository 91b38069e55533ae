"""Text to fingerprints: tokens, shingles, window_hashes, exact hashes; and bytes of texts: token_bounds, gather.

tokens: text to sums of tokens, the first step of every operation on text, and to their hashes. shingle: its kernel also
does the last mix of tokens. window_hashes: shingles, which the array module joins. token_bounds: the bit masks of
`tokens`, in which a thread per token finds its own. gather: a block per tile of the result, so that a long text does
not delay short ones.
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import numpy as np

from gpulsh.arrays import Array, Fingerprints, TextBatch, Tokens
from gpulsh.backends.cuda.launcher import STRIP
from gpulsh.backends.cuda.machine import Machine
from gpulsh.backends.hashing import mix64, public_words
from gpulsh.backends.protocol import WINDOW_PART, Keys
from gpulsh.params import Shingling
from gpulsh.ragged import expand_ranges, offsets
from gpulsh.secret import SHINGLE, EvidenceKeys

TOKENS = 5  # per thread of `shingle`, as in kernels/shingle.cu
WORD_BYTES = 4  # of `gather`, as in the kernel


class TokenSums(NamedTuple):
    """All tokens of a batch, end to end."""

    sums: Array  # uint64 [tokens]: token hashes before their last mix
    starts: Array  # int64 [n + 1]: tokens before each document
    skip: int  # tokens to skip at the front of each document that has any
    packed: Array | None = None  # uint64 [tokens], for exact hashes

    def counts(self, arrays: ModuleType) -> Array:
        """int64 [n]: the tokens of each document."""
        return arrays.maximum(arrays.diff(self.starts) - self.skip, 0)


class Marks(NamedTuple):
    """Where code points and tokens begin in a batch of some bytes, as bit masks of strips."""

    code_points: Array  # uint32 [strips]
    token_starts: Array  # uint32 [strips]
    state: Array  # uint32 [strips]: what precedes a strip in its block
    block_tokens: Array  # int64 [blocks]: tokens that start in each block
    block_open: Array  # int64 [blocks]: code points since the last start


def find_marks(machine: Machine, text: TextBatch, shingling: Shingling, length: int) -> Marks:
    """The marks of `length` bytes on the device."""
    xp, geometry, table = machine.arrays, machine.geometry, machine.table(shingling.reading)
    documents, threads = len(text), geometry.text_threads
    blocks = -(-length // (threads * STRIP))
    begins = xp.zeros(blocks * threads + 2, np.uint32)
    marks = Marks(
        *(xp.empty(blocks * threads, np.uint32) for _ in range(3)), *(xp.empty(blocks, np.int64) for _ in range(2))
    )
    machine.run("tokens", documents, text.offset, documents, begins, kernel="tokens_documents")
    given = text.values, text.offset, documents, begins, *table, shingling.unit == "char", *marks
    machine.run("tokens", length, *given, kernel=_kernel("tokens_count", shingling), per="strip")
    return marks


def _kernel(name: str, shingling: Shingling) -> str:
    """The kernel that reads text; if more than ASCII letters and digits make and fold words, by the table alone."""
    return name if shingling.reading.is_plain else f"{name}_by_table"


def token_sums(
    machine: Machine, text: TextBatch, shingling: Shingling, keys: Keys, proof: EvidenceKeys | None = None
) -> TokenSums:
    """Tokens under `keys`, and packed tokens under `proof`, if it is given."""
    xp, text, table = machine.arrays, machine.staging.on_device(text), machine.table(shingling.reading)
    documents, threads, characters = len(text), machine.geometry.text_threads, int(shingling.unit == "char")
    length = machine.number(text.offset[-1] - text.offset[0])
    if length == 0:
        nothing = xp.zeros(0, np.uint64)
        return TokenSums(nothing, xp.zeros(documents + 1, np.int64), characters, nothing if proof else None)
    marks = find_marks(machine, text, shingling, length)
    tokens_end, open_end, masks = xp.cumsum(marks.block_tokens), xp.cumsum(marks.block_open), marks[:3]
    sums = xp.zeros(1 + machine.number(tokens_end[-1]), np.uint64)
    packed = xp.zeros(len(sums), np.uint64) if proof else None
    read = text.values, text.offset, documents, *table, characters, *masks
    proofs = (machine.keys(proof), packed) if proof else ()
    made = tokens_end, open_end, machine.keys(keys), keys is not None, sums, *proofs
    kernel = _kernel("token_sums_packed" if proof else "token_sums", shingling)
    machine.run("token_sums", length, *read, *made, kernel=kernel, per="strip")
    starts = xp.empty(documents + 1, np.int64)
    given = text.offset, documents, characters, threads, len(tokens_end), *masks, tokens_end, starts
    machine.run("tokens", documents + 1, *given, kernel="tokens_starts")
    return TokenSums(sums[1:], starts, characters, None if packed is None else packed[1:])


def tokens(machine: Machine, text: TextBatch, shingling: Shingling, keys: Keys = None) -> Tokens:
    found = token_sums(machine, text, shingling, keys)
    total, rows = len(found.sums), offsets(found.counts(machine.arrays))
    hashes = machine.arrays.empty(machine.number(rows[-1]), np.uint64)
    given = found.sums, total, found.starts, len(rows) - 1, found.skip, rows, hashes
    machine.run("token_sums", total, *given, kernel="token_hashes")
    return Tokens(hashes, rows)


def shingles(machine: Machine, tokens: Tokens, size: int, keys: Keys = None) -> Fingerprints:
    first, last = machine.numbers(tokens.offset[0], tokens.offset[-1])
    mixed = TokenSums(tokens.values[first:last], tokens.offset - first, 0)
    return shingle_sums(machine, mixed, size, keys, kernel="shingle_hashes")


def window_hashes(
    machine: Machine, tokens: Tokens, begin: Array, windows: Array, size: int, keys: EvidenceKeys
) -> tuple[Array, Array]:
    """All runs at once, in as many steps as doublings; windows across runs are left out in the end."""
    copied = gather(machine, tokens.values.view(np.uint8), 8 * begin, 8 * (begin + windows + np.int64(size - 1)))
    runs, part = Tokens(copied.values.view(np.uint64), copied.offset // 8), min(size, WINDOW_PART)
    fewer = machine.arrays.arange(len(runs), dtype=np.int64) * np.int64(part - 1)  # each run has part - 1 fewer parts
    places = expand_ranges(runs.offset[:-1] - fewer, windows)

    def hashed(keys: Keys) -> Array:
        values, covered = shingles(machine, runs, part, keys).values, part
        one, other = (public_words() if keys is None else keys.words)[SHINGLE : SHINGLE + 2]
        while covered < size:
            step = min(covered, size - covered)
            values = mix64(values[:-step] * one + values[step:] * other)
            covered += step
        return values[places]

    return hashed(None), hashed(keys)


def shingle(machine: Machine, text: TextBatch, shingling: Shingling, keys: Keys = None) -> Fingerprints:
    return shingle_sums(machine, token_sums(machine, text, shingling, keys), shingling.size, keys)


def shingle_sums(machine: Machine, tokens: TokenSums, size: int, keys: Keys, kernel: str = "shingle") -> Fingerprints:
    """`shingles` of tokens that are not mixed yet."""
    xp, total = machine.arrays, len(tokens.sums)
    counts = tokens.counts(xp)
    rows = offsets(xp.where(counts > 0, xp.maximum(counts - size, 0) + 1, 0))
    values = xp.empty(machine.number(rows[-1]), np.uint64)
    given = tokens.sums, total, tokens.starts, len(counts), tokens.skip, size, rows, machine.keys(keys), values
    machine.run("shingle", total, *given, kernel=kernel, items=TOKENS)
    return Fingerprints(values, rows)


def exact_hashes(machine: Machine, text: TextBatch, shingling: Shingling, keys: EvidenceKeys) -> tuple[Array, Array]:
    found = token_sums(machine, text, shingling, None, keys)
    return exact_terms(machine, found, keys), found.counts(machine.arrays)


def exact_terms(machine: Machine, tokens: TokenSums, keys: EvidenceKeys, before: int = 0) -> Array:
    """The exact hashes of documents, or what tokens that follow `before` others add to them."""
    total, documents, items = len(tokens.sums), len(tokens.starts) - 1, machine.geometry.exact_items
    hashes = machine.arrays.zeros((documents, 2), np.uint64)
    given = tokens.packed, total, tokens.starts, documents, tokens.skip, before, items, machine.keys(keys), hashes
    machine.run("exact_hashes", total, *given, items=items)
    return hashes


def token_bounds(machine: Machine, text: TextBatch, shingling: Shingling, row: Array, token: Array) -> Array:
    """Extra memory: about a byte for each byte of text."""
    xp, count, text = machine.arrays, len(row), machine.staging.on_device(text)
    bounds = xp.empty((count, 2), np.int64)
    if count == 0:
        return bounds
    marks = find_marks(machine, text, shingling, machine.number(text.offset[-1] - text.offset[0]))
    masks, strips, characters = marks[:2], len(marks.code_points), shingling.unit == "char"
    tokens, points = xp.empty(strips, np.int64), xp.empty(strips, np.int64)
    machine.run("token_bounds", strips, *masks, strips, characters, tokens, points, kernel="token_bounds_counts")
    before = *masks, xp.cumsum(tokens), xp.cumsum(points), strips
    machine.run("token_bounds", count, text.values, text.offset, characters, *before, row, token, count, bounds)
    return bounds


def gather(machine: Machine, values: Array, begin: Array, end: Array) -> TextBatch:
    items, offset = machine.geometry.search_items, offsets(end - begin)
    total = machine.number(offset[-1])
    gathered = machine.arrays.empty(total, np.uint8)
    machine.run("gather", total, values, begin, offset, len(begin), items, gathered, items=items * WORD_BYTES)
    return TextBatch(gathered, offset)
