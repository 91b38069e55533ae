"""Every method that finds near-duplicates in texts, by its name.

A finder makes sketches of texts, and candidate pairs of the sketches. Most sketches meet in bands. Hamming tables
search the bits of SimHash, Broder's samples are joined, and whole-document signatures are compared for equality.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

import numpy as np

from gpulsh.arrays import Array, BandDigests, Fingerprints, Numbers, Samples, TextBatch, Values, on_host
from gpulsh.errors import ParameterError
from gpulsh.lsh.banding import Banding, Supershingles
from gpulsh.lsh.collisions import candidate_pairs
from gpulsh.lsh.hamming_tables import HammingTables
from gpulsh.params import MinHashFamily, Shingling
from gpulsh.sketch.b_bit import BBit
from gpulsh.sketch.base import SetSketch
from gpulsh.sketch.bits import hamming
from gpulsh.sketch.minhash import MinHash
from gpulsh.sketch.named import SETS, parse_bits, parse_sketch
from gpulsh.sketch.samples import BottomS, ModM, SampleSketch
from gpulsh.sketch.simhash import SimHash, Weights
from gpulsh.sketch.weighted import WeightedMinHash
from gpulsh.studies.study import How, Where, shared_counts
from gpulsh.text.profiles import md5_signatures, text_profiles
from gpulsh.theory import default_banding, default_distance, near_probability

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
    how: How

    @property
    def where(self) -> Where:
        """The backend that does the work."""
        return {"backend": self.how["backend"], "threads": self.how["threads"]}

    def named(self, name: str) -> Finder:
        """The finder of a NAME, with numbers as in `--sketch`. ParameterError if there is none."""
        name = name.replace("_", "-")
        kind, *numbers = name.split(":")
        if kind in SIMHASH:
            return self.simhash(name.replace(kind, "simhash", 1), SIMHASH[kind])
        if kind in SETS:
            return self.banded(parse_sketch(name, seed=self.seed))
        if kind not in KINDS:
            names = sorted({*SETS, *KINDS, *(f"{name}[:BITS][:DISTANCE]" for name in SIMHASH)})
            raise ParameterError(f"method is {name!r}; give names out of {', '.join(names)}")
        default, make = KINDS[kind]
        digits = all(number.isascii() and number.isdigit() and len(number) < 9 for number in numbers)
        if len(numbers) > (default is not None) or not digits:
            allowed = kind if default is None else f"{kind} or {kind}:{default}"
            raise ParameterError(f"method is {name!r}; give {allowed}")
        return make(self, int(numbers[0]) if numbers else default or 0)

    def banded(self, sketch: SetSketch | WeightedMinHash) -> Finder:
        """The finder of documents whose signatures meet in a band."""
        banding, where = self._banding(sketch.num_perm), self.where
        return Finder(
            lambda texts: sketch.from_texts(texts, **self.how),
            lambda signatures: candidate_pairs(banding(signatures, **where), **where),
            lambda signatures, pairs: sketch.estimate(signatures, pairs, **where),
        )

    def b_bit(self, bits: int) -> Finder:
        """MinHash of 128 values: digests of bands find pairs, and `bits` bits of each value estimate them."""
        minhash, where = MinHash(seed=self.seed), self.where
        banding, b_bit = self._banding(minhash.num_perm), BBit(bits=bits, num_perm=minhash.num_perm)

        def sketch(texts: TextBatch) -> tuple[Any, BandDigests]:
            signatures = minhash.from_texts(texts, **self.how)
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
            lambda texts: sketch.from_texts(texts, **self.how),
            lambda signatures: tables.pairs(signatures, **self.where),
        )

    def supershingles(self) -> Finder:
        """Pairs that agree in two of six groups of signature values."""
        supershingles = Supershingles()
        minhash = MinHash(num_perm=supershingles.groups * supershingles.of, seed=self.seed)
        return Finder(
            lambda texts: minhash.from_texts(texts, **self.how),
            lambda signatures: supershingles(signatures, **self.where),
            size=lambda signatures: len(signatures) * 8 * supershingles.groups,
        )

    def henzinger(self) -> Finder:
        """Pairs of supershingles whose SimHash of single words is near."""
        broder, simhash = self.supershingles(), SimHash(bits=BITS, weights="count", seed=self.seed)
        words = Shingling(size=1, symbols=self.how["shingling"].symbols).under(self.how["folding"])
        how: How = {**self.how, "shingling": words}

        def pairs(made: tuple[Any, Any]) -> Array:
            agreeing = broder.pairs(made[0])
            return agreeing[hamming(made[1], agreeing, **self.where) <= BITS - ALIKE]

        return Finder(
            lambda texts: (broder.sketch(texts), simhash.from_texts(texts, **how)),
            pairs,
            size=lambda made: broder.size(made[0]) + made[1].values.nbytes,
        )

    def samples(self, sketch: SampleSketch) -> Finder:
        """Pairs that share a sampled fingerprint and have an estimate of the threshold or more."""

        def estimate(samples: Samples, pairs: Numbers) -> Values:
            return np.asarray(on_host(sketch.estimate(samples, pairs, **self.where)))

        def pairs(samples: Samples) -> Array:
            sets = Fingerprints(on_host(samples.values), on_host(samples.offset))
            found, sizes = [np.empty((0, 2), np.int64)], sets.lengths
            for i, j, both in shared_counts(sets):
                # The sample of a union has as many values as either sample or more, and shares no more.
                may = both / np.maximum(sizes[i], sizes[j]) >= self.threshold
                some = np.stack([i[may], j[may]], axis=1)
                found.append(some[estimate(samples, some) >= self.threshold])
            return np.concatenate(found)

        return Finder(lambda texts: sketch.from_texts(texts, **self.how), pairs, estimate)

    def whole(self, signatures: Callable[[TextBatch], Values]) -> Finder:
        """Pairs whose whole-document signatures are equal."""

        def pairs(words: Values) -> Array:
            found = on_host(candidate_pairs(BandDigests(words[:, :1]), **self.where))
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
    "md5": (None, lambda made, _: made.whole(md5_signatures)),
    "text-profile": (None, lambda made, _: made.whole(text_profiles)),
}
