"""Shared parts of the schemes: the words that libraries draw, their hashes of tokens, and the form of a sketch.

Most draw their words by NumPy's `RandomState`, whose streams NumPy promises never to change (NEP 19).
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Literal

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Signatures
from gpulsh.backends.protocol import Backend, sketched
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import check_integer, check_type, shown_type
from gpulsh.errors import InputTypeError, ParameterError, install_command
from gpulsh.params import WRAPPED, ForeignName, GivenFamily, Wrap
from gpulsh.ragged import concat_rows, offsets
from gpulsh.sketch.base import SignatureSketch

MAX_SEED = 2**32 - 1  # of a RandomState
_MASK = 2**64 - 1
_WORDS = {**WRAPPED, "affine32": Wrap(32, 2**31 - 1)}  # that are drawn, by family


def _generator(seed: int) -> np.random.RandomState:
    return np.random.RandomState(check_integer("seed", seed, 0, MAX_SEED))


def _range(family: str) -> tuple[type[Any], int]:
    """The type of a family's words, and the number that they are below."""
    bits, modulus = _WORDS[family]
    return np.dtype(f"uint{bits}").type, modulus


@lru_cache(maxsize=16)
def draw_interleaved(name: ForeignName | Literal["affine32"], num_perm: int, seed: int) -> GivenFamily:
    """Draw a multiplier from 1 and an addend from 0, below the modulus, for one function after another."""
    generator, (dtype, modulus) = _generator(seed), _range(name)
    drawn = [int(generator.randint(1 - i % 2, modulus, dtype=dtype)) for i in range(2 * num_perm)]
    return given_family(name, seed, drawn[0::2], drawn[1::2])


@lru_cache(maxsize=16)
def draw_in_blocks(name: ForeignName, num_perm: int, seed: int) -> GivenFamily:
    """Draw all multipliers, then all addends."""
    generator, (dtype, modulus) = _generator(seed), _range(name)
    first, second = (generator.randint(low, modulus, num_perm, dtype=dtype).tolist() for low in (1, 0))
    return given_family(name, seed, first, second)


@lru_cache(maxsize=16)
def draw_odd(name: Literal["affine32", "affine64"], num_perm: int, seed: int) -> GivenFamily:
    """Draw half of each odd multiplier, then all addends."""
    bits = 32 if name == "affine32" else 64
    generator, dtype = _generator(seed), np.uint32 if bits == 32 else np.uint64
    halves, addends = (generator.randint(0, 1 << most, num_perm, dtype=dtype).tolist() for most in (bits - 1, bits))
    return given_family(name, seed, [2 * half + 1 for half in halves], addends)


def given_family(
    name: ForeignName | Literal["affine32"], seed: int, first: list[int], second: list[int]
) -> GivenFamily:
    """The family whose functions have these multipliers, `first`, and addends, `second`."""
    return GivenFamily(name=name, num_perm=len(first), seed=seed, first=tuple(first), second=tuple(second))


def mersenne_twister(seed: int) -> Iterator[int]:
    """Integers below 2^64: `std::mt19937_64` of C++ (Matsumoto, Nishimura 2000, the 64-bit version).

    >>> next(mersenne_twister(5489))
    14514284786278117030
    """
    state = [seed & _MASK]
    for i in range(1, 312):
        state.append(6364136223846793005 * (state[-1] ^ state[-1] >> 62) + i & _MASK)
    while True:
        for i in range(312):
            joined = state[i] & 0xFFFFFFFF80000000 | state[(i + 1) % 312] & 0x7FFFFFFF
            state[i] = state[(i + 156) % 312] ^ joined >> 1 ^ (0xB5026F5AA96619E9 if joined & 1 else 0)
        for word in state:
            word ^= word >> 29 & 0x5555555555555555
            word ^= word << 17 & 0x71D67FFFEDA60000
            word ^= word << 37 & 0xFFF7EEE000000000
            yield word ^ word >> 43


def murmur_finalizer(values: Array) -> Array:
    """The finalizer of MurmurHash3 of each word, uint32 or uint64."""
    one, two, three, first, second = _FINALIZER[values.dtype]
    values = values ^ values >> one
    values *= first
    values ^= values >> two
    values *= second
    values ^= values >> three
    return values


_FINALIZER = {
    np.dtype(np.uint32): tuple(map(np.uint32, (16, 13, 16, 0x85EBCA6B, 0xC2B2AE35))),
    np.dtype(np.uint64): tuple(map(np.uint64, (33, 33, 33, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53))),
}


SETS_AT_ONCE = 1 << 8  # hashed together, so that the hashes stay in the cache

Hash = Callable[[bytes], int]


