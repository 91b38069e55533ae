"""`MinHash` of datasketch 2.0, in all of its schemes; `bulk` uses a backend, many sets at a time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpulsh.arrays import Fingerprints, Values
from gpulsh.backends.protocol import Backend, sketched
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import check_choice, check_integer
from gpulsh.compat.datasketch.hashfunc import sha1_hash32, sha1_hash64
from gpulsh.compat.schemes.datasketch import DatasketchMinHash, Scheme, premix
from gpulsh.compat.schemes.sketches import MAX_SEED, SETS_AT_ONCE, Sha1, given_family, murmur_finalizer
from gpulsh.errors import ParameterError
from gpulsh.params import MAX_NUM_PERM, GivenFamily
from gpulsh.ragged import offsets
from gpulsh.store.columns import keep_freed_blocks

HashFunction = Callable[[Any], int]
GpuMode = Literal["disable", "detect", "always"]
BACKENDS: dict[GpuMode, BackendName] = {"disable": "cpu", "detect": "auto", "always": "cuda"}
KEPT = 8 << 20  # bytes, more than a group of sets takes
FEW = 256  # tokens; for fewer, calling a backend does not pay

_DTYPES: dict[Scheme, type[np.unsignedinteger]] = {"affine32": np.uint32, "affine64": np.uint64, "legacy": np.uint64}
_MASKS = {"affine32": 2**32 - 1, "affine64": 2**64 - 1, "legacy": 2**32 - 1}  # greatest value, of an empty set
_SHA1: dict[int, HashFunction] = {32: sha1_hash32, 64: sha1_hash64}
_MERSENNE = np.uint64(2**61 - 1)

Same = TypeVar("Same", bound="MinHash")


class MinHash:
    """The signature of a set, to which tokens are added, with the attributes and arguments of `datasketch.MinHash`.

    `hashvalues` equal datasketch 2.0's bit for bit. `scheme` is "affine32" (uint32, the default), "affine64" (uint64)
    or "legacy" (uint64), the scheme of 1.x. `hashfunc` makes an integer of a token; None takes SHA-1 of its bytes.
    `gpu_mode` chooses where `bulk` and `update_batch` work: "disable" on the CPU, "always" on CUDA, "detect" there if
    it works. Signatures of different schemes, seeds or lengths are never compared: that is a ParameterError, a kind of
    ValueError.

    >>> one, other = MinHash(num_perm=256), MinHash(num_perm=256)
    >>> one.update_batch([b"a", b"b", b"c"])
    >>> other.update_batch([b"a", b"b", b"d"])
    >>> 0.3 < one.jaccard(other) < 0.7
    True
    """

    seed: int
    scheme: Scheme
    hashvalues: Values
    hashfunc: HashFunction
    permutations: Any

    def __init__(
        self,
        num_perm: int = 128,
        seed: int = 1,
        gpu_mode: GpuMode = "disable",
        hashfunc: HashFunction | None = None,
        hashobj: object = None,
        hashvalues: ArrayLike | None = None,
        permutations: Sequence[ArrayLike] | NDArray[np.generic] | None = None,
        scheme: Scheme | None = None,
    ) -> None:
        if scheme is None and (hashvalues is not None or permutations is not None):
            raise ParameterError(
                "scheme is None, and the values of another MinHash do not show it; give that MinHash's scheme, or"
                " 'legacy' for datasketch before 2.0"
            )
        check_choice("scheme", scheme, (None, *get_args(Scheme)))
        check_choice("gpu_mode", gpu_mode, tuple(BACKENDS))
        if hashobj is not None:
            warnings.warn("hashobj does nothing; give hashfunc", DeprecationWarning, stacklevel=2)
        if hashfunc is not None and not callable(hashfunc):
            raise ParameterError(f"hashfunc is of type {type(hashfunc).__name__}; give a function of a token")
        self.scheme = scheme or "affine32"
        self.seed = seed
        self.hashfunc = hashfunc or (sha1_hash64 if scheme == "affine64" else sha1_hash32)
        self.hashvalues = self._empty(num_perm) if hashvalues is None else scheme_values(hashvalues, self.scheme)
        self.num_perm = len(self.hashvalues)
        if permutations is None:
            self.permutations = _draw_permutations(self.num_perm, check_integer("seed", seed, 0, MAX_SEED), self.scheme)
        else:
            self.permutations = np.array([scheme_values(words, self.scheme) for words in permutations])
            if self.scheme != "legacy" and (self.permutations[0] % 2 == 0).any():
                raise ParameterError(f"permutations has even multipliers; scheme {self.scheme!r} needs odd ones")
        if len(self.permutations[0]) != self.num_perm:
            raise ParameterError(
                f"permutations has {len(self.permutations[0])} functions; give one for each of {self.num_perm} values"
            )
        self._gpu_mode = gpu_mode

    def _empty(self, num_perm: int) -> Values:
        num_perm = check_integer("num_perm", num_perm, 1, MAX_NUM_PERM)
        return np.full(num_perm, _MASKS[self.scheme], _DTYPES[self.scheme])

    def update(self, b: object) -> None:
        """Add a token, which `hashfunc` hashes."""
        self.hashvalues = np.minimum(self.hashvalues, self._permuted(self._hashes([b])))

    def update_batch(self, b: Iterable[object]) -> None:
        """Add tokens."""
        tokens = list(b)
        if not tokens:
            return
        if len(tokens) <= FEW and self._gpu_mode == "disable":
            least = self._permuted(self._hashes(tokens)[:, None]).min(axis=0)
        else:
            least = self._signed([tokens], select_backend(BACKENDS[self._gpu_mode]), self._functions())[0]
        self.hashvalues = np.minimum(self.hashvalues, least)

    def _hashes(self, tokens: Iterable[object]) -> Values:
        """The hashes [tokens] by `hashfunc`, of the scheme's type; ParameterError if one is too large for it."""
        hashfunc, dtype = self.hashfunc, _DTYPES[self.scheme]
        try:
            return np.array([hashfunc(token) for token in tokens], dtype)
        except OverflowError as error:
            raise ParameterError(
                f"hashfunc gives a number that scheme {self.scheme!r} cannot hold: {error}; give one of its width,"
                " or scheme='affine64'"
            ) from None

    def _permuted(self, hashes: Values) -> Values:
        """[..., num_perm]: every function of every hash [..., 1]."""
        a, b = self.permutations
        if self.scheme == "legacy":
            legacy: Values = (hashes * a + b) % _MERSENNE & np.uint64(_MASKS["legacy"])
            return legacy
        permuted: Values = murmur_finalizer(hashes) * a + b
        return permuted

    def _signed(self, sets: list[list[object]], ops: Backend, family: GivenFamily) -> Values:
        """The hash values of each set of tokens."""
        sha1 = next((Sha1(bits) for bits, own in _SHA1.items() if self.hashfunc is own), None)  # as backends compute it
        with ops.use_device():
            if sha1 is None:
                made = self._hashes(chain.from_iterable(sets)).astype(np.uint64)
                hashes = Fingerprints(made, offsets([len(one) for one in sets])).moved(ops.asarray)
            else:
                hashes = sha1.of_all(sets, ops)
            ready = Fingerprints(premix(hashes.values, self.scheme), hashes.offset)
            signatures = ops.asnumpy(sketched(ops, ready, family))
        found: Values = signatures.astype(_DTYPES[self.scheme], copy=False)
        return found

    def _functions(self) -> GivenFamily:
        name = "wrapped61_low" if self.scheme == "legacy" else self.scheme
        first, second = (np.asarray(words).tolist() for words in self.permutations)
        return given_family(name, self.seed, first, second)

    def jaccard(self, other: MinHash) -> float:
        """The estimate of the Jaccard similarity of both sets."""
        self._check_same(other, "compare")
        return float(np.count_nonzero(self.hashvalues == other.hashvalues)) / len(self)

    def _check_same(self, other: MinHash, what: str) -> None:
        # First the scheme alone: another object has none, and no seed or length either.
        check_same(f"{what} signatures", scheme=(self.scheme, getattr(other, "scheme", None)))
        check_same(f"{what} signatures", seed=(self.seed, other.seed), num_perm=(len(self), len(other)))

    def count(self) -> float:
        """The estimate of the number of different tokens (Cohen 1994)."""
        return float(len(self) / np.sum(self.hashvalues / float(_MASKS[self.scheme])) - 1.0)

    def merge(self, other: MinHash) -> None:
        """Make this the union of both."""
        self._check_same(other, "merge")
        self.hashvalues = np.minimum(other.hashvalues, self.hashvalues)

    def digest(self) -> Values:
        """A copy of the hash values."""
        return self.hashvalues.copy()

    def is_empty(self) -> bool:
        """Whether there is no token yet."""
        return bool((self.hashvalues == _MASKS[self.scheme]).all())

    def clear(self) -> None:
        """Forget all tokens."""
        self.hashvalues = self._empty(len(self))

    def copy(self: Same) -> Same:
        """A copy that changes by itself."""
        return self._with(self.digest())

    def _with(self: Same, hashvalues: Values) -> Same:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, hashvalues=hashvalues)
        return made

    def __len__(self) -> int:
        return len(self.hashvalues)

    def __eq__(self, other: object) -> bool:
        return (
            type(self) is type(other)
            and isinstance(other, MinHash)
            and (self.scheme, self.seed) == (other.scheme, other.seed)
            and np.array_equal(self.hashvalues, other.hashvalues)
        )

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_perm={len(self)}, seed={self.seed}, scheme={self.scheme!r})"

    @classmethod
    def union(cls: type[Same], *mhs: Same) -> Same:
        """The union of two or more."""
        if len(mhs) < 2:
            raise ParameterError(f"union is given {len(mhs)} signatures; give two or more")
        for other in mhs[1:]:
            mhs[0]._check_same(other, "unite")
        return mhs[0]._with(np.minimum.reduce([one.hashvalues for one in mhs]))

    @classmethod
    def bulk(cls: type[Same], b: Iterable[Iterable[object]], **minhash_kwargs: Any) -> list[Same]:
        """A signature for each set of tokens; `minhash_kwargs` are the arguments of the class."""
        return list(cls.generator(b, **minhash_kwargs))

    @classmethod
    def generator(cls: type[Same], b: Iterable[Iterable[object]], **minhash_kwargs: Any) -> Generator[Same, None, None]:
        """Yield the signatures of `bulk`; a few hundred sets are read at once."""
        empty = cls(**minhash_kwargs)
        keep_freed_blocks(KEPT)
        ops, family = select_backend(BACKENDS[empty._gpu_mode]), empty._functions()
        rest = iter(b)
        while sets := [each if type(each) is list else list(each) for each in islice(rest, SETS_AT_ONCE)]:
            signed = empty._signed(sets, ops, family)
            np.minimum(signed, empty.hashvalues, out=signed)
            for values in signed:
                yield empty._with(values.copy())

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update({"scheme": "legacy", "_gpu_mode": "disable", **state})  # the only scheme of 1.x


