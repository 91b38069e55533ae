"""What can be compared: every method that finds near-duplicates in texts, by its name.

A finder makes sketches of texts, and candidate pairs of the sketches. Most meet in bands; the bits of SimHash are
searched by Hamming tables, Broder's samples are joined, and whole-document signatures are equal or are not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypedDict, cast, get_args

import numpy as np

from gpulsh.arrays import Array, BandDigests, Fingerprints, Numbers, TextBatch, Values, on_host
from gpulsh.backends.select import BackendName
from gpulsh.errors import ParameterError
from gpulsh.lsh.banding import Banding, Supershingles
from gpulsh.lsh.collisions import candidate_pairs
from gpulsh.lsh.hamming_tables import HammingTables
from gpulsh.params import Folding, MinHashFamily, Shingling
from gpulsh.sketch.b_bit import BBit
from gpulsh.sketch.base import SetSketch
from gpulsh.sketch.bits import hamming
from gpulsh.sketch.minhash import MinHash
from gpulsh.sketch.named import parse_bits, parse_sketch, sketch_names
from gpulsh.sketch.samples import BottomS, ModM, SampleSketch
from gpulsh.sketch.simhash import SimHash, Weights
from gpulsh.sketch.weighted import WeightedMinHash
from gpulsh.studies.brute_force import shared_counts
from gpulsh.text.profiles import md5_signatures, text_profiles
from gpulsh.theory import default_banding, default_distance, near_probability

BITS, ALIKE = 384, 355  # bits of all tokens, and how many of them a pair of supershingles shares (Henzinger 2006)


class Where(TypedDict):
    """Who does the work."""

    backend: BackendName
    threads: int | None


class How(Where):
    """And how texts are read."""

    shingling: Shingling
    folding: Folding


@dataclass(frozen=True)
class Sketched:
    """Sketches of texts: their bytes, their candidate pairs int64 [m, 2], and their estimate of pairs' similarity."""

    size: int
    pairs: Callable[[], Array]
    estimate: Callable[[Numbers], Array] | None = None


Finder = Callable[[TextBatch], Sketched]