@dataclass(frozen=True)
class Sha1:
    """The first `bits` of SHA-1 as a little-endian number: of a token, or of many by a backend.

    >>> Sha1(32)(b"hello world")
    896314922
    """

    bits: int

    def __call__(self, token: bytes) -> int:
        """The hash of one token."""
        return int.from_bytes(hashlib.sha1(token).digest()[: self.bits // 8], "little")

    def of_all(self, sets: list[list[Any]], ops: Backend) -> Fingerprints:
        """The hashes of all tokens of all sets, in the backend's memory. InputTypeError if a token is not bytes."""
        from gpulsh.backends.cpu.hashes import sha1
        from gpulsh.backends.cpu.texts import token_texts

        parts = []
        for start in range(0, max(len(sets), 1), SETS_AT_ONCE):
            texts, begins = token_texts(sets[start : start + SETS_AT_ONCE])
            heads = sha1(texts) & np.uint64((1 << self.bits) - 1)
            parts.append(Fingerprints(ops.asarray(heads), ops.asarray(begins)))
        return concat_rows(parts)


def xxhash_function(name: str, **options: int) -> Callable[..., Any]:
    """A function of the package xxhash. ParameterError if it is not installed."""
    try:
        xxhash: Any = importlib.import_module("xxhash")
    except ImportError:
        raise ParameterError(f"this scheme's hash needs the package xxhash: {install_command('compat')}") from None
    function: Callable[..., Any] = getattr(xxhash, name)
    return partial(function, **options) if options else function


Token = bytes | str
TokenRows = Iterable[Iterable[Token]]


@dataclass(frozen=True, kw_only=True)
class HashSketch(SignatureSketch):
    """Signatures that another library makes of sets of hashes."""

    @property
    def functions(self) -> GivenFamily:
        """The functions by which backends make signatures. ParameterError for a wrong parameter."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.functions

    def __call__(
        self, hashes: Fingerprints, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Signatures:
        """Signatures [n, num_perm] of n rows of hashes by the library's function; all ones for an empty row."""
        check_type("hashes", hashes, Fingerprints)
        ops = select_backend(backend, threads=threads)
        rows = hashes.moved(ops.asarray)
        with ops.use_device():
            ready = Fingerprints(self._prepare_hashes(rows.values, ops), rows.offset)
            return Signatures(self._convert_minima(sketched(ops, ready, self.functions), ops))

    def _prepare_hashes(self, values: Array, ops: Backend) -> Array:
        """The hashes as the functions take them; arrays of NumPy or CuPy."""
        return values

    def _convert_minima(self, signatures: Array, ops: Backend) -> Array:
        """The minima as the library returns them; arrays of NumPy or CuPy."""
        return signatures


@dataclass(frozen=True, kw_only=True)
class TokenSketch(HashSketch):
    """Signatures that another library makes of sets of tokens."""

    @property
    def token_hash(self) -> Hash:
        """The library's hash function of a token's bytes. ParameterError if its package is not installed."""
        raise NotImplementedError

    def from_tokens(self, rows: TokenRows, *, backend: BackendName = "auto", threads: int | None = None) -> Signatures:
        """Signatures of documents, each given by its tokens, as `bytes`, or as `str` for their UTF-8.

        InputTypeError names the first row with a token of another type.
        """
        return self(self.hashes(rows, backend=backend, threads=threads), backend=backend, threads=threads)

    def hashes(self, rows: TokenRows, *, backend: BackendName = "auto", threads: int | None = None) -> Fingerprints:
        """The hashes of rows of tokens, in the backend's memory."""
        if not hasattr(rows, "__iter__") or isinstance(rows, (set, frozenset)):  # a set has no order
            raise InputTypeError(f"rows is {shown_type(rows)}; give a list of documents, each a list of its tokens")
        token_hash, ops = self.token_hash, select_backend(backend, threads=threads)
        sets = [self._hashed_tokens(encode_tokens(row, number)) for number, row in enumerate(rows)]
        with ops.use_device():
            if isinstance(token_hash, Sha1):
                return token_hash.of_all(sets, ops)
            values = np.fromiter(map(token_hash, chain.from_iterable(sets)), np.uint64)
            return Fingerprints(values, offsets([len(one) for one in sets])).moved(ops.asarray)

    def _hashed_tokens(self, tokens: list[bytes]) -> list[bytes]:
        """The pieces of a document that are hashed: its tokens, or runs of them."""
        return tokens


def encode_tokens(row: Iterable[Token], number: int) -> list[bytes]:
    """The tokens of row `number` as bytes."""
    if isinstance(row, (str, bytes)) or not hasattr(row, "__iter__"):
        given = "None" if row is None else f"one {type(row).__name__}"
        raise InputTypeError(f"row {number} is {given}; give its tokens, such as ['a', 'b']")
    tokens = [token.encode("utf-8", "surrogatepass") if isinstance(token, str) else token for token in row]
    for token in tokens:
        if not isinstance(token, bytes):
            raise InputTypeError(f"row {number} holds a {type(token).__name__}; give tokens as bytes or str")
    return tokens


def token_runs(tokens: list[bytes], size: int, between: bytes = b" ") -> list[bytes]:
    """All runs of `size` tokens, joined; none if there are fewer tokens."""
    return [between.join(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]


def check_halves(values: Array) -> None:
    """ParameterError for a hash of more than 32 bits."""
    if len(values) and int(values.max()) >> 32:
        raise ParameterError(f"hashes holds {int(values.max())}; this scheme takes hashes below 2^32")
