"""`gpulsh.compare`: methods side by side on the user's own text, judged by brute force."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers, TextBatch, on_host
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.display import html_table
from gpulsh.errors import ParameterError
from gpulsh.lsh.pairs import distinct, packed
from gpulsh.lsh.similarity import jaccard
from gpulsh.method import Verify
from gpulsh.params import Folding, Shingling, check_choice, check_type, shown, text_reading
from gpulsh.sketch.base import checked_pairs
from gpulsh.studies.brute_force import brute_force
from gpulsh.studies.corpus import DEFAULT, draw_sample
from gpulsh.studies.methods import Finder, Finders, How, Where
from gpulsh.text.documents import shingle
from gpulsh.theory import checked_threshold

METHODS = ("minhash:128", "fast:128", "one-permutation:128", "c-minhash:128", "simhash:64")
HEAD = ("method", "verify", "pairs", "found", "precision", "recall", "F1", "seconds", "bytes")
WARM = 8  # documents that each method does before the clock runs, so that its kernels are there


@dataclass(frozen=True)
class MethodOnText:
    """How a method did: its `found` pairs, verified as `verify` says, of which `true` are pairs by brute force.

    `precision` is None where nothing is found, `recall` where nothing is to be found, `f1` where one of both is None.
    """

    method: str
    verify: Verify
    candidates: int
    found: int
    true: int
    precision: float | None
    recall: float | None
    f1: float | None
    seconds: float  # from text to found pairs
    bytes: float  # of the sketch of a document

    def told(self) -> tuple[str, ...]:
        """What stands under each of HEAD, as people read it."""
        shares = ("" if share is None else f"{share:.4f}" for share in (self.precision, self.recall, self.f1))
        counts = f"{self.candidates:,}", f"{self.found:,}"
        return self.method, self.verify, *counts, *shares, f"{self.seconds:.3f}", f"{self.bytes:,.1f}"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Methods on a sample of `sample` of `documents` documents, of which `similar` pairs reach the threshold."""

    documents: int
    sample: int
    threshold: float
    similar: int
    methods: tuple[MethodOnText, ...]

    def __str__(self) -> str:
        return (
            f"{self.sample:,} of {self.documents:,} documents, {self.similar:,} pairs with a Jaccard similarity of"
            f" {self.threshold:g} or more"
        )

    def __repr__(self) -> str:
        return f"Comparison({len(self.methods)} rows: {self})"

    def _repr_html_(self) -> str:
        return html_table(str(self), HEAD, (row.told() for row in self.methods))

    def facts(self) -> dict[str, Any]:
        """As JSON values."""
        return {**vars(self), "methods": [asdict(method) for method in self.methods]}


