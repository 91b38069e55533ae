"""Word 5-shingles as users of the libraries without a tokenizer make them: a plain `re` loop."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from benchmarks.engines.base import SHINGLE

_WORDS = re.compile(r"\w+")


def shingles(texts: Iterable[str]) -> Iterator[list[str]]:
    """One list a document. zip over shifted lists is the fastest plain form; a set would only cost more, and a
    generator keeps one document's shingles at a time."""
    for text in texts:
        words = _WORDS.findall(text.lower())
        if len(words) < SHINGLE:
            yield [" ".join(words)]
        else:
            yield list(map(" ".join, zip(*(words[i:] for i in range(SHINGLE)), strict=False)))


def byte_shingles(texts: Iterable[str]) -> Iterator[list[bytes]]:
    """The same as bytes, encoding a document once instead of each shingle."""
    for text in texts:
        words = " ".join(_WORDS.findall(text.lower())).encode().split(b" ")
        if len(words) < SHINGLE:
            yield [b" ".join(words)]
        else:
            yield list(map(b" ".join, zip(*(words[i:] for i in range(SHINGLE)), strict=False)))
