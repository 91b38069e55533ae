"""Operations on text for shinglings that no backend makes in one pass: tokens, then shingles, then the operation.

These are shinglings with stop words, stems, anchors, labels or a rolling hash, for arrays of NumPy or CuPy. A whole
document is in memory with its tokens and fingerprints, because equal fingerprints may occur anywhere in it: 16 bytes
per token, and what `labelled` takes. Stop words and stems depend on words, so the host reads the texts with the Unicode
table, each distinct token of a batch once. The backend's own `tokens` hashes them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, wraps
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers, SignedBatch, TextBatch, Tokens
from gpulsh.backends.hashing import rolled
from gpulsh.backends.parts import halves_of_batch, rows_in_part, run_in_fitting_halves
from gpulsh.backends.protocol import Backend, Keys, operations
from gpulsh.backends.unicode_table import SEPARATOR, SINGLE, unicode_table
from gpulsh.params import ITEM_TOKENS, BandShape, Family, Folding, Reading, Shingling
from gpulsh.ragged import offsets, row_of
from gpulsh.secret import EvidenceKeys

Operation = Callable[..., Any]


def add_operations(backend: type[Backend], *modules: ModuleType) -> None:
    """Make the operations in `modules` methods of a backend."""

    def method(operation: Operation, composed: Operation | None) -> Operation:
        @wraps(operation)
        def run(self: Backend, /, *given: Any, **named: Any) -> Any:
            with self.use_device():
                if composed is not None and not given[1].is_fused:  # text, shingling, ...
                    return composed(self, *given, **named)
                return operation(self, *given, **named)

        return run

    for name, operation in operations(*modules).items():
        if name not in vars(backend):
            setattr(backend, name, method(operation, COMPOSED.get(name)))


def shingle(ops: Backend, text: TextBatch, shingling: Shingling, keys: Keys = None) -> Fingerprints:
    """`Backend.shingle`."""
    found = _fingerprints(ops, text, shingling, keys)
    return ops.labelled(found) if shingling.labels else found


def shingle_part(
    ops: Backend, text: TextBatch, shingling: Shingling, part: int, parts: int, keys: Keys = None
) -> Fingerprints:
    """`Backend.shingle_part`."""
    chosen = rows_in_part(_fingerprints(ops, text, shingling, keys), part, parts)
    return ops.unique(ops.labelled(chosen) if shingling.labels else chosen)


def sign(
    ops: Backend, text: TextBatch, shingling: Shingling, family: Family, shape: BandShape, keys: EvidenceKeys
) -> SignedBatch:
    """`Backend.sign`; a batch that does not fit a device is halved."""

    def whole(part: TextBatch) -> SignedBatch:
        return Backend.sign(ops, part, shingling, family, shape, keys)

    return SignedBatch.concat([signed for _, signed in run_in_fitting_halves(text, whole, halves_of_batch)])


# The compositions by name; the others are defined in `Backend`.
COMPOSED: dict[str, Operation] = {
    "shingle": shingle,
    "shingle_sets": Backend.shingle_sets,
    "shingle_part": shingle_part,
    "sign": sign,
    **{name: operation for name, operation in vars(Backend).items() if name.startswith("text_")},
}


def _fingerprints(ops: Backend, text: TextBatch, shingling: Shingling, keys: Keys) -> Fingerprints:
    """The fingerprints of all shingles, before labels."""
    tokens = (
        _chosen_tokens(ops, text, shingling, keys) if shingling.changes_words else ops.tokens(text, shingling, keys)
    )
    if shingling.hash == "mix64":
        return ops.shingles(tokens, shingling.size, keys)
    return rolled(tokens, shingling, keys)


def _chosen_tokens(ops: Backend, text: TextBatch, shingling: Shingling, keys: Keys) -> Tokens:
    """The tokens of shingles that depend on words, or with an anchor the hashes of items."""
    letters, in_any_case = translation(shingling.reading), shingling.reading._replace(case=True)
    bounds = ops.asnumpy(text.offset)
    data = bytes(ops.asnumpy(text.values[int(bounds[0]) : int(bounds[-1])]))
    distinct: dict[str, int] = {}  # their numbers
    found: list[int] = []  # the number of every token
    ends = [0]
    for start, stop in pairwise((bounds - bounds[0]).tolist()):
        words = data[start:stop].decode("utf-8", "replace").translate(letters).split()
        found += [distinct.setdefault(word, len(distinct)) for word in words]
        ends.append(len(found))
    numbers, offset = np.array(found, np.int64), np.array(ends, np.int64)

    listed, folded = _listed(shingling.stop_words, in_any_case), translation(in_any_case)
    # A stop word of several tokens matches none.
    is_stop = np.array([word.translate(folded).strip() in listed for word in distinct], np.bool_)[numbers]
    if shingling.anchor is None and is_stop.any():
        numbers, offset = numbers[~is_stop], offsets(~is_stop)[offset]
    stems = list(distinct)
    if shingling.stems is not None:  # of a token whose stem is not one token, itself
        pairs = zip(map(shingling.stems, stems), stems, strict=True)
        stems = [stem if stem.translate(letters).split() == [stem] else word for stem, word in pairs]
    encoded = [stem.encode() for stem in stems]  # folded tokens, read as they are
    batch = TextBatch(np.frombuffer(b"".join(encoded), np.uint8), offsets(list(map(len, encoded))))
    hashes = ops.asnumpy(ops.tokens(batch, shingling.with_folding(Folding(case=False)), keys).values)
    tokens = Tokens(ops.asarray(hashes[numbers]), ops.asarray(offset))
    return tokens if shingling.anchor is None else _items(ops, tokens, is_stop, offset, keys)


class Translation(dict[int, str]):
    """The replacement of each character; filled on demand.

    The tokens of `unit="word"` are `text.translate(translation(reading)).split()`.
    """

    def __init__(self, reading: Reading) -> None:
        super().__init__()
        self._table = unicode_table(reading)

    def __missing__(self, code_point: int) -> str:
        entry = int(self._table.entries(np.uint32(code_point)))
        character = chr(code_point + (entry >> 2))
        klass = entry & 3
        found = self[code_point] = " " if klass == SEPARATOR else f" {character} " if klass == SINGLE else character
        return found


translation = cache(Translation)


@lru_cache(maxsize=8)
def _listed(words: frozenset[str], reading: Reading) -> frozenset[str]:
    return frozenset(" ".join(word.translate(translation(reading)).split()) for word in words)


def _items(ops: Backend, tokens: Tokens, is_stop: NDArray[np.bool_], offset: Numbers, keys: Keys) -> Tokens:
    """The hash of each stop word with the tokens after it, if there are enough."""
    runs = ops.shingles(tokens, ITEM_TOKENS, keys)
    ends = np.repeat(offset[1:], np.diff(offset))
    begins = np.flatnonzero(is_stop & (np.arange(len(is_stop)) + ITEM_TOKENS <= ends))
    row = row_of(offset, begins)
    places = begins - offset[row] + ops.asnumpy(runs.offset)[row]
    items = np.searchsorted(begins, offset)
    return Tokens(ops.asarray(ops.asnumpy(runs.values)[places]), ops.asarray(items.astype(np.int64)))
