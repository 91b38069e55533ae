"""The base classes of sketches, and the estimates that they make of pairs of rows.

`TextSketch` adds `from_texts`, `SignatureSketch` adds estimates from equal signature values, and `SetSketch` is both
for a sketch of sets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Fingerprints, Signatures, SketchResult, checked_array
from gpulsh.backends.protocol import Backend, sketched
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import check_integer, check_type, set_integer
from gpulsh.errors import ParameterError
from gpulsh.params import MAX_NUM_PERM, MAX_SEED, Family, FamilyName, Folding, Named, Shingling
from gpulsh.text.documents import Documents
from gpulsh.theory import checked_number

Sketched = TypeVar("Sketched", covariant=True)

PAIRS_AT_ONCE = 1 << 14  # pairs whose rows are gathered together
CHECKED_VALUES = 1024  # values of a call that `check_mixed` looks at
UPPER = ("affine32", "xor", "tabulation", "fast_similarity")  # families that read upper halves of fingerprints alone
LOWER = ("one_permutation", "fast_similarity")  # families that read lower halves alone
_S16, _S32 = np.uint64(16), np.uint64(32)


def estimates(signatures: Array, rows: Array) -> Array:
    """The share of equal values for pairs `rows` [m, 2] of signatures; 0 where a row belongs to an empty document."""
    no_value = np.iinfo(signatures.dtype).max

    def shares(some: Array) -> Array:
        left, right = signatures[some[:, 0]], signatures[some[:, 1]]
        filled = (left != no_value).any(axis=1)
        return (left == right).mean(axis=1) * filled

    return map_pairs(rows, shares)


def map_pairs(rows: Array, work: Callable[[Array], Array]) -> Array:
    """`work` applied to pairs [m, 2], some at a time, and its results end to end."""
    starts = range(0, max(len(rows), 1), PAIRS_AT_ONCE)
    return np.concatenate([work(rows[start : start + PAIRS_AT_ONCE]) for start in starts])


def checked_estimate(
    value: float, size: int | None, measure: str = "similarity", low: int = 0
) -> tuple[float, int | None]:
    """Both as Python's own; ParameterError unless they are a possible `measure` and number of shingles."""
    number = checked_number("value", value)
    if not low <= number <= 1:
        raise ParameterError(f"value is {number}; give a {measure} from {low} to 1")
    if size is not None:
        size = check_integer("size, the number of shingles in the union of both documents,", size, 1, 1 << 62)
    return number, size


def check_maker(name: str, sketched: SketchResult, sketch: object) -> None:
    """Raise ParameterError if another sketch made the parameter `name`."""
    if sketched.maker not in (None, sketch):
        raise ParameterError(
            f"{name} were made by {sketched.maker} and not by {sketch}; estimate with the sketch that made them"
        )


def checked_pairs(pairs: Array, count: int, ops: Backend, name: str = "pairs") -> Array:
    """Pairs of rows below `count` as int64 [m, 2] in the backend's memory, or a ParameterError about `name`."""
    array = checked_array(name, pairs, "integers of shape [m, 2]")
    array = array if isinstance(array, np.ndarray) else ops.asarray(array)
    if array.size == 0:
        return ops.asarray(np.empty((0, 2), np.int64))
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ParameterError(
            f"{name} is an array of {array.dtype} with shape {tuple(array.shape)}; give integers of shape [m, 2]"
        )
    if int(array.min()) < 0 or int(array.max()) >= count:
        allowed = f"; give rows from 0 to {count - 1}" if count else " of none; give no pairs"
        raise ParameterError(f"{name} holds rows from {int(array.min())} to {int(array.max())}{allowed}")
    return ops.asarray(array.astype(np.int64))


class TextSketch(ABC, Generic[Sketched]):
    """A sketch of texts, by way of their fingerprints."""

    def from_texts(
        self,
        texts: object,
        *,
        shingling: Shingling | str | None = None,
        folding: Folding | None = None,
        backend: BackendName = "auto",
        threads: int | None = None,
    ) -> Sketched:
        """The sketch of `shingle(texts)`, with the fingerprints of only one batch of texts in memory.

        `texts` is any kind that `deduplicate` takes. Raises InputTypeError if a row is not a text.
        """
        documents = Documents.open(texts, shingling, folding, backend, threads)
        with documents.ops.use_device():
            return self._sketch_documents(documents)

    @abstractmethod
    def _sketch_documents(self, documents: Documents) -> Sketched:
        """A row for each document; the backend's device is the current one."""


