"""Operations on text by shinglings that no pass of a backend makes at once: from tokens, step by step.

Each function is the operation of its name in `protocol`, on arrays of NumPy or CuPy. A document is held whole, with its
tokens and fingerprints, for what occurs again in it may stand anywhere: 16 bytes a token and the sort of the labels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from gpulsh.arrays import Array, Fingerprints, Signed, TextBatch
from gpulsh.backends.chosen_tokens import chosen_tokens
from gpulsh.backends.mixing import mixed
from gpulsh.backends.overlaps import overlaps_with
from gpulsh.backends.parts import halves_of_batch, in_fitting_halves, in_part
from gpulsh.backends.prefix_lengths import lengths_with_rare
from gpulsh.backends.protocol import GOLDEN, Backend, sketched
from gpulsh.backends.rolling import rolled
from gpulsh.params import BandShape, Family, Shingling
from gpulsh.ragged import first_of_runs, offsets
from gpulsh.secret import EvidenceKeys

Operation = TypeVar("Operation", bound=Callable[..., Any])


def or_in_steps(operation: Operation) -> Operation:
    """A backend's method, or the function of its name here where the shingling is not for one pass."""
    in_steps = globals()[operation.__name__]

    @wraps(operation)
    def run(self: Backend, text: TextBatch, shingling: Shingling, *given: Any, **named: Any) -> Any:
        if shingling.in_one_pass:
            return operation(self, text, shingling, *given, **named)
        with self.here():
            return in_steps(self, text, shingling, *given, **named)

    return cast(Operation, run)


def shingle(ops: Backend, text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None = None) -> Fingerprints:
    """Under `keys`, too."""
    return _labelled(_fingerprints(ops, text, shingling, keys), shingling)


def shingle_sets(ops: Backend, text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None = None) -> Fingerprints:
    """The op."""
    return ops.unique(shingle(ops, text, shingling, keys))


def shingle_part(
    ops: Backend, text: TextBatch, shingling: Shingling, part: int, parts: int, keys: EvidenceKeys | None = None
) -> Fingerprints:
    """The op."""
    whole = _fingerprints(ops, text, shingling, keys)
    inside = in_part(whole.values, part, parts)
    return ops.unique(_labelled(Fingerprints(whole.values[inside], offsets(inside)[whole.offset]), shingling))


def text_frequencies(
    ops: Backend, text: TextBatch, shingling: Shingling, counts: Array, keys: EvidenceKeys | None = None
) -> Array:
    """The op."""
    return ops.frequencies(shingle(ops, text, shingling, keys), counts)


def text_prefixes(
    ops: Backend,
    text: TextBatch,
    shingling: Shingling,
    counts: Array,
    rare: int,
    share: float,
    keys: EvidenceKeys | None = None,
) -> tuple[Fingerprints, Array]:
    """The op."""
    sets = shingle_sets(ops, text, shingling, keys)
    return ops.prefixes(sets, counts, lengths_with_rare(sets, counts, rare, share)), sets.lengths


def text_overlaps(
    ops: Backend, text: TextBatch, shingling: Shingling, known: Fingerprints, keys: EvidenceKeys | None = None
) -> tuple[Array, Array]:
    """The op."""
    sets = shingle_sets(ops, text, shingling, keys)
    return overlaps_with(known, sets, ops), sets.lengths


def text_simhash(ops: Backend, text: TextBatch, shingling: Shingling, keys: Array, distinct: bool) -> Array:
    """The op."""
    fingerprints = shingle(ops, text, shingling)
    return ops.simhash(ops.unique(fingerprints) if distinct else fingerprints, keys)


def text_signatures(ops: Backend, text: TextBatch, shingling: Shingling, family: Family) -> Array:
    """The op."""
    return sketched(ops, shingle(ops, text, shingling), family)


def sign(
    ops: Backend, text: TextBatch, shingling: Shingling, family: Family, shape: BandShape, keys: EvidenceKeys
) -> Signed:
    """The op, of halves of a batch that does not fit a device."""

    def whole(part: TextBatch) -> Signed:
        fingerprints = shingle(ops, part, shingling)
        digests = ops.band_digests(sketched(ops, fingerprints, family), shape)
        return Signed(digests, ops.exact_hashes(part, shingling, keys), fingerprints.lengths)

    signed = [found for _, found in in_fitting_halves(text, whole, halves_of_batch)]
    if len(signed) == 1:
        return signed[0]
    return Signed(
        *map(np.concatenate, zip(*((part.digests, part.exact, part.shingles) for part in signed), strict=True))
    )


def _fingerprints(ops: Backend, text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None) -> Fingerprints:
    """Those of all shingles, before their labels."""
    tokens = chosen_tokens(ops, text, shingling, keys) if shingling.by_words else ops.tokens(text, shingling, keys)
    if shingling.hash == "mix64":
        return ops.shingles(tokens, shingling.size, keys)
    return rolled(tokens, shingling, keys)


def _labelled(fingerprints: Fingerprints, shingling: Shingling) -> Fingerprints:
    if not shingling.labels or len(fingerprints.values) == 0:
        return fingerprints
    values, offset = fingerprints.values, fingerprints.offset
    places = np.arange(len(values), dtype=np.int64, like=values)
    row = np.searchsorted(offset, places, side="right")
    order = np.argsort(values, kind="stable")
    order = order[np.argsort(row[order], kind="stable")]
    values, row = values[order], row[order]
    begins = first_of_runs(values) | first_of_runs(row)
    label = (places - np.flatnonzero(begins)[np.cumsum(begins) - 1]).astype(np.uint64)
    found = np.empty_like(values)
    found[order] = np.where(label > 0, mixed(values + label * np.uint64(GOLDEN)), values)
    return Fingerprints(found, offset)
