"""Chosen documents shingled again from their texts, as the comparing stages ask for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpulsh.arrays import Array, Fingerprints, Numbers, TextBatch
from gpulsh.decide.compare.readable import Readable
from gpulsh.io.normalize import normalized
from gpulsh.io.source import ChosenTexts
from gpulsh.method import Method
from gpulsh.params import NearBits
from gpulsh.ragged import end_to_end
from gpulsh.secret import EvidenceKeys
from gpulsh.sketch.bits.simhash import keys_of


@dataclass(frozen=True)
class ShingledTexts(Readable):
    """Documents of a choice of texts.

    Their fingerprints are evidence, under the secret keys `evidence`; public where the method asks for no proof, so
    that what it decides can be reproduced.
    """

    texts: ChosenTexts
    method: Method
    evidence: EvidenceKeys | None

    @property
    def keys(self) -> EvidenceKeys | None:
        """Those that fingerprints are computed under."""
        return self.evidence if self.method.verify == "exact" else None

    def text_sizes(self) -> Numbers:
        """int64 [places]: bytes of UTF-8."""
        return self.texts.sizes()[self.chosen]

    def fingerprints(self, places: Numbers) -> Fingerprints:
        """The unique fingerprints of the documents at `places` [m], in that order."""
        return self.ops.shingle_sets(self._batch(places), self.method.reading, self.keys)

    def fingerprints_by_range(self, places: Numbers, parts: int) -> Iterator[Fingerprints]:
        """The same in `parts` equal ranges of values, one after another; one text is held at a time."""
        for part in range(parts):
            one_by_one = (self._batch(places[at : at + 1]) for at in range(len(places)))
            asked = self.method.reading, part, parts, self.keys
            yield end_to_end([self.ops.shingle_part(one, *asked) for one in one_by_one])

    def simhash(self, places: Numbers, near: NearBits) -> Array:
        """uint64 [m, bits / 64]: SimHash signatures of the documents at `places`, of public fingerprints."""
        asked = self.method.reading, keys_of(near.bits, near.seed), near.weights == "set"
        return self.ops.text_simhash(self._batch(places), *asked)

    def frequencies(self, places: Numbers, counts: Array) -> Array:
        """`counts` plus those of the fingerprints of the documents at `places`."""
        return self.ops.text_frequencies(self._batch(places), self.method.reading, counts, self.keys)

    def prefixes(self, places: Numbers, counts: Array, rare: int, share: float) -> tuple[Fingerprints, Array]:
        """The prefixes of the documents at `places`, and how many fingerprints each has."""
        return self.ops.text_prefixes(self._batch(places), self.method.reading, counts, rare, share, self.keys)

    def overlaps(self, places: Numbers, known: Fingerprints) -> tuple[Array, Array]:
        """What the documents at `places` have in common with those `known`, and how many fingerprints each has."""
        return self.ops.text_overlaps(self._batch(places), self.method.reading, known, self.keys)

    def _batch(self, places: Numbers) -> TextBatch:
        return normalized(self.texts.take(self.chosen[places]), self.method.folding.form)
