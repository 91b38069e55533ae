"""A larger corpus of real text: the same documents again, in other words.

Each copy of the corpus spells every word with one more letter, the same throughout the copy. Its documents are equally
long and equally similar, and share no word with another copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_WORD = re.compile(r"[^\W_]+")
_LETTERS = "qxzjvkwyfbh"


def respelled(texts: Sequence[str], documents: int) -> Iterator[str]:
    """So many documents: the texts as they are, then copy after copy."""
    copies = -(-documents // len(texts))
    if copies > 1 + len(_LETTERS):
        raise ValueError(f"{documents:,} documents: at most {(1 + len(_LETTERS)) * len(texts):,} of {len(texts):,}")
    for copy, letter in enumerate(("", *_LETTERS[: copies - 1])):
        for text in texts[: documents - copy * len(texts)]:
            yield _WORD.sub(rf"\g<0>{letter}", text)
