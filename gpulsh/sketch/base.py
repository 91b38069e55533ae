"""Estimates of pairs of rows: what may be asked for, and the share of equal values that set sketches go by.

What every sketch of texts is to its user: made of any texts, a batch of them at a time.

What every sketch that makes signatures is to its user: their length, their seed, and what two of them tell.

Fingerprints that cannot have been mixed: a sketch that reads a half of each would call unlike sets equal.

What every sketch of sets is to its user: signatures of fingerprints or texts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Fingerprints, Made, Signatures, held
from gpulsh.backends.protocol import Backend, sketched
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.errors import ParameterError
from gpulsh.params import (
    MAX_NUM_PERM,
    MAX_SEED,
    Family,
    Folding,
    Shingling,
    check_integer,
    check_type,
    refuse_unknown,
    set_integer,
)
from gpulsh.text.documents import Documents
from gpulsh.theory import checked_number

PAIRS_AT_ONCE = 1 << 14  # whose rows are gathered at once


def estimates(signatures: Array, rows: Array) -> Array:
    """The share of equal values of signature rows `rows` [m, 2], 0 where a row is an empty document's."""
    no_value = np.iinfo(signatures.dtype).max

    def shares(some: Array) -> Array:
        left, right = signatures[some[:, 0]], signatures[some[:, 1]]
        filled = (left != no_value).any(axis=1)
        return (left == right).mean(axis=1) * filled

    return of_pairs(rows, shares)


def of_pairs(rows: Array, work: Callable[[Array], Array]) -> Array:
    """`work` of pairs [m, 2], some at a time, end to end."""
    starts = range(0, max(len(rows), 1), PAIRS_AT_ONCE)
    return np.concatenate([work(rows[start : start + PAIRS_AT_ONCE]) for start in starts])


def check_estimated(value: float, size: int | None, measure: str = "similarity", low: int = 0) -> None:
    """A ParameterError unless a `measure` can be `value` and the union of two documents have `size` shingles."""
    if not low <= checked_number("value", value) <= 1:
        raise ParameterError(f"value is {value}; give a {measure} from {low} to 1")
    if size is not None:
        check_integer("size, the number of shingles that either document has,", size, 1, 1 << 62)


def check_maker(name: str, sketched: Made, sketch: object) -> None:
    """A ParameterError where the parameter `name` is known to be what another sketch made."""
    if sketched.maker not in (None, sketch):
        raise ParameterError(
            f"{name} were made by {sketched.maker}, and {sketch} was asked for estimates; ask the former"
        )


def checked_pairs(pairs: Array, count: int, ops: Backend) -> Array:
    """Pairs of rows of `count` documents as int64 [m, 2] of the backend, or a ParameterError."""
    try:
        array = held(pairs) if hasattr(pairs, "dtype") else np.asarray(pairs)
        array = array if isinstance(array, np.ndarray) else ops.asarray(array)
    except ValueError as error:  # rows of unequal length
        raise ParameterError(f"pairs is no array: {error}; give integers of shape [m, 2]") from None
    if array.size == 0:
        return ops.asarray(np.empty((0, 2), np.int64))
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ParameterError(
            f"pairs is an array of {array.dtype} with shape {tuple(array.shape)}; give integers of shape [m, 2]"
        )
    if int(array.min()) < 0 or int(array.max()) >= count:
        allowed = f"; give rows from 0 to {count - 1}" if count else " of none; give no pairs"
        raise ParameterError(f"pairs holds rows from {int(array.min())} to {int(array.max())}{allowed}")
    return ops.asarray(array.astype(np.int64))


Sketched = TypeVar("Sketched", covariant=True)


class TextSketch(ABC, Generic[Sketched]):
    """Makes of each text what it makes of the text's fingerprints."""

    def from_texts(
        self,
        texts: object,
        *,
        shingling: Shingling | str | None = None,
        folding: Folding | None = None,
        backend: BackendName = "auto",
        threads: int | None = None,
    ) -> Sketched:
        """As of `shingle(texts)`, without ever holding the fingerprints of more than a batch of the texts.

        `texts` is any kind that `deduplicate` takes. Raises InputTypeError where a row is no text.
        """
        documents = Documents.opened(texts, shingling, folding, backend, threads)
        with documents.ops.here():
            return self._of_documents(documents)

    @abstractmethod
    def _of_documents(self, documents: Documents) -> Sketched:
        """A row a document; the backend's device is the current one."""


