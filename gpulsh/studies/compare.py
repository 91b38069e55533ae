"""`gpulsh.compare`: methods on the user's own text, judged by brute force."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gpulsh.arrays import Array, Numbers, TextBatch, on_host
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.errors import InputError, ParameterError
from gpulsh.lsh.pairs import packed
from gpulsh.lsh.similarity import jaccard
from gpulsh.method import Verify
from gpulsh.params import Folding, Shingling, check_choice, check_type, known_keywords, shown, text_reading
from gpulsh.ragged import sorted_distinct
from gpulsh.sketch.base import checked_pairs
from gpulsh.studies.methods import Finder, Finders
from gpulsh.studies.study import DEFAULT, How, Study, brute_force, draw_sample, fingerprints
from gpulsh.text.documents import shingle
from gpulsh.theory import checked_threshold

METHODS = ("minhash:128", "fast:128", "one-permutation:128", "c-minhash:128", "simhash:64")
WARM = 8  # documents that each method does before the clock starts, so that its kernels are compiled


@dataclass(frozen=True)
class MethodOnText:
    """The result of a method: its `found` pairs, verified as `verify` says; brute force finds `true` of them, too.

    `precision` is None if nothing is found, `recall` if there is nothing to find, `f1` if either is None.
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


@dataclass(frozen=True, repr=False, eq=False)
class Comparison(Study):
    """Methods on a sample that has `similar` pairs at or above the threshold."""

    threshold: float
    similar: int
    methods: tuple[MethodOnText, ...]

    def __str__(self) -> str:
        pairs = f"{self.similar:,} pairs with a Jaccard similarity of {self.threshold:g} or more"
        return f"{self.sample:,} of {self.documents:,} documents, {pairs}"

    def table(self) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
        """A row for each method and verification."""
        head = ("method", "verify", "pairs", "found", "precision", "recall", "F1", "seconds", "bytes")
        rows = []
        for row in self.methods:
            shares = ("" if share is None else f"{share:.4f}" for share in (row.precision, row.recall, row.f1))
            counts = f"{row.candidates:,}", f"{row.found:,}"
            rows.append((row.method, row.verify, *counts, *shares, f"{row.seconds:.3f}", f"{row.bytes:,.1f}"))
        return head, rows


@known_keywords
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
    """Run `methods` on a sample of `texts`, and count the pairs at or above `threshold` that each finds.

    `texts` is any kind that `deduplicate` takes. `sample` of them, from 2 to 65,536, are drawn by `seed`. Methods have
    the names of the option `--sketch`, such as "minhash:256" or "simhash:64:9". There are also `affine32`, `affine61`,
    `multiply-shift`, `xor`, `tabulation` and `weighted-minhash`, each with a number of values; `b-bit:BITS`;
    `bottom-s:SIZE`; `mod-m:MODULUS`; `simhash-count` and `simhash-idf` with bits and distance; `supershingles`;
    `henzinger`, which keeps pairs of supershingles whose SimHash of words is near; `md5`; `text-profile`.

    Signatures meet in the default banding for the threshold. Each of `verify` gives a row for each method: all
    candidates ("none"), candidates whose estimate reaches the threshold ("signature", if the method estimates the
    Jaccard similarity), or whose exact Jaccard similarity does ("exact"). Empty documents are in no pair. All
    candidates are held in memory, 16 bytes each.

    True pairs are all pairs of the sample with exact Jaccard similarity >= `threshold`, found by brute force, or the
    pairs in `truth`, int64 [m, 2], positions in `texts`. Returns a Comparison. Raises ParameterError and
    InputTypeError.

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
    drawn = draw_sample(texts, sample, seed)
    sets = fingerprints(drawn.texts, how)
    if truth is None:
        true = brute_force(sets, threshold)[1]
    else:
        true = drawn.places(checked_pairs(truth, drawn.documents, select_backend("cpu")))
    sought = sorted_distinct(packed(*np.sort(true, axis=1).T))
    rows = []
    for name, finder in chosen.items():
        for one, candidates, found, seconds, size in _found(finder, verify, drawn.texts, sets.lengths > 0, finders):
            hits = int(np.isin(packed(*found.T), sought, assume_unique=True).sum())
            precision = hits / len(found) if len(found) else None
            recall = hits / len(sought) if len(sought) else None
            # The harmonic mean, also if no found pair is true.
            f1 = None if precision is None or recall is None else 2 * hits / (len(found) + len(sought))
            rows.append(MethodOnText(name, one, candidates, len(found), hits, precision, recall, f1, seconds, size))
    return Comparison(drawn.documents, len(drawn.texts), threshold, len(sought), tuple(rows))


def read_pairs(path: str, threshold: float) -> Numbers:
    """The pairs `i`, `j` of a Parquet file, as positions in the corpus, with a `jaccard` of at least `threshold`.

    All pairs if it has no such column. Raises InputError if the file cannot be read so.
    """
    try:
        table = pq.read_table(Path(path))
        pairs = np.stack([table[name].to_numpy() for name in ("i", "j")], axis=1).astype(np.int64)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give Parquet with the columns i and j") from None
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read as pairs: {error}; give Parquet with the columns i and j") from error
    if "jaccard" in table.column_names:
        pairs = pairs[table["jaccard"].to_numpy() >= threshold]
    return np.sort(pairs, axis=1)


def _found(
    finder: Finder, verify: Sequence[Verify], texts: TextBatch, filled: NDArray[np.bool_], finders: Finders
) -> Iterator[tuple[Verify, int, Numbers, float, float]]:
    """For each verification that the method has: the number of candidates, the found pairs, seconds and bytes.

    `filled` bool [n] says whether a text has a shingle.
    """
    how, where, threshold = finders.how, finders.where, finders.threshold
    few = texts.slice(0, min(WARM, len(texts)))
    finder.pairs(finder.sketch(few))
    jaccard(shingle(few, **how), [[0, 0]] if len(few) else [], **where)
    began = perf_counter()
    sketches = finder.sketch(texts)
    candidates: Numbers = on_host(finder.pairs(sketches))
    searched = perf_counter() - began
    candidates = candidates[filled[candidates].all(axis=1)]
    for one in verify:
        began = perf_counter()
        found = candidates
        if one == "exact":
            found = candidates[on_host(jaccard(shingle(texts, **how), candidates, **where)) >= threshold]
        elif one == "signature":
            if finder.estimate is None:
                continue
            found = candidates[on_host(finder.estimate(sketches, candidates)) >= threshold]
        seconds = searched + perf_counter() - began
        yield one, len(candidates), found, seconds, finder.size(sketches) / max(len(texts), 1)
