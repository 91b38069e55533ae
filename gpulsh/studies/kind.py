"""What documents are like: long or short, code, scripts without spaces; and the shingles that suit them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.backends.protocol import Backend
from gpulsh.backends.unicode_table import SINGLE, WORD, unicode_table
from gpulsh.params import PLAIN, Reading, Shingling

SIZES = (5, 4, 3, 2, 1)  # tokens of a shingle, the better the longer
SAME = 0.8  # similarity that is to be left where one token in the middle of a document is another
CODE = 0.12  # signs of all characters, at and above which a text is code
CHARACTERS = 4  # of a shingle, where documents have too few words


@dataclass(frozen=True)
class Kind:
    """What `documents` of some text, without those that have no token, are like."""

    documents: int
    tokens: int  # of the middle one
    brief: float  # the share that has fewer than five
    single: float  # the share of characters in words that stand in scripts written without spaces
    signs: float  # the share of characters that are of the categories P and S, spaces left out

    @classmethod
    def of(cls, texts: TextBatch, ops: Backend) -> Kind:
        """The kind of `texts`, on the host."""
        letters, single, signs = _classes(texts)
        is_code = signs >= CODE * max(letters + single + signs, 1)
        with ops.here():
            read = ops.shingle(texts.moved(ops.asarray), Shingling(size=1, symbols=is_code))
            tokens: Numbers = np.diff(ops.asnumpy(read.offset))
        tokens = tokens[tokens > 0]
        return cls(
            documents=len(tokens),
            tokens=int(np.median(tokens)) if len(tokens) else 0,
            brief=float((tokens < SIZES[0]).mean()) if len(tokens) else 0.0,
            single=single / max(letters + single, 1),
            signs=signs / max(letters + single + signs, 1),
        )

    @property
    def is_code(self) -> bool:
        """Whether signs are a good part of it, and tell documents apart: code, mathematics, markup."""
        return self.signs >= CODE

    @property
    def shingling(self) -> Shingling:
        """The longest shingles of which a document of the middle length keeps enough where one of its words is another;
        characters, where even single words are too few.
        """
        for size in SIZES:
            if one_changed(self.tokens, size) >= SAME:
                return Shingling(size=size, symbols=self.is_code)
        return Shingling(unit="char", size=CHARACTERS, symbols=True)

    @property
    def why(self) -> str:
        """The reason for its `shingling`, in words."""
        tokens = "words and signs" if self.is_code else "characters" if self.single > 0.5 else "words"
        if self.shingling.unit == "char":
            return f"one of {self.tokens} {tokens} more or less changes too much, so characters are compared, and signs"
        left = one_changed(self.tokens, self.shingling.size)
        return f"documents of {self.tokens} {tokens} of which one differs are then {left:.2f} similar"


def one_changed(tokens: int, size: int) -> float:
    """Jaccard similarity of two documents of so many distinct tokens that differ in one, far from either end.

    >>> one_changed(49, 5)
    0.8
    """
    return max(tokens - 2 * size + 1, 0) / (tokens + 1)


def _classes(texts: TextBatch) -> tuple[int, int, int]:
    """How many code points are letters, characters of scripts without spaces, and signs."""
    values = texts.values[texts.offset[0] : texts.offset[-1]]
    codes = np.frombuffer(values.tobytes().decode("utf-8", "replace").encode("utf-32-le"), np.uint32)
    counts = []
    for reading in (PLAIN, Reading(symbols=True)):
        counts.append(np.bincount(unicode_table(reading).entries(codes) & 3, minlength=SINGLE + 1))
    plain, with_signs = counts
    return int(plain[WORD]), int(plain[SINGLE]), int(with_signs[SINGLE] - plain[SINGLE])
