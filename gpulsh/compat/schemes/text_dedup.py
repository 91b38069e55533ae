"""`gpulsh.compat.TextDedupMinHash`: the signatures of text-dedup's `minhash`."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from gpulsh.arrays import Signatures
from gpulsh.backends.select import BackendName
from gpulsh.checks import check_choice, set_integer, set_one_of
from gpulsh.compat.schemes import sketches
from gpulsh.io.memory.texts import open_texts
from gpulsh.params import ForeignName, GivenFamily

BATCH_BYTES = 1 << 20  # of text whose words are cut at once
_FAMILIES: dict[int, ForeignName] = {64: "wrapped61_low", 32: "wrapped32", 16: "wrapped16"}  # by the bits of a word


class _Spaces(dict[int, str]):
    """Maps each character outside of words, as `\\W` of the package regex defines it, to a space, on first use."""

    _LETTERS = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))  # in circles and squares

    def __missing__(self, code: int) -> str:
        category, joins = unicodedata.category(chr(code)), code in (0x200C, 0x200D)
        word = category[0] in "LM" or category in ("Nd", "Nl", "Pc") or joins
        word = word or any(first <= code <= last for first, last in self._LETTERS)
        self[code] = chr(code) if word else " "
        return self[code]


_SPACES = _Spaces()


@dataclass(frozen=True, kw_only=True)
class TextDedupMinHash(sketches.TokenSketch):
    """The values of all bands of text-dedup's `minhash`, one band after another.

    Tokens are the words of a lower-case text, with the letters of this Python's Unicode. Runs of `ngram_size` tokens,
    or all of fewer, are joined by spaces; a text of fewer than `min_length` tokens has none. With
    `min_length=0`, a text without a token has the empty run, as in text-dedup.

    The hash x of a run is the lower 32 bits of XXH3 by `seed`, or the first 32 of SHA-1; with `hash_bits=16`, 16 bits.
    A value is a * x + b in a word of `hash_bits`, modulo 2^61 - 1, 2^32 - 5 or 2^16 - 15. With 64 bits it is cut to
    the lower 32. Values are uint32 here; text-dedup has uint64, uint32 or uint16 with the bytes swapped. A text
    without a run is all ones here, and the greatest value of 32 or 16 bits there.

    Checked against 0.4.1. 0.4.0 kept empty tokens, and used XXH3 without a seed. The default `hash="xxh3"` needs
    `pip install "gpulsh[compat]"`.

    >>> sketch = TextDedupMinHash(num_perm=4, ngram_size=2, min_length=1, hash="sha1")
    >>> sketch.from_texts(["The same text"], backend="cpu").values.tolist()
    [[1431676502, 925508901, 688090663, 596065386]]
    """

    num_perm: int = 128
    seed: int = 42
    ngram_size: int = 1
    min_length: int = 5
    hash_bits: Literal[64, 32, 16] = 64
    hash: Literal["sha1", "xxh3"] = "xxh3"

    @property
    def functions(self) -> GivenFamily:
        """The functions by which backends make signatures. ParameterError for a wrong parameter."""
        set_one_of(self, "hash_bits", _FAMILIES)
        check_choice("hash", self.hash, ("sha1", "xxh3"))
        set_integer(self, "ngram_size", 1, 1 << 20)
        set_integer(self, "min_length", 0, 1 << 40)
        return sketches.draw_in_blocks(_FAMILIES[self.hash_bits], self.num_perm, self.seed)

    @property
    def token_hash(self) -> sketches.Hash:
        """The hash of a run's bytes. With 16 bits, XXH3 gives the first of its 128, big-endian, without the seed."""
        if self.hash == "sha1":
            return sketches.Sha1(min(self.hash_bits, 32))
        if self.hash_bits == 16:
            digest = sketches.xxhash_function("xxh3_128_digest")
            return lambda token: int.from_bytes(digest(token)[:2], "big")
        xxh3 = sketches.xxhash_function("xxh3_64_intdigest", seed=self.seed)
        return lambda token: xxh3(token) & 0xFFFFFFFF

    def from_texts(self, texts: object, *, backend: BackendName = "auto", threads: int | None = None) -> Signatures:
        """`from_tokens` of each text's words; of texts of every kind that `gpulsh.deduplicate` takes."""
        batches = open_texts(texts).batches(BATCH_BYTES)
        rows = ((batch.values.tobytes(), pairwise(batch.offset.tolist())) for batch in batches)
        tokens = (words(text[start:stop].decode("utf-8", "replace")) for text, spans in rows for start, stop in spans)
        return self.from_tokens(tokens, backend=backend, threads=threads)

    def _hashed_tokens(self, tokens: list[bytes]) -> list[bytes]:
        if len(tokens) < self.min_length:
            return []
        return sketches.token_runs(tokens, min(self.ngram_size, len(tokens)))


def words(text: str) -> list[str]:
    """The words of a text, lower-case, as text-dedup cuts them."""
    return text.lower().translate(_SPACES).split()