@dataclass(frozen=True)
class Finders:
    """Makes finders of pairs with a Jaccard similarity of `threshold` or more."""

    threshold: float
    seed: int
    how: How

    @property
    def where(self) -> Where:
        """Who does the work."""
        return {"backend": self.how["backend"], "threads": self.how["threads"]}

    def named(self, name: str) -> Finder:
        """That of a NAME, with numbers as `--sketch` takes them. ParameterError where there is none."""
        name = name.replace("_", "-")
        kind, *numbers = name.split(":")
        if kind in SIMHASH:
            return self.simhash(name.replace(kind, "simhash", 1), SIMHASH[kind])
        if kind in sketch_names():
            return self.banded(parse_sketch(name, seed=self.seed))
        if kind not in KINDS:
            raise ParameterError(f"method is {name!r}; give names out of {', '.join(method_names())}")
        default, make = KINDS[kind]
        digits = all(number.isascii() and number.isdigit() and len(number) < 9 for number in numbers)
        if len(numbers) > (default is not None) or not digits:
            allowed = kind if default is None else f"{kind} or {kind}:{default}"
            raise ParameterError(f"method is {name!r}; give {allowed}")
        return make(self, int(numbers[0]) if numbers else default or 0)

    def banded(self, sketch: SetSketch | WeightedMinHash) -> Finder:
        """Signatures that meet in a band."""
        bands, rows = default_banding(sketch.num_perm, self.threshold)
        banding, where = Banding(bands=bands, rows=rows), self.where

        def find(texts: TextBatch) -> Sketched:
            signatures = sketch.from_texts(texts, **self.how)
            return Sketched(
                signatures.values.nbytes,
                lambda: candidate_pairs(banding(signatures, **where), **where),
                lambda pairs: sketch.estimate(signatures, pairs, **where),
            )

        return find

    def b_bit(self, bits: int) -> Finder:
        """MinHash of 128 values in bands, whose digests find, and `bits` bits of each value, which estimate."""
        minhash, where = MinHash(seed=self.seed), self.where
        bands, rows = default_banding(minhash.num_perm, self.threshold)
        banding, b_bit = Banding(bands=bands, rows=rows), BBit(bits=bits, num_perm=minhash.num_perm)

        def find(texts: TextBatch) -> Sketched:
            signatures = minhash.from_texts(texts, **self.how)
            packed, digests = b_bit(signatures, **where), banding(signatures, **where)
            return Sketched(
                packed.values.nbytes + digests.values.nbytes,
                lambda: candidate_pairs(digests, **where),
                lambda pairs: b_bit.estimate(packed, pairs, **where),
            )

        return find

    def simhash(self, name: str, weights: Weights) -> Finder:
        """Pairs whose bits differ in at most the distance that `name` says, or that suits the threshold."""
        sketch, distance = parse_bits(name, self.seed)
        if distance is None:
            distance = default_distance(sketch.near(0), self.threshold, near_probability).distance
        sketch, tables = replace(sketch, weights=weights), HammingTables(bits=sketch.bits, distance=distance)

        def find(texts: TextBatch) -> Sketched:
            signatures = sketch.from_texts(texts, **self.how)
            return Sketched(signatures.values.nbytes, lambda: tables.pairs(signatures, **self.where))

        return find

    def supershingles(self) -> Finder:
        """Pairs of which two of six groups of signature values agree."""
        supershingles = Supershingles()
        minhash = MinHash(num_perm=supershingles.groups * supershingles.of, seed=self.seed)

        def find(texts: TextBatch) -> Sketched:
            signatures = minhash.from_texts(texts, **self.how)
            size = len(signatures) * 8 * supershingles.groups
            return Sketched(size, lambda: supershingles(signatures, **self.where))

        return find

    def henzinger(self) -> Finder:
        """Of the pairs of supershingles those whose SimHash of all words, however they are shingled, is near."""
        supershingles, simhash = self.supershingles(), SimHash(bits=BITS, weights="count", seed=self.seed)
        words = Shingling(size=1, symbols=self.how["shingling"].symbols).under(self.how["folding"])
        how: How = {**self.how, "shingling": words}

        def find(texts: TextBatch) -> Sketched:
            found, bits = supershingles(texts), simhash.from_texts(texts, **how)

            def pairs() -> Array:
                agreeing = found.pairs()
                return agreeing[hamming(bits, agreeing, **self.where) <= BITS - ALIKE]

            return Sketched(found.size + bits.values.nbytes, pairs)

        return find

    def samples(self, sketch: SampleSketch) -> Finder:
        """Pairs that share a sampled fingerprint and have an estimate of the threshold or more."""

        def find(texts: TextBatch) -> Sketched:
            samples = sketch.from_texts(texts, **self.how)
            sets = Fingerprints(on_host(samples.values), on_host(samples.offset))

            def pairs() -> Array:
                found, sizes = [np.empty((0, 2), np.int64)], sets.lengths
                for i, j, both in shared_counts(sets):
                    # The sample of a union has no fewer values than that of either, and shares no more.
                    may = both / np.maximum(sizes[i], sizes[j]) >= self.threshold
                    some = np.stack([i[may], j[may]], axis=1)
                    found.append(some[estimate(some) >= self.threshold])
                return np.concatenate(found)

            def estimate(pairs: Numbers) -> Values:
                return cast(Values, on_host(sketch.estimate(samples, pairs, **self.where)))

            return Sketched(sets.values.nbytes, pairs, estimate)

        return find

    def whole(self, signatures: Callable[[TextBatch], Values]) -> Finder:
        """Pairs whose whole-document signatures are equal."""

        def find(texts: TextBatch) -> Sketched:
            words = signatures(texts).view(np.uint64)

            def pairs() -> Array:
                found = on_host(candidate_pairs(BandDigests(words[:, :1]), **self.where))
                return found[words[found[:, 0], 1] == words[found[:, 1], 1]]

            return Sketched(words.nbytes, pairs)

        return find


def _minhash(family: MinHashFamily, made: Finders, num_perm: int) -> Finder:
    return made.banded(MinHash(num_perm=num_perm, seed=made.seed, family=family))


SIMHASH: dict[str, Weights] = {"simhash": "set", "simhash-count": "count", "simhash-idf": "idf"}
# The number that a name may be given, where nothing is said; None where it takes none.
KINDS: dict[str, tuple[int | None, Callable[[Finders, int], Finder]]] = {
    **{family.replace("_", "-"): (128, partial(_minhash, family)) for family in get_args(MinHashFamily)},
    "weighted-minhash": (128, lambda made, number: made.banded(WeightedMinHash(num_perm=number, seed=made.seed))),
    "b-bit": (1, lambda made, number: made.b_bit(number)),
    "bottom-s": (128, lambda made, number: made.samples(BottomS(size=number, seed=made.seed))),
    "mod-m": (16, lambda made, number: made.samples(ModM(modulus=number, seed=made.seed))),
    "supershingles": (None, lambda made, _: made.supershingles()),
    "henzinger": (None, lambda made, _: made.henzinger()),
    "md5": (None, lambda made, _: made.whole(md5_signatures)),
    "text-profile": (None, lambda made, _: made.whole(text_profiles)),
}


def method_names() -> list[str]:
    """All names, ascending, with the form of those that need more."""
    forms = (f"{name}[:BITS][:DISTANCE]" for name in SIMHASH)
    return sorted({*sketch_names(), *KINDS, *forms})