@dataclass(frozen=True, kw_only=True)
class SignatureSketch:
    """Signatures of `num_perm` values; the share that two have in common estimates their similarity."""

    num_perm: int = 128
    seed: int = 1

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        """Refuse a keyword that is no parameter."""
        refuse_unknown(cls.__name__, parameters, [field.name for field in fields(cls)])
        return super().__new__(cls)

    def __post_init__(self) -> None:
        set_integer(self, "num_perm", 1, MAX_NUM_PERM)
        set_integer(self, "seed", 0, MAX_SEED)

    def estimate(
        self, signatures: Signatures, pairs: Array, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Array:
        """The estimate of the similarity of each pair of rows, float64 [m]; 0 where one is empty.

        Raises ParameterError where another sketch made the signatures, or `pairs` are no rows of them.
        """
        check_type("signatures", signatures, Signatures)
        check_maker("signatures", signatures, self)
        ops = select_backend(backend, threads=threads)
        rows = checked_pairs(pairs, len(signatures), ops)
        return estimates(ops.asarray(signatures.values), rows)

    def standard_deviation(self, value: float, size: int | None = None) -> float:
        """What theory says of the estimate where the similarity is `value` and the union has `size` shingles.

        That of `num_perm` independent values, sqrt(J (1 - J) / num_perm), where `size` is None. Raises ParameterError
        for a `value` outside 0 to 1 and a `size` below 1.
        """
        check_estimated(value, size)
        return float(np.sqrt(self._variance(float(value), size)))

    def _variance(self, value: float, size: int | None) -> float | NDArray[np.float64]:
        return value * (1 - value) / self.num_perm


LOOKED_AT = 1024  # values of a call
UPPER = ("affine32", "xor", "tabulation", "fast_similarity")  # families that read upper halves by themselves
LOWER = ("one_permutation", "fast_similarity")  # and those that read lower halves so
_S16, _S32 = np.uint64(16), np.uint64(32)


def check_mixed(fingerprints: Fingerprints, family: Family, ops: Backend) -> None:
    """A ParameterError where the first values cannot have been mixed, and `family` reads the half that they share.

    The fingerprints are of the backend, whose device is the current one.

    Refused are three distinct values or more if they have at most half as many distinct halves, two whose halves are 0,
    and one that is below 2^16, or a multiple of 2^48. Of random values the first has a probability below
    2^-60, the second 2^-64, the third 2^-48: less than one call in 10^14.
    """
    first, last = int(fingerprints.offset[0]), int(fingerprints.offset[-1])
    values = np.unique(ops.asnumpy(fingerprints.values[first : min(first + LOOKED_AT, last)]))
    if family.name in UPPER and _alike(values, np.right_shift):
        _refuse("upper", family)
    if family.name in LOWER and _alike(values, np.left_shift):
        _refuse("lower", family)


def _alike(values: NDArray[np.uint64], shifted: np.ufunc) -> bool:
    """Whether the halves of distinct values, which a shift leaves, are alike as no random ones are."""
    if len(values) > 2:
        return 2 * len(np.unique(shifted(values, _S32))) <= len(values)
    read = shifted(values, _S32 if len(values) == 2 else _S16)
    return bool(len(values) and (read == 0).all())


def _refuse(half: str, family: Family) -> None:
    raise ParameterError(
        f"the {half} 32 bits of fingerprints repeat, as those of mixed ones do not, and {family.name} would take unlike"
        " sets for equal; give gpulsh.fingerprint(sets)"
    )


@dataclass(frozen=True, kw_only=True)
class SetSketch(TextSketch[Signatures], SignatureSketch):
    """Signatures of sets; the share of values that two have in common estimates their Jaccard similarity."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.functions

    @property
    def functions(self) -> Family:
        """What the backends make signatures by. ParameterError where a parameter is wrong."""
        raise NotImplementedError

    def __call__(
        self, fingerprints: Fingerprints, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Signatures:
        """Signatures [n, num_perm] of Fingerprints of n rows; all ones where the document is empty.

        Fingerprints are taken for random numbers, as those of `gpulsh.shingle` and `gpulsh.fingerprint` are. Plain
        numbers are refused where the sketch reads a half of each: where the first 1,024 values have at most half as
        many distinct halves as distinct values. Two values are refused where both halves are 0. One value is refused
        if it is below 2^16, or a multiple of 2^48 where lower halves are read: 7 is refused, and 70,000 is not. Random
        values are refused in less than one call in 10^14. Raises ParameterError for these, and for any other object.
        """
        check_type("fingerprints", fingerprints, Fingerprints)
        ops = select_backend(backend, threads=threads)
        there = fingerprints.moved(ops.asarray)
        with ops.here():
            check_mixed(there, self.functions, ops)
        return Signatures(sketched(ops, there, self.functions), maker=self)

    def _of_documents(self, documents: Documents) -> Signatures:
        ops = documents.ops
        signatures = ops.asarray(np.empty((len(documents.source), self.num_perm), self.functions.value_type))
        start = 0
        for batch in documents.batches():
            signatures[start : start + len(batch)] = ops.text_signatures(batch, documents.shingling, self.functions)
            start += len(batch)
        return Signatures(signatures, maker=self)
