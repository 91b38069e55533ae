"""`gpulsh.compare`: methods on the user's own text, judged by brute force.

A finder makes sketches of texts, and candidate pairs of the sketches. Most sketches meet in bands. Hamming tables
search the bits of SimHash, Broder's samples are joined, and whole-document signatures are compared for equality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpulsh.arrays import Array, BandDigests, Fingerprints, Numbers, Samples, TextBatch, Values, on_host
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.checks import check_choice, check_type, known_keywords, plural, shown
from gpulsh.errors import InputError, ParameterError
from gpulsh.lsh.banding import Banding, Supershingles
from gpulsh.lsh.collisions import candidate_pairs
from gpulsh.lsh.hamming_tables import HammingTables
from gpulsh.lsh.pairs import pack_pairs
from gpulsh.lsh.similarity import jaccard
from gpulsh.method import Verify
from gpulsh.params import Folding, MinHashFamily, Shingling, text_reading
from gpulsh.ragged import sorted_distinct
from gpulsh.sketch.b_bit import BBit
from gpulsh.sketch.base import SetSketch, checked_pairs
from gpulsh.sketch.bits import hamming
from gpulsh.sketch.minhash import MinHash
from gpulsh.sketch.named import SETS, is_count, parse_bits, parse_sketch
from gpulsh.sketch.samples import BottomS, ModM, SampleSketch
from gpulsh.sketch.simhash import SimHash, Weights
from gpulsh.sketch.weighted import WeightedMinHash
from gpulsh.studies.study import SAMPLE, Backends, Options, Study, brute_force, draw_sample, fingerprints, shared_counts
from gpulsh.text.documents import shingle
from gpulsh.text.profiles import md5_signatures, text_profiles
from gpulsh.theory import checked_threshold, default_banding, default_distance, near_probability

BITS, ALIKE = 384, 355  # bits of all tokens, and the number of them that a pair shares (Henzinger 2006)


@dataclass(frozen=True)
class Finder:
    """A method: it makes sketches of texts, finds candidate pairs int64 [m, 2] of sketches, and may estimate pairs."""

    sketch: Callable[[TextBatch], Any]
    pairs: Callable[[Any], Array]
    estimate: Callable[[Any, Numbers], Array] | None = None
    size: Callable[[Any], int] = lambda sketches: sketches.values.nbytes  # bytes of all sketches


@dataclass(frozen=True)
class Finders:
    """Makes finders of pairs with a Jaccard similarity of `threshold` or more."""

    threshold: float
    seed: int
    options: Options

    @property
    def backend_options(self) -> Backends:
        """The backend that does the work."""
        return {"backend": self.options["backend"], "threads": self.options["threads"]}

    def named(self, name: str) -> Finder:
        """The finder of a NAME, with numbers as in `--sketch`. ParameterError if there is none."""
        name = name.replace("_", "-")
        kind, *numbers = name.split(":")
        if kind in SIMHASH:
            return self.simhash(name.replace(kind, "simhash", 1), SIMHASH[kind])
        if kind in SETS:
            return self.banded(parse_sketch(name, seed=self.seed, parameter="method"))
        if kind not in KINDS:
            names = sorted({*SETS, *KINDS, *(f"{name}[:BITS][:DISTANCE]" for name in SIMHASH)})
            raise ParameterError(f"there is no method {name!r}; give some of {', '.join(names)}")
        default, make = KINDS[kind]
        if len(numbers) > (default is not None) or not all(map(is_count, numbers)):
            allowed = kind if default is None else f"{kind} or {kind}:{default}"
            raise ParameterError(f"there is no method {name!r}; give {allowed}")
        return make(self, int(numbers[0]) if numbers else default or 0)

    def banded(self, sketch: SetSketch | WeightedMinHash) -> Finder:
        """The finder of documents whose signatures meet in a band."""
        banding, where = self._banding(sketch.num_perm), self.backend_options
        return Finder(
            lambda texts: sketch.from_texts(texts, **self.options),
            lambda signatures: candidate_pairs(banding(signatures, **where), **where),
            lambda signatures, pairs: sketch.estimate(signatures, pairs, **where),
        )

    def b_bit(self, bits: int) -> Finder:
        """MinHash of 128 values: digests of bands find pairs, and `bits` bits of each value estimate them."""
        minhash, where = MinHash(seed=self.seed), self.backend_options
        banding, b_bit = self._banding(minhash.num_perm), BBit(bits=bits, num_perm=minhash.num_perm)

        def sketch(texts: TextBatch) -> tuple[Any, BandDigests]:
            signatures = minhash.from_texts(texts, **self.options)
            return b_bit(signatures, **where), banding(signatures, **where)

        return Finder(
            sketch,
            lambda made: candidate_pairs(made[1], **where),
            lambda made, pairs: b_bit.estimate(made[0], pairs, **where),
            lambda made: made[0].values.nbytes + made[1].values.nbytes,
        )

    def _banding(self, num_perm: int) -> Banding:
        bands, rows = default_banding(num_perm, self.threshold)
        return Banding(bands=bands, rows=rows)

    def simhash(self, name: str, weights: Weights) -> Finder:
        """Pairs whose bits differ in at most the distance in `name`, or the default one for the threshold."""
        sketch, distance = parse_bits(name, self.seed)
        if distance is None:
            distance = default_distance(sketch.near(0), self.threshold, near_probability).distance
        sketch, tables = replace(sketch, weights=weights), HammingTables(bits=sketch.bits, distance=distance)
        return Finder(
            lambda texts: sketch.from_texts(texts, **self.options),
            lambda signatures: tables.pairs(signatures, **self.backend_options),
        )

    def supershingles(self) -> Finder:
        """Pairs that agree in two of six groups of signature values."""
        supershingles = Supershingles()
        minhash = MinHash(num_perm=supershingles.groups * supershingles.of, seed=self.seed)
        return Finder(
            lambda texts: minhash.from_texts(texts, **self.options),
            lambda signatures: supershingles(signatures, **self.backend_options),
            size=lambda signatures: len(signatures) * 8 * supershingles.groups,
        )

    def henzinger(self) -> Finder:
        """Pairs of supershingles whose SimHash of single words is near."""
        broder, simhash = self.supershingles(), SimHash(bits=BITS, weights="count", seed=self.seed)
        words = Shingling(size=1, symbols=self.options["shingling"].symbols).with_folding(self.options["folding"])
        how: Options = {**self.options, "shingling": words}

        def pairs(made: tuple[Any, Any]) -> Array:
            agreeing = broder.pairs(made[0])
            return agreeing[hamming(made[1], agreeing, **self.backend_options) <= BITS - ALIKE]

        return Finder(
            lambda texts: (broder.sketch(texts), simhash.from_texts(texts, **how)),
            pairs,
            size=lambda made: broder.size(made[0]) + made[1].values.nbytes,
        )

    def samples(self, sketch: SampleSketch) -> Finder:
        """Pairs that share a sampled fingerprint and have an estimate of the threshold or more."""

        def estimate(samples: Samples, pairs: Numbers) -> Values:
            return np.asarray(on_host(sketch.estimate(samples, pairs, **self.backend_options)))

        def pairs(samples: Samples) -> Array:
            sets = Fingerprints(on_host(samples.values), on_host(samples.offset))
            found, sizes = [np.empty((0, 2), np.int64)], sets.lengths
            for i, j, both in shared_counts(sets):
                # The sample of a union has as many values as either sample or more, and shares no more.
                may = both / np.maximum(sizes[i], sizes[j]) >= self.threshold
                some = np.stack([i[may], j[may]], axis=1)
                found.append(some[estimate(samples, some) >= self.threshold])
            return np.concatenate(found)

        return Finder(lambda texts: sketch.from_texts(texts, **self.options), pairs, estimate)

    def whole_documents(self, signatures: Callable[[TextBatch], Values]) -> Finder:
        """Pairs whose whole-document signatures are equal."""

        def pairs(words: Values) -> Array:
            found = on_host(candidate_pairs(BandDigests(words[:, :1]), **self.backend_options))
            return found[words[found[:, 0], 1] == words[found[:, 1], 1]]

        return Finder(lambda texts: signatures(texts).view(np.uint64), pairs, size=lambda words: words.nbytes)


def _minhash(family: MinHashFamily, made: Finders, num_perm: int) -> Finder:
    return made.banded(MinHash(num_perm=num_perm, seed=made.seed, family=family))


SIMHASH: dict[str, Weights] = {"simhash": "set", "simhash-count": "count", "simhash-idf": "idf"}
# By name: the default of its number, None if it takes no number, and the finder for a number.
KINDS: dict[str, tuple[int | None, Callable[[Finders, int], Finder]]] = {
    **{family.replace("_", "-"): (128, partial(_minhash, family)) for family in get_args(MinHashFamily)},
    "weighted-minhash": (128, lambda made, number: made.banded(WeightedMinHash(num_perm=number, seed=made.seed))),
    "b-bit": (1, lambda made, number: made.b_bit(number)),
    "bottom-s": (128, lambda made, number: made.samples(BottomS(size=number, seed=made.seed))),
    "mod-m": (16, lambda made, number: made.samples(ModM(modulus=number, seed=made.seed))),
    "supershingles": (None, lambda made, _: made.supershingles()),
    "henzinger": (None, lambda made, _: made.henzinger()),
    "md5": (None, lambda made, _: made.whole_documents(md5_signatures)),
    "text-profile": (None, lambda made, _: made.whole_documents(text_profiles)),
}


METHODS = ("minhash:128", "fast:128", "one-permutation:128", "c-minhash:128", "simhash:64")
WARM_UP = 8  # documents that each method does before the clock starts, so that its kernels are compiled


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
        pairs = f"{plural(self.similar, 'pair')} with a Jaccard similarity of {self.threshold:g} or more"
        return f"{self.drawn}, {pairs}"

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
    sample: int = SAMPLE,
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
    `henzinger`, which keeps pairs of supershingles whose SimHashes of words are close; `md5`; `text-profile`.

    Candidates share a band in the default banding for the threshold. Each of `verify` gives a row for each method: all
    candidates ("none"), candidates whose estimate reaches the threshold ("signature", if the method estimates the
    Jaccard similarity), or whose exact Jaccard similarity does ("exact"). Empty documents are in no pair. All
    candidates are held in memory, 16 bytes each.

    True pairs are the pairs in `truth`, int64 [m, 2], positions in `texts`. Without it, brute force finds all pairs of
    the sample with exact Jaccard similarity >= `threshold`. Returns a Comparison. Raises ParameterError and
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
            raise ParameterError(f"{parameter} is {shown(given)}; give a list of one or more names")
    for method in methods:
        check_type("a method", method, str)
    for one in verify:
        check_choice("verify", one, get_args(Verify))
    how: Options = {"shingling": shingling, "folding": folding, "backend": backend, "threads": threads}
    finders = Finders(threshold=threshold, seed=seed, options=how)
    chosen = {name: finders.named(name) for name in methods}
    drawn = draw_sample(texts, sample, seed)
    sets = fingerprints(drawn.texts, how)
    if truth is None:
        true = brute_force(sets, threshold)[1]
    else:
        true = checked_pairs(truth, drawn.documents, select_backend("cpu"), "truth")
        if (alone := true[true[:, 0] == true[:, 1], 0]).size:
            raise ParameterError(f"truth pairs row {alone[0]} with itself; leave such pairs out")
        true = drawn.pairs_in_sample(true)
    sought, filled = sorted_distinct(pack_pairs(*np.sort(true, axis=1).T)), sets.lengths > 0
    on, where = drawn.texts, finders.backend_options
    few = on.slice(0, min(WARM_UP, len(on)))  # so that kernels are compiled before the clock starts

    def rows_of(name: str, finder: Finder) -> Iterator[MethodOnText]:
        finder.pairs(finder.sketch(few))
        jaccard(shingle(few, **how), [[0, 0]] if len(few) else [], **where)
        began = perf_counter()
        sketches = finder.sketch(on)
        candidates: Numbers = on_host(finder.pairs(sketches))
        searched = perf_counter() - began
        candidates, size = candidates[filled[candidates].all(axis=1)], finder.size(sketches) / max(len(on), 1)
        for one in verify:
            began, found = perf_counter(), candidates
            if one == "exact":
                found = candidates[on_host(jaccard(shingle(on, **how), candidates, **where)) >= threshold]
            elif one == "signature":
                if finder.estimate is None:
                    continue
                found = candidates[on_host(finder.estimate(sketches, candidates)) >= threshold]
            seconds = searched + perf_counter() - began
            hits = int(np.isin(pack_pairs(*found.T), sought, assume_unique=True).sum())
            counts = len(candidates), len(found), hits
            yield MethodOnText(name, one, *counts, *_scores(len(found), hits, len(sought)), seconds, size)

    rows = tuple(row for name, finder in chosen.items() for row in rows_of(name, finder))
    return Comparison(drawn.documents, len(on), threshold, len(sought), rows)


def _scores(found: int, hits: int, sought: int) -> tuple[float | None, float | None, float | None]:
    """Precision, recall and F1: the harmonic mean of both, also if no found pair is true."""
    precision, recall = hits / found if found else None, hits / sought if sought else None
    return precision, recall, 2 * hits / (found + sought) if found and sought else None


PAIRS = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("i", "j")])


def read_pairs(path: str, threshold: float) -> Numbers:
    """The pairs `i`, `j` of a Parquet file, as positions in the corpus, with a `jaccard` of at least `threshold`.

    All pairs if it has no such column. Raises InputError if the file cannot be read so.
    """
    if not path:  # an unset variable of the shell; a Path would be the current folder
        raise InputError("truth is empty; give Parquet with the columns i and j")
    try:
        with pq.ParquetFile(Path(path)) as source:  # read_table would search a folder
            table = source.read()
        pairs = np.stack([column.to_numpy() for column in table.select(PAIRS.names).cast(PAIRS).columns], axis=1)
        if "jaccard" in table.column_names:
            pairs = pairs[table["jaccard"].to_numpy() >= threshold]
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give Parquet with the columns i and j") from None
    except (OSError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read as pairs: {error}; give Parquet with the columns i and j") from error
    return np.sort(pairs, axis=1)
