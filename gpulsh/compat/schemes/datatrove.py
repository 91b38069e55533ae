"""`DatatroveMinHash`: the signatures of datatrove, and `simplify_text`, which it applies to texts before."""

from __future__ import annotations

import re
import string
import unicodedata
from dataclasses import dataclass
from typing import Literal

from gpulsh.checks import check_choice, set_integer, set_one_of
from gpulsh.compat.schemes import sketches
from gpulsh.io.normal_form import normal_form
from gpulsh.params import ForeignName, GivenFamily

_CONTROLS = [*range(9), *range(11, 32), *range(127, 160)]  # but for tab and line feed
_BEYOND_ASCII = "«´»–—’“”„…∶━►、。〈〉《》「」【】！％（），．１：；？～"  # among them a digit, as there
_TO_SPACES = dict.fromkeys([*map(ord, string.punctuation + _BEYOND_ASCII), *_CONTROLS], " ")
_NUMBER = re.compile(r"\d+([.,،٫⎖⎗⎘]\d+)?")
_SPACE = re.compile(r"\s+")
_WEEKDAY = re.compile("monday|tuesday|wednesday|thursday|friday|saturday|sunday")
_MONTH = re.compile("january|february|march|april|may|june|july|august|september|october|november|december")


def simplify_text(
    text: str,
    *,
    lowercase: bool = True,
    norm_whitespace: bool = True,
    remove_punctuation: bool = True,
    norm_unicode_diacritics: bool = True,
    norm_numbers: bool = True,
    norm_weekdays: bool = False,
    norm_monthnames: bool = False,
) -> str:
    """A text as datatrove's `simplify_text` returns it, by the options of its `TextNormConfig`.

    The steps are, in this order: lower case, numbers as 0, weekdays and months by their kind, punctuation and controls
    as spaces, runs of spaces as one. Last, letters lose their marks. Checked against 0.10.1. This Python's Unicode
    decides which characters are digits, spaces and marks.

    >>> simplify_text("On 3.5% of Résumés,  I'd say: no!")
    'on 0 of resumes i d say no'
    """
    if lowercase:
        text = text.lower()
    if norm_numbers:
        text = _NUMBER.sub("0", text)
    if norm_weekdays:
        text = _WEEKDAY.sub("WEEKDAY", text)
    if norm_monthnames:
        text = _MONTH.sub("MONTH", text)
    if remove_punctuation:
        text = text.translate(_TO_SPACES)
    if norm_whitespace:
        text = _SPACE.sub(" ", text.strip())
    if norm_unicode_diacritics and not text.isascii():
        text = "".join(c for c in normal_form(text, "NFD") if unicodedata.category(c) != "Mn")
    return text.strip()


@dataclass(frozen=True, kw_only=True)
class DatatroveMinHash(sketches.TokenSketch):
    """The values of datatrove's buckets, one after another, from a document's words.

    `num_perm` is its `num_buckets * hashes_per_bucket`, 14 * 8 by default. Its `HashConfig` has `hash` and `precision`.
    In datatrove, words come from `simplify_text` and a tokenizer of the language; here they are given, in order.

    Runs of `n_grams` words, joined by spaces, are hashed to x. A value is (a * x + b mod 2^64) mod 2^61 - 1, or its
    lower 32 bits with precision 32. Signatures are uint64, or uint32 with precision 32. A document of fewer words is
    all ones, and datatrove writes none. The formula is the same from 0.4 to 0.10; checked against 0.10.1.
    `hash="xxhash"` needs `pip install "gpulsh[compat]"`.

    >>> sketch = DatatroveMinHash(num_perm=4, n_grams=2, precision=32, hash="sha1")
    >>> sketch.from_tokens([["the", "same", "words"]], backend="cpu").values.tolist()
    [[513251273, 591561938, 1475594312, 2101095665]]
    """

    num_perm: int = 112
    n_grams: int = 5
    precision: Literal[32, 64] = 64
    hash: Literal["sha1", "xxhash"] = "xxhash"

    @property
    def functions(self) -> GivenFamily:
        """The functions by which backends make signatures. ParameterError for a wrong parameter."""
        set_one_of(self, "precision", (32, 64))
        check_choice("hash", self.hash, ("sha1", "xxhash"))
        set_integer(self, "n_grams", 1, 1 << 20)
        name: ForeignName = "wrapped61" if self.precision == 64 else "wrapped61_low"
        return sketches.draw_in_blocks(name, self.num_perm, self.seed)

    @property
    def token_hash(self) -> sketches.Hash:
        """SHA-1, its first bits, or xxHash (XXH32, XXH64) of a run's bytes."""
        if self.hash == "sha1":
            return sketches.Sha1(self.precision)
        return sketches.xxhash_function(f"xxh{self.precision}_intdigest")

    def _hashed_tokens(self, tokens: list[bytes]) -> list[bytes]:
        return sketches.token_runs(tokens, self.n_grams)
