"""`--key`: documents with equal values in a column are copies, before texts are compared.

For each value, the first document in decision order stays, and the others are dropped for it. Null and empty values
equal no other value. Values are compared by 128 bits of a hash whose key is secret (`backends.host`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers
from gpulsh.backends.host import keyed_hashes
from gpulsh.backends.protocol import Backend
from gpulsh.checks import check_type, shown
from gpulsh.decide.copies import with_key_copies
from gpulsh.decide.decision import Decision
from gpulsh.errors import ParameterError, option_name, refuse_given
from gpulsh.secret import EvidenceKeys
from gpulsh.stats.stages import Funnel

if TYPE_CHECKING:  # the functions that need pyarrow load it: lists of texts do not
    import pyarrow as pa


@dataclass(frozen=True)
class KeyRule:
    """A column whose values make documents copies."""

    column: str
    normalize_url: bool = False  # whether values are URLs, compared in canonical form
    only: bool = False  # whether no text is compared

    @classmethod
    def chosen(cls, key: str | None, normalize_url: bool, key_only: bool) -> KeyRule | None:
        """The rule for parameters; None without a key. ParameterError or BackendError if they cannot be used."""
        if not isinstance(key, (str, NoneType)) or key == "":
            raise ParameterError(f"key is {shown(key)}; give the name of a column")
        check_flags(key, normalize_url, key_only)
        return None if key is None else cls(key, normalize_url, key_only)

    def to_json(self) -> Mapping[str, Any]:
        """The parameters in a report."""
        return {"key": self.column, "normalize_url": self.normalize_url, "key_only": self.only}


def check_flags(key: object, normalize_url: bool, key_only: bool) -> None:
    """ParameterError for an option of a key without one, BackendError if the library for URLs is missing."""
    for name, flag in {"normalize_url": normalize_url, "key_only": key_only}.items():
        check_type(name, flag, bool)
        if flag and key is None:
            raise ParameterError(f"{option_name(name)} is given without --key; give --key")
    if normalize_url:
        from gpulsh.io.arrow.copy_keys import require_extra

        require_extra()


def refuse_with_key(others: Mapping[str, object]) -> None:
    """ParameterError for options that a key cannot combine with, if they are given."""
    # across: a copy may be of the INPUT that its first document is dropped for
    refuse_given(others, "--key and {} cannot be combined; leave one of them out")


def decide_by_key(documents: int, later: Array, first: Array, ops: Backend) -> Decision:
    """Decide about so many documents by their keys alone: `later` [c] are copies of `first` [c]."""
    place = ops.asarray(np.arange(documents))
    ones, none = np.ones_like(place, np.float32), place[:0]
    nothing = none.reshape(0, 2), none.astype(np.float32), place < 0
    funnel = Funnel(documents=documents, kept=documents)
    return with_key_copies(Decision(place >= 0, place, ones, place, *nothing, funnel), later, first, ops)


class KeyHashes:
    """Receives blocks of values, and keeps the hashes of values, in order; (0, 0) for null.

    One thread may add values while another takes them.
    """

    def __init__(self, keys: EvidenceKeys, normalize_url: bool = False) -> None:
        self._key, self._normalize = keys.of_values, normalize_url
        self._hashes = deque[NDArray[np.uint64]]()

    def append(self, values: pa.Array) -> None:
        """Add the next rows: a pyarrow.LargeBinaryArray of `io.arrow.copy_keys`."""
        from gpulsh.io.arrow.buffers import null_mask
        from gpulsh.io.arrow.copy_keys import bytes_and_offsets, normalized_urls

        found = normalized_urls(values) if self._normalize else values
        hashes, null = keyed_hashes(*bytes_and_offsets(found), self._key), null_mask(found)
        if null is not None:
            hashes[null] = 0
        self._hashes.append(hashes)

    def take(self, count: int) -> NDArray[np.uint64]:
        """uint64 [count, 2]: the hashes of the next rows, which have been added; they are not kept."""
        taken = [np.empty((0, 2), np.uint64)]
        while count:
            block = self._hashes.popleft()
            taken.append(block[:count])
            if count < len(block):
                self._hashes.appendleft(block[count:])
            count -= len(taken[-1])
        return np.concatenate(taken)

    def non_null(self) -> tuple[NDArray[np.uint64], Numbers]:
        """uint64 [m, 2], int64 [m]: the hashes of values that are not null, and the ascending rows that have them."""
        hashes = self.take(sum(map(len, self._hashes)))
        rows = np.flatnonzero(hashes.any(axis=1))
        return hashes[rows], rows
