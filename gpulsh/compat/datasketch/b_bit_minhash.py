"""`bBitMinHash` as datasketch 2.0 has it: the lowest bits of a signature's values, packed when it is pickled."""

from __future__ import annotations

import struct
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from gpulsh.checks import check_choice
from gpulsh.compat.datasketch.lean_minhash import CODES, SCHEMES
from gpulsh.compat.datasketch.minhash import MinHash, check_same
from gpulsh.compat.schemes.datasketch import Scheme
from gpulsh.errors import ParameterError

_HEAD = struct.Struct("<qBdi")  # seed, b, r and the number of values, negative where a byte for the scheme follows


class bBitMinHash:
    """The lowest `b` bits of each value of a MinHash; `r` is the share of all elements that the set has.

    >>> full = MinHash(num_perm=64)
    >>> full.update(b"a")
    >>> bBitMinHash(full, b=2).jaccard(bBitMinHash(full, b=2))
    1.0
    """

    __slots__ = ("b", "hashvalues", "r", "scheme", "seed")

    def __init__(self, minhash: MinHash, b: int = 1, r: float = 0.0) -> None:
        self.b, self.r, self.seed = int(b), float(r), minhash.seed
        if not 0 <= self.b <= 32:
            raise ParameterError(f"b is {b}; give a number of bits from 0 to 32")
        if self.r > 1:
            raise ParameterError(f"r is {r}; give a share from 0 to 1")
        self.scheme: Scheme = minhash.scheme
        check_choice("scheme", self.scheme, get_args(Scheme))
        low = minhash.hashvalues.astype(np.uint64) & np.uint64((1 << self.b) - 1)
        self.hashvalues: NDArray[np.uint32] = low.astype(np.uint32)

    def __eq__(self, other: object) -> bool:
        facts = [(one.scheme, one.seed, one.b, one.r) for one in (self, other) if isinstance(one, bBitMinHash)]
        return len(facts) == 2 and facts[0] == facts[1] and np.array_equal(self.hashvalues, other.hashvalues)  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]

    def jaccard(self, other: bBitMinHash) -> float:
        """The estimate of the Jaccard similarity, corrected for values that agree by chance (Li, Konig 2010)."""
        facts = {name: (getattr(self, name), getattr(other, name)) for name in ("b", "scheme", "seed")}
        check_same("compare signatures", **facts)
        share = float(np.count_nonzero(self.hashvalues == other.hashvalues)) / self.hashvalues.size
        first, second = (_chance_of_agreement(r, self.b) for r in (self.r, other.r))
        if self.r == other.r == 0.0:
            return (share - first) / (1 - second)
        scale = 1 / (self.r + other.r)  # rounded as in datasketch
        one, two = (first * other.r + second * self.r) * scale, (first * self.r + second * other.r) * scale
        return (share - one) / (1 - two)

    def bytesize(self) -> int:
        """Bytes of the state that is pickled."""
        return len(self.__getstate__())

    def _slot(self) -> int:
        """Bits that a value takes."""
        return next(bits for bits in (1, 2, 4, 8, 16, 32) if bits >= (self.b or 4))

    def __getstate__(self) -> bytearray:
        size, slot = self.hashvalues.size, self._slot()
        a_word = 64 // slot
        padded = np.pad(self.hashvalues.astype(np.uint64), (0, -size % a_word)).reshape(-1, a_word)
        words = (padded << _shifts(slot)).sum(axis=1, dtype=np.uint64)
        legacy = self.scheme == "legacy"
        head = _HEAD.pack(self.seed, self.b, self.r, size if legacy else -size)
        return bytearray(head + (b"" if legacy else bytes([CODES[self.scheme]])) + words.astype("<u8").tobytes())

    def __setstate__(self, state: Any) -> None:
        self.seed, self.b, self.r, size = _HEAD.unpack_from(state)
        self.scheme, start = "legacy", _HEAD.size
        if size < 0:
            size, self.scheme, start = -size, SCHEMES[state[start]], start + 1
        slot = self._slot()
        words = np.frombuffer(state, "<u8", -(-size // (64 // slot)), start).astype(np.uint64)
        fields = words[:, None] >> _shifts(slot) & np.uint64((1 << slot) - 1)
        self.hashvalues = fields.reshape(-1)[:size].astype(np.uint32)


def _shifts(slot: int) -> NDArray[np.uint64]:
    """The shift of each field in a word; the first field has the highest bits."""
    return np.arange(64 - slot, -1, -slot, dtype=np.int64).astype(np.uint64)


def _chance_of_agreement(r: float, b: int) -> float:
    """How likely two values agree by chance, as datasketch has it."""
    if r == 0.0:
        return 1.0 / (1 << b)
    return float(r * (1 - r) ** (2**b - 1) / (1 - (1 - r) ** (2 * b)))
