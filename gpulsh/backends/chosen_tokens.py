"""Tokens as words: stop words left out, stems put for words, items that begin with a stop word.

Texts are read on the host, by the Unicode table that every backend has, and each distinct token of a batch is looked at
once; hashes are those of the backend's own `tokens`.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers, TextBatch, Tokens, Values
from gpulsh.backends.protocol import Backend
from gpulsh.backends.unicode_table import BLOCK_BITS, SEPARATOR, SINGLE, unicode_table
from gpulsh.params import ITEM_TOKENS, Folding, Reading, Shingling
from gpulsh.ragged import offsets
from gpulsh.secret import EvidenceKeys


def chosen_tokens(ops: Backend, text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None) -> Tokens:
    """What `shingling` makes shingles of, where it depends on words: tokens, or with an anchor hashes of items."""
    distinct, numbers, offset = _numbered(ops, text, shingling.reading)
    words = list(distinct)
    is_stop = _stop_flags(words, shingling)[numbers]
    if shingling.anchor is None and is_stop.any():
        numbers, offset = numbers[~is_stop], offsets(~is_stop)[offset]
    hashes = _hashes(ops, _stemmed(words, shingling), shingling, keys)
    tokens = Tokens(ops.asarray(hashes[numbers]), ops.asarray(offset))
    return tokens if shingling.anchor is None else _items(ops, tokens, is_stop, offset, keys)


def _numbered(ops: Backend, text: TextBatch, reading: Reading) -> tuple[dict[str, int], Numbers, Numbers]:
    """Distinct tokens, numbered; the number of each token of all documents; where documents begin among these."""
    bounds, letters = ops.asnumpy(text.offset), translation(reading)
    data = bytes(ops.asnumpy(text.values[int(bounds[0]) : int(bounds[-1])]))
    distinct: dict[str, int] = {}
    numbers: list[int] = []
    offset = [0]
    for start, stop in pairwise((bounds - bounds[0]).tolist()):
        words = data[start:stop].decode("utf-8", "replace").translate(letters).split()
        numbers += [distinct.setdefault(word, len(distinct)) for word in words]
        offset.append(len(numbers))
    return distinct, np.array(numbers, np.int64), np.array(offset, np.int64)


class Translation(dict[int, str]):
    """What `str.translate` puts for each character, so that white space parts the tokens; filled as they come."""

    def __init__(self, reading: Reading) -> None:
        super().__init__()
        self._table = unicode_table(reading)

    def __missing__(self, code_point: int) -> str:
        block = int(self._table.stage1[code_point >> BLOCK_BITS])
        entry = int(self._table.stage2[(block << BLOCK_BITS) + code_point % (1 << BLOCK_BITS)])
        character = chr(code_point + (entry >> 2))
        klass = entry & 3
        found = self[code_point] = " " if klass == SEPARATOR else f" {character} " if klass == SINGLE else character
        return found


@cache
def translation(reading: Reading) -> Translation:
    """By which the tokens of `unit="word"` are `text.translate(...).split()`."""
    return Translation(reading)


def _stop_flags(words: list[str], shingling: Shingling) -> NDArray[np.bool_]:
    """Whether each is a stop word, whatever its case. One of a list that is several tokens is none of them."""
    reading = shingling.reading._replace(case=True)
    letters, listed = translation(reading), _listed(shingling.stop_words, reading)
    return np.array([word.translate(letters).strip() in listed for word in words], np.bool_)


@lru_cache(maxsize=8)
def _listed(words: frozenset[str], reading: Reading) -> frozenset[str]:
    return frozenset(" ".join(word.translate(translation(reading)).split()) for word in words)


def _stemmed(words: list[str], shingling: Shingling) -> list[str]:
    """Each as its stem, or as it is where that is no token."""
    stems, letters = shingling.stems, translation(shingling.reading)
    if stems is None:
        return words
    found = map(stems.of, words)
    return [
        stem if stem.translate(letters).split() == [stem] else word for word, stem in zip(words, found, strict=True)
    ]


def _hashes(ops: Backend, words: list[str], shingling: Shingling, keys: EvidenceKeys | None) -> Values:
    """uint64 [words]; each is a token, and folded already."""
    encoded = [word.encode() for word in words]
    batch = TextBatch(np.frombuffer(b"".join(encoded), np.uint8), offsets(list(map(len, encoded))))
    found: Values = ops.asnumpy(ops.tokens(batch, shingling.under(Folding(case=False)), keys).values)
    return found


def _items(
    ops: Backend, tokens: Tokens, is_stop: NDArray[np.bool_], offset: Numbers, keys: EvidenceKeys | None
) -> Tokens:
    """The hash of each stop word with the tokens behind it, where there are so many."""
    runs = ops.shingles(tokens, ITEM_TOKENS, keys)
    ends = np.repeat(offset[1:], np.diff(offset))
    begins = np.flatnonzero(is_stop & (np.arange(len(is_stop)) + ITEM_TOKENS <= ends))
    row = np.searchsorted(offset, begins, side="right") - 1
    places = begins - offset[row] + ops.asnumpy(runs.offset)[row]
    items = np.searchsorted(begins, offset)
    return Tokens(ops.asarray(ops.asnumpy(runs.values)[places]), ops.asarray(items.astype(np.int64)))
