"""Operations on text for shinglings that no backend makes in one pass: tokens, then shingles, then the operation.

These are shinglings with stop words, stems, anchors, labels or a rolling hash, for arrays of NumPy or CuPy. A whole
document is in memory with its tokens and fingerprints, because equal fingerprints may occur anywhere in it: 16 bytes
per token, and what `labelled` takes. Stop words are found by the hashes of tokens. Stems depend on words, so the host
reads each distinct token of a batch, with the Unicode table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache, wraps
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Fingerprints, Numbers, SignedBatch, TextBatch, Tokens, Words
from gpulsh.backends.hashing import rolled
from gpulsh.backends.parts import halves_of_batch, rows_in_part, run_in_fitting_halves
from gpulsh.backends.protocol import Backend, Keys, operations
from gpulsh.backends.unicode_table import SEPARATOR, SINGLE, unicode_table
from gpulsh.params import ITEM_TOKENS, BandShape, Family, Folding, Reading, Shingling
from gpulsh.ragged import find_sorted, mask_of, offsets, own_values, row_of, sorted_distinct
from gpulsh.secret import EvidenceKeys, chosen_secret, evidence_keys

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
    folded = Shingling(symbols=shingling.symbols)
    plain = folded.with_folding(Folding(case=shingling.folds))
    secret = keys or _process_keys()
    tokens = ops.tokens(text, folded, secret)
    compared, offset = ops.asnumpy(tokens.values), ops.asnumpy(tokens.offset)
    stop_words = ops.tokens(_encoded(shingling.stop_words), folded, secret)
    single = stop_words.offset[:-1][stop_words.lengths == 1]  # a stop word of several tokens matches none
    stop_hashes = sorted_distinct(ops.asnumpy(stop_words.values[single]))
    is_stop = mask_of(find_sorted(stop_hashes, compared)[0], len(compared))

    def hashes(under: Keys) -> Words:
        again = plain is folded and under is secret
        found: Words = compared if again else ops.asnumpy(ops.tokens(text, plain, under).values)
        return found

    if (stem_of := shingling.stems) is None:
        values = hashes(keys)
    else:
        values = _stem_hashes(ops, text, stem_of, plain, hashes(secret), offset, keys)
    if shingling.anchor is not None:
        return _items(ops, Tokens(ops.asarray(values), tokens.offset), is_stop, offset, keys)
    return Tokens(ops.asarray(values[~is_stop]), ops.asarray(offsets(~is_stop)[offset]))


def _stem_hashes(
    ops: Backend,
    text: TextBatch,
    stem_of: Callable[[str], str],
    plain: Shingling,
    own: Words,
    offset: Numbers,
    keys: Keys,
) -> Words:
    """The hash of the stem of each token, or of the token if its stem is not one token; equal tokens share `own`."""
    _, first, numbers = np.unique(own, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place, row = first[order], row_of(offset, first[order])
    bounds = ops.asnumpy(ops.token_bounds(text, plain, ops.asarray(row), ops.asarray(place - offset[row])))
    begin = ops.asnumpy(text.offset - text.offset[:1])[row]
    data, letters, stems = memoryview(ops.asnumpy(own_values(text))), translation(plain.reading), list[str]()
    for start, stop in (bounds + begin[:, None]).tolist():
        word = str(data[start:stop], "utf-8").translate(letters).strip()
        stem = stem_of(word)
        stems.append(stem if stem.translate(letters).split() == [stem] else word)
    hashes = np.empty(len(order), np.uint64)
    as_they_are = plain.with_folding(Folding(case=False))
    hashes[order] = ops.asnumpy(ops.tokens(_encoded(stems), as_they_are, keys).values)
    found: Words = hashes[numbers]
    return found


def _encoded(words: Collection[str]) -> TextBatch:
    encoded = [word.encode("utf-8", "surrogatepass") for word in words]
    return TextBatch(np.frombuffer(b"".join(encoded), np.uint8), offsets(list(map(len, encoded))))


@cache
def _process_keys() -> EvidenceKeys:
    """Keys of this process, under which nobody can write different tokens of equal hashes."""
    return evidence_keys(chosen_secret(None))


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


def _items(ops: Backend, tokens: Tokens, is_stop: NDArray[np.bool_], offset: Numbers, keys: Keys) -> Tokens:
    """The hash of each stop word with the tokens after it, if there are enough."""
    runs = ops.shingles(tokens, ITEM_TOKENS, keys)
    ends = np.repeat(offset[1:], np.diff(offset))
    begins = np.flatnonzero(is_stop & (np.arange(len(is_stop)) + ITEM_TOKENS <= ends))
    row = row_of(offset, begins)
    places = begins - offset[row] + ops.asnumpy(runs.offset)[row]
    items = np.searchsorted(begins, offset)
    return Tokens(ops.asarray(ops.asnumpy(runs.values)[places]), ops.asarray(items.astype(np.int64)))