def compare(
    texts: object,
    methods: Sequence[str] = METHODS,
    *,
    verify: Sequence[Verify] = ("none", "exact"),
    threshold: float = 0.8,
    sample: int = DEFAULT,
    truth: Array | None = None,
    shingling: Shingling | str | None = None,
    folding: Folding | None = None,
    seed: int = 1,
    backend: BackendName = "auto",
    threads: int | None = None,
) -> Comparison:
    """Run `methods` on a sample of `texts`, and count which of the pairs at or above `threshold` each finds.

    `texts` is any kind that `deduplicate` takes, or files, as `gpulsh.studies.corpus.open_corpus` gives them; `sample`
    of them, from 2 to 65,536, are drawn by `seed`. Methods are named as `--sketch` names them, as "minhash:256" or
    "simhash:64:9", or are `affine32`, `affine61`, `multiply-shift`, `xor`, `tabulation` and `weighted-minhash`, each
    with a number of values; `b-bit:BITS`; `bottom-s:SIZE`; `mod-m:MODULUS`; `simhash-count` and `simhash-idf` with bits
    and distance; `supershingles`; `henzinger`, which are those whose SimHash of words is near, too; `md5`;
    `text-profile`.

    Signatures meet in the default banding for the threshold. For each of `verify` a method has a row: candidates are
    found as they are ("none"), where their estimate reaches the threshold ("signature", of methods that estimate the
    Jaccard similarity), or where the exact Jaccard similarity does ("exact"). Empty documents are in no pair. All
    candidates are held at once, in 16 bytes each.

    True are all pairs of the sample with exact Jaccard similarity >= `threshold`, by brute force, or those of `truth`,
    int64 [m, 2], positions in `texts`, where it is given. Returns a Comparison, a row a method and verification.
    Raises ParameterError and InputTypeError.

    >>> texts = [
    ...     "one two three four five six",
    ...     "One, two, three four five six!",
    ...     "seven eight nine ten eleven",
    ... ]
    >>> found = compare(texts, ["minhash:64", "md5"], verify=["none"], backend="cpu")
    >>> [(row.method, row.found, row.recall, row.bytes) for row in found.methods]
    [('minhash:64', 1, 1.0, 256.0), ('md5', 0, 0.0, 16.0)]
    """
    shingling, folding = text_reading(shingling, folding)
    threshold = checked_threshold(threshold)
    for parameter, given in (("methods", methods), ("verify", verify)):
        if not isinstance(given, Sequence) or isinstance(given, str) or not given:
            raise ParameterError(f"{parameter} is {shown(given)}; give a list of names, not empty")
    for method in methods:
        check_type("a method", method, str)
    for one in verify:
        check_choice("verify", one, get_args(Verify))
    how: How = {"shingling": shingling, "folding": folding, "backend": backend, "threads": threads}
    finders = Finders(threshold=threshold, seed=seed, how=how)
    chosen = {name: finders.named(name) for name in methods}
    ops = select_backend(backend, threads=threads)
    drawn = draw_sample(texts, sample, seed)
    with ops.here():
        sets = ops.unique(shingle(drawn.texts, **how)).moved(ops.asnumpy)
    if truth is None:
        true = brute_force(sets, threshold)[1]
    else:
        true = drawn.places(checked_pairs(truth, drawn.documents, select_backend("cpu")))
    sought = distinct(packed(*np.sort(true, axis=1).T))
    judge = _Judge(drawn.texts, sets.lengths > 0, sought, threshold, how, finders.where)
    rows = [row for name, finder in chosen.items() for row in judge.rows(name, finder, verify)]
    return Comparison(drawn.documents, len(drawn.texts), threshold, len(sought), tuple(rows))


@dataclass(frozen=True, eq=False)
class _Judge:
    """Runs methods on the texts, some of which are not `filled` (bool [n]), beside the packed `true` pairs [m]."""

    texts: TextBatch
    filled: NDArray[np.bool_]
    true: NDArray[np.uint64]
    threshold: float
    how: How
    where: Where

    def rows(self, name: str, finder: Finder, verify: Sequence[Verify]) -> Iterator[MethodOnText]:
        """A row for each verification that the method knows."""
        few = self.texts.slice(0, min(WARM, len(self.texts)))
        finder(few).pairs()
        jaccard(shingle(few, **self.how), [[0, 0]] if len(few) else [], **self.where)
        began = perf_counter()
        sketched = finder(self.texts)
        candidates: Numbers = on_host(sketched.pairs())
        searched = perf_counter() - began
        candidates = candidates[self.filled[candidates].all(axis=1)]
        for one in verify:
            began = perf_counter()
            if one == "exact":
                sets = shingle(self.texts, **self.how)
                found = candidates[on_host(jaccard(sets, candidates, **self.where)) >= self.threshold]
            elif one == "none":
                found = candidates
            elif sketched.estimate is None:
                continue
            else:
                found = candidates[on_host(sketched.estimate(candidates)) >= self.threshold]
            seconds = searched + perf_counter() - began
            yield self._row(name, one, len(candidates), found, seconds, sketched.size)

    def _row(
        self, name: str, verify: Verify, candidates: int, found: Numbers, seconds: float, size: int
    ) -> MethodOnText:
        true = int(np.isin(packed(*found.T), self.true, assume_unique=True).sum())
        precision = true / len(found) if len(found) else None
        recall = true / len(self.true) if len(self.true) else None
        # Of both the harmonic mean, also where nothing of what was found is true.
        f1 = None if precision is None or recall is None else 2 * true / (len(found) + len(self.true))
        counts = candidates, len(found), true
        return MethodOnText(name, verify, *counts, precision, recall, f1, seconds, size / max(len(self.texts), 1))