@dataclass(frozen=True, kw_only=True)
class SignatureSketch(Named):
    """Signatures of `num_perm` values; the share of equal values estimates the similarity of two."""

    num_perm: int = 128
    seed: int = 1

    def __post_init__(self) -> None:
        set_integer(self, "num_perm", 1, MAX_NUM_PERM)
        set_integer(self, "seed", 0, MAX_SEED)

    def estimate(
        self, signatures: Signatures, pairs: Array, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Array:
        """Estimate the similarity of each pair of rows: float64 [m]; 0 where one is empty.

        Raises ParameterError if another sketch made the signatures, or `pairs` name no rows of them.
        """
        check_type("signatures", signatures, Signatures)
        check_maker("signatures", signatures, self)
        ops = select_backend(backend, threads=threads)
        rows = checked_pairs(pairs, len(signatures), ops)
        return estimates(ops.asarray(signatures.values), rows)

    def standard_deviation(self, value: float, size: int | None = None) -> float:
        """The theoretical standard deviation of the estimate at a similarity of `value` and a union of `size` shingles.

        Without `size`, for `num_perm` independent values: sqrt(J (1 - J) / num_perm). Raises ParameterError for a
        `value` outside 0 to 1 and a `size` below 1.
        """
        return float(np.sqrt(self._variance(*checked_estimate(value, size))))

    def _variance(self, value: float, size: int | None) -> float | NDArray[np.float64]:
        return value * (1 - value) / self.num_perm


@dataclass(frozen=True, kw_only=True)
class SetSketch(TextSketch[Signatures], SignatureSketch):
    """Signatures of sets; the share of equal values estimates their Jaccard similarity."""

    kind: ClassVar[FamilyName]  # the name of its functions, by default, in `params.SKETCHES`

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.functions

    @property
    def functions(self) -> Family:
        """The functions that backends compute signatures by. Raises ParameterError for a wrong parameter."""
        return Family(name=self.kind, num_perm=self.num_perm, seed=self.seed)

    def __call__(
        self, fingerprints: Fingerprints, *, backend: BackendName = "auto", threads: int | None = None
    ) -> Signatures:
        """Signatures [n, num_perm] of Fingerprints of n rows; all ones where the document is empty.

        A sketch treats fingerprints as random numbers, as `gpulsh.shingle` and `gpulsh.fingerprint` make them. If it
        reads a half of each, it refuses plain numbers: three or more distinct values with at most half as many distinct
        halves; two values whose halves are both 0; a single value below 2^16 (such as 7), or for lower halves a single
        multiple of 2^48. It refuses random values in less than one call in 10^14. Raises ParameterError for these, and
        for any other object.
        """
        check_type("fingerprints", fingerprints, Fingerprints)
        ops = select_backend(backend, threads=threads)
        there = fingerprints.moved(ops.asarray)
        with ops.use_device():
            check_mixed(there, self.functions, ops)
        return Signatures(sketched(ops, there, self.functions), maker=self)

    def _sketch_documents(self, documents: Documents) -> Signatures:
        ops = documents.ops
        signatures = ops.asarray(np.empty((len(documents.source), self.num_perm), self.functions.value_type))
        start = 0
        for batch in documents.batches():
            signatures[start : start + len(batch)] = ops.text_signatures(batch, documents.shingling, self.functions)
            start += len(batch)
        return Signatures(signatures, maker=self)


def check_mixed(fingerprints: Fingerprints, family: Family, ops: Backend) -> None:
    """Raise ParameterError if no hash can have made the first values, and `family` reads the half that repeats.

    `SetSketch.__call__` says which values are refused. Random values are, by kind, with a probability below 2^-60,
    2^-64 and 2^-48. The fingerprints are in the memory of the backend, whose device is the current one.
    """
    first, last = int(fingerprints.offset[0]), int(fingerprints.offset[-1])
    values = np.unique(ops.asnumpy(fingerprints.values[first : min(first + CHECKED_VALUES, last)]))
    for half, families, shift in (("upper", UPPER, np.right_shift), ("lower", LOWER, np.left_shift)):
        if family.name not in families:
            continue
        if len(values) > 2:
            repeat = 2 * len(np.unique(shift(values, _S32))) <= len(values)
        else:
            repeat = len(values) > 0 and not shift(values, _S32 if len(values) == 2 else _S16).any()
        if repeat:
            raise ParameterError(
                f"the {half} 32 bits of fingerprints repeat, so they are not hashes, and {family.name} would call"
                " unlike sets equal; give gpulsh.fingerprint(sets)"
            )
