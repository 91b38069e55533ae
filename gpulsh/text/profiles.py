"""Whole-document signatures of Apache Nutch: the MD5 digest of a text, and of its profile of frequent tokens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from hashlib import md5
from itertools import pairwise
from math import floor

import numpy as np
from numpy.typing import NDArray

from gpulsh.checks import check_integer, shown
from gpulsh.errors import ParameterError
from gpulsh.io.memory.texts import open_texts
from gpulsh.text.documents import BATCH_BYTES

_WORD = re.compile(r"[^\W_]+")


def md5_signatures(texts: object) -> NDArray[np.uint8]:
    """uint8 [n, 16]: the MD5 digest of each text's UTF-8 bytes, Nutch's MD5Signature.

    `texts` is any kind that `deduplicate` takes; a null row has the digest of the empty text. Raises InputTypeError if
    a row is not a text. An author can make MD5 collide, so equal digests prove nothing about hostile texts.

    >>> bytes(md5_signatures(["The quick brown fox jumps over the lazy dog"])[0]).hex()
    '9e107d9d372bb6826bd81d3542a419d6'
    """
    return _digests(texts, lambda text: text)


def text_profiles(texts: object, min_token_len: int = 2, quant_rate: float = 0.01) -> NDArray[np.uint8]:
    r"""uint8 [n, 16]: the MD5 digest of each text's profile, Nutch's TextProfileSignature.

    Tokens are runs of letters and digits, lower-cased, of more than `min_token_len` characters. With QUANT =
    round(`quant_rate` * the greatest frequency), but at least 2 where that frequency is above 1 and 1 otherwise,
    frequencies are rounded down to multiples of QUANT, and tokens below it dropped. The profile has a line "token
    frequency" for each, joined by "\n", the most frequent first.

    Details that decide the bits: letters and digits are code points of the categories L and Nd up to U+FFFF, as in
    Java; each is lower-cased by itself; the product with `quant_rate` is float32, and halves are rounded up. Tokens of
    equal frequency ascend by code points, as in Nutch by default since 1.16. Texts with an empty profile, such as texts
    of short words, all have the digest of the empty text. So do empty texts and null rows, where Nutch hashes the
    page as fetched, or its address. Raises ParameterError for a `min_token_len` below 0 and a `quant_rate` outside 0 to
    1, and InputTypeError if a row is not a text.

    >>> one, other = text_profiles(["A rose is a ROSE, is a rose", "a rose rose rose"])
    >>> bool((one == other).all())  # "rose 2": QUANT is 2
    True
    """
    min_token_len = check_integer("min_token_len", min_token_len, 0, 2**31 - 1)
    is_number = isinstance(quant_rate, (int, float, np.integer, np.floating)) and not isinstance(quant_rate, bool)
    if not is_number or not 0 <= quant_rate <= 1:
        raise ParameterError(f"quant_rate is {shown(quant_rate)}; give a number from 0 to 1")
    return _digests(texts, lambda text: _profile(text, min_token_len, float(quant_rate)))


def _digests(texts: object, of: Callable[[bytes], bytes]) -> NDArray[np.uint8]:
    source = open_texts(texts)
    found = bytearray()
    for batch in source.batches(BATCH_BYTES):
        ends = batch.offset.tolist()
        for start, stop in pairwise(ends):
            found += md5(of(batch.values[start:stop].tobytes()), usedforsecurity=False).digest()
    return np.frombuffer(found, np.uint8).reshape(-1, 16)


def _profile(text: bytes, min_token_len: int, quant_rate: float) -> bytes:
    counts = Counter(token for token in _tokens(text.decode("utf-8", "replace")) if len(token) > min_token_len)
    greatest = max(counts.values(), default=0)
    quant = floor(float(np.float32(greatest) * np.float32(quant_rate)) + 0.5)
    quant = max(quant, 2 if greatest > 1 else 1)
    rounded = [(-(count // quant * quant), token) for token, count in counts.items() if count >= quant]
    return "\n".join(f"{token} {-count}" for count, token in sorted(rounded)).encode()


def _tokens(text: str) -> list[str]:
    if text.isascii():
        return _WORD.findall(text.lower())
    return "".join(map(_java_lower_case, text)).split(" ")


def _java_lower_case(character: str) -> str:
    """A letter or digit as Java lower-cases it; a space for any other character."""
    if character > "\uffff" or not (character.isalpha() or character.isdecimal()):
        return " "
    return "i" if character == "İ" else character.lower()  # the one letter whose lower case in Python is two
