"""What every scheme of another library is to its user: a sketch of hashes, or of tokens that it hashes first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Signatures
from gpulsh.backends.protocol import Backend, sketched
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.compat.schemes.hashes import Hash, Sha1
from gpulsh.errors import InputTypeError, ParameterError
from gpulsh.params import GivenFamily, check_type
from gpulsh.ragged import offsets
from gpulsh.sketch.base import SignatureSketch

Token = bytes | str
TokenRows = Iterable[Iterable[Token]]


@dataclass(frozen=True, kw_only=True)
class HashSketch(SignatureSketch):
    """Signatures that another library makes of sets of hashes."""

    @property
    def functions(self) -> GivenFamily:
        """What the backends make signatures by. ParameterError where a parameter is wrong."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.functions

    def __call__(
        self, hashes: Fingerprints, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Signatures:
        """Signatures [n, num_perm] of n rows of what the library's hash function gives; all ones where one is empty."""
        check_type("hashes", hashes, Fingerprints)
        ops = select_backend(backend, threads=threads)
        rows = hashes.moved(ops.asarray)
        with ops.here():
            ready = Fingerprints(self._ready(rows.values, ops), rows.offset)
            return Signatures(self._finished(sketched(ops, ready, self.functions), ops))

    def _ready(self, values: Array, ops: Backend) -> Array:
        """What the functions take, of hashes; arrays of NumPy or CuPy."""
        return values

    def _finished(self, signatures: Array, ops: Backend) -> Array:
        """What the library hands out, of minima; arrays of NumPy or CuPy."""
        return signatures


@dataclass(frozen=True, kw_only=True)
class TokenSketch(HashSketch):
    """Signatures that another library makes of sets of tokens."""

    @property
    def token_hash(self) -> Hash:
        """The library's hash function of a token's bytes. ParameterError where its package is not installed."""
        raise NotImplementedError

    def from_tokens(self, rows: TokenRows, *, backend: BackendName = "auto", threads: int | None = None) -> Signatures:
        """`self` of the tokens' hashes: of each document its tokens, as `bytes`, or `str` for their UTF-8.

        InputTypeError names the first row that holds something else.
        """
        return self(self.hashes(rows, backend=backend, threads=threads), backend=backend, threads=threads)

    def hashes(self, rows: TokenRows, *, backend: BackendName = "auto", threads: int | None = None) -> Fingerprints:
        """Each token's hash, of rows of tokens, in the backend's memory."""
        token_hash, ops = self.token_hash, select_backend(backend, threads=threads)
        sets = [self._hashed_tokens(encoded(row, number)) for number, row in enumerate(rows)]
        with ops.here():
            if isinstance(token_hash, Sha1):
                return token_hash.of_all(sets, ops)
            values = np.fromiter(map(token_hash, chain.from_iterable(sets)), np.uint64)
            return Fingerprints(values, offsets([len(one) for one in sets])).moved(ops.asarray)

    def _hashed_tokens(self, tokens: list[bytes]) -> list[bytes]:
        """What is hashed, of a document's tokens: these, or runs of them."""
        return tokens


def encoded(row: Iterable[Token], number: int) -> list[bytes]:
    """The tokens of row `number` as bytes."""
    if isinstance(row, (str, bytes)):
        raise InputTypeError(f"row {number} is one {type(row).__name__}; give its tokens, as ['a', 'b']")
    tokens = [token.encode() if isinstance(token, str) else token for token in row]
    for token in tokens:
        if not isinstance(token, bytes):
            raise InputTypeError(f"row {number} holds a {type(token).__name__}; give tokens as bytes or str")
    return tokens


def runs(tokens: list[bytes], size: int, between: bytes = b" ") -> list[bytes]:
    """Every `size` tokens that follow one another, joined; none where there are fewer."""
    return [between.join(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]


def check_halves(values: Array) -> None:
    """A ParameterError where a hash has more than 32 bits."""
    if len(values) and int(values.max()) >> 32:
        raise ParameterError(f"hashes holds {int(values.max())}; this scheme takes hashes below 2^32")