def check_same(what: str, **facts: tuple[object, object]) -> None:
    """ParameterError at the first fact in which two objects differ."""
    for name, (own, other) in facts.items():
        if own != other:
            raise ParameterError(f"cannot {what} of {name} {own!r} and {other!r}; make both with the same one")


def scheme_values(given: ArrayLike, scheme: Scheme) -> Values:
    """Numbers in the scheme's type; ParameterError if one does not fit."""
    try:
        values = np.array(given, np.uint64 if not isinstance(given, np.ndarray) else None)
        fit = scheme == "legacy" or not values.size or 0 <= int(values.min()) <= int(values.max()) <= _MASKS[scheme]
    except OverflowError:  # below 0, 2^64 or more, or infinite
        fit = False
    if not fit:
        raise ParameterError(f"hashvalues or permutations exceed scheme {scheme!r}; give the scheme that made them")
    return values.astype(_DTYPES[scheme])


@lru_cache(maxsize=16)
def _draw_permutations(num_perm: int, seed: int, scheme: Scheme) -> Values:
    """[2, num_perm]: multipliers and addends, as datasketch draws them."""
    functions = DatasketchMinHash(num_perm=num_perm, seed=seed, scheme=scheme).functions
    drawn = np.array([functions.first, functions.second], _DTYPES[scheme])
    drawn.flags.writeable = False  # callers share it
    return drawn
