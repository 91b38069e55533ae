"""`LeanMinHash` as datasketch 2.0 has it: a signature that takes no more tokens, and its bytes."""

from __future__ import annotations

import struct
from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike

from gpulsh.arrays import Values
from gpulsh.checks import check_choice
from gpulsh.compat.datasketch.minhash import MinHash, scheme_values
from gpulsh.compat.schemes.datasketch import Scheme
from gpulsh.errors import InputTypeError, ParameterError

CODES: dict[Scheme, int] = {"affine32": 1, "affine64": 2}  # of schemes in bytes; legacy has none
SCHEMES = {code: scheme for scheme, code in CODES.items()}

Same = TypeVar("Same", bound="LeanMinHash")


class LeanMinHash(MinHash):
    """The values of a `MinHash` that takes no more tokens; hashable, and stored in `bytesize()` bytes.

    The bytes are datasketch's: the seed (int64), the number of values (int32) and the values (uint32). In the schemes
    of 2.0 the number is negative, and a byte for the scheme comes before the values, which "affine64" has as uint64.

    >>> full = MinHash(num_perm=4, scheme="legacy")
    >>> full.update(b"a")
    >>> stored = bytearray(LeanMinHash(full).bytesize())
    >>> LeanMinHash(full).serialize(stored)
    >>> len(stored), LeanMinHash.deserialize(stored).jaccard(full)
    (28, 1.0)
    """

    __slots__ = ("hashvalues", "scheme", "seed")

    def __init__(
        self,
        minhash: MinHash | None = None,
        seed: int | None = None,
        hashvalues: ArrayLike | None = None,
        scheme: Scheme | None = None,
    ) -> None:
        if minhash is not None:
            if scheme not in (None, minhash.scheme):
                raise ParameterError(
                    f"scheme is {scheme!r} and the MinHash has {minhash.scheme!r}; give only the MinHash"
                )
            self._fill(minhash.seed, minhash.hashvalues, minhash.scheme)
        elif hashvalues is None or seed is None:
            raise ParameterError("neither a MinHash nor both of seed and hashvalues are given; give one of these")
        elif scheme is None:
            raise ParameterError(
                "scheme is None, and hashvalues do not show it; give the scheme of their MinHash, or 'legacy' for"
                " datasketch before 2.0"
            )
        else:
            self._fill(seed, hashvalues, scheme)

    def _fill(self, seed: int, hashvalues: ArrayLike, scheme: Scheme) -> None:
        check_choice("scheme", scheme, get_args(Scheme))
        self.seed, self.scheme, self.hashvalues = seed, scheme, scheme_values(hashvalues, scheme)
        if scheme != "legacy" and not len(self.hashvalues):
            raise ParameterError("hashvalues is empty; give one or more")

    @classmethod
    def _filled(cls: type[Same], seed: int, hashvalues: ArrayLike, scheme: Scheme) -> Same:
        made = object.__new__(cls)
        made._fill(seed, hashvalues, scheme)
        return made

    def update(self, b: object) -> None:
        """A TypeError: it takes no more tokens."""
        raise InputTypeError("a LeanMinHash takes no tokens; give them to a MinHash of its seed, scheme and hashvalues")

    update_batch = update

    def _with(self: Same, hashvalues: Values) -> Same:
        return self._filled(self.seed, hashvalues, self.scheme)

    @classmethod
    def union(cls: type[Same], *mhs: MinHash) -> Same:
        """The union of two or more."""
        return cls(MinHash.union(*mhs))

    def __hash__(self) -> int:  # type: ignore[override]
        return hash((self.scheme, self.seed, tuple(self.hashvalues)))

    def bytesize(self, byteorder: str = "@") -> int:
        """How many bytes `serialize` writes in a byte order of the module struct."""
        return struct.calcsize(_layout(byteorder, len(self), self.scheme))

    def serialize(self, buf: Any, byteorder: str = "@") -> None:
        """Write into a buffer of at least `bytesize(byteorder)` bytes."""
        if len(buf) < self.bytesize(byteorder):
            raise ParameterError(f"buf has {len(buf)} bytes; give one of {self.bytesize(byteorder)} or more")
        head = [len(self)] if self.scheme == "legacy" else [-len(self), CODES[self.scheme]]
        struct.pack_into(_layout(byteorder, len(self), self.scheme), buf, 0, self.seed, *head, *self.hashvalues)

    @classmethod
    def deserialize(cls: type[Same], buf: Any, byteorder: str = "@") -> Same:
        """Read the bytes that `serialize` wrote, here or in datasketch."""
        return cls._filled(*_read(buf, byteorder))

    def __getstate__(self) -> bytearray:
        state = bytearray(self.bytesize())
        self.serialize(state)
        return state

    def __setstate__(self, state: Any) -> None:
        self._fill(*_read(state, "@"))


def _layout(byteorder: str, count: int, scheme: Scheme) -> str:
    if scheme == "legacy":
        return f"{byteorder}qi{count}I"
    return f"{byteorder}qiB{count}{'Q' if scheme == 'affine64' else 'I'}"


def _read(buf: Any, byteorder: str) -> tuple[int, Values, Scheme]:
    view = memoryview(buf)
    seed, count = struct.unpack_from(f"{byteorder}qi", view)
    scheme: Scheme = "legacy"
    if count < 0:
        code = view[struct.calcsize(f"{byteorder}qi")]
        if code not in SCHEMES:
            raise ParameterError(f"the bytes name the scheme {code}; give what datasketch 1 or 2 wrote")
        count, scheme = -count, SCHEMES[code]
    values = struct.unpack_from(_layout(byteorder, count, scheme), view)[-count:] if count else ()
    return seed, np.array(values, np.uint64), scheme
