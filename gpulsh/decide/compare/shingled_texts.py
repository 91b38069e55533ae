"""Chosen documents shingled again from their texts, as the comparing stages ask for them."""

from __future__ import annotations

from collections.abc import Iterator

from gpulsh.arrays import Array, Fingerprints, Numbers, TextBatch
from gpulsh.backends.protocol import Backend
from gpulsh.io.normalize import normalized
from gpulsh.io.source import ChosenTexts
from gpulsh.method import Method
from gpulsh.secret import EvidenceKeys
from gpulsh.text.shingling import concatenated


class ShingledTexts:
    """`decide.compare.comparison.Readable` over a choice of documents; `places` [m] renumbers them.

    Their fingerprints are evidence, under secret `keys`; public where the method asks for no proof, so that what it
    decides can be reproduced.
    """

    def __init__(
        self, texts: ChosenTexts, places: Numbers, method: Method, keys: EvidenceKeys | None, ops: Backend
    ) -> None:
        self._texts, self._places, self._method, self._ops = texts, places, method, ops
        self._keys = keys if method.verify == "exact" else None

    def on(self, ops: Backend) -> ShingledTexts:
        """The same documents, shingled by another backend."""
        return ShingledTexts(self._texts, self._places, self._method, self._keys, ops)

    def renumbered(self, places: Numbers) -> ShingledTexts:
        """The same documents by other numbers: new place i is place `places[i]` here."""
        return ShingledTexts(self._texts, self._places[places], self._method, self._keys, self._ops)

    def sizes(self) -> Numbers:
        """int64 [places]: bytes of UTF-8."""
        return self._texts.sizes()[self._places]

    def fingerprints(self, places: Numbers) -> Fingerprints:
        """The unique fingerprints of the documents at `places` [m], in that order."""
        return self._ops.shingle_sets(self._batch(places), self._method.shingling, self._keys)

    def fingerprints_by_range(self, places: Numbers, parts: int) -> Iterator[Fingerprints]:
        """The same in `parts` equal ranges of values, one after another; one text is held at a time."""
        for part in range(parts):
            one_by_one = (self._batch(places[at : at + 1]) for at in range(len(places)))
            asked = self._method.shingling, part, parts, self._keys
            yield concatenated([self._ops.shingle_part(one, *asked) for one in one_by_one])

    def frequencies(self, places: Numbers, counts: Array) -> Array:
        """`counts` plus those of the fingerprints of the documents at `places`."""
        return self._ops.text_frequencies(self._batch(places), self._method.shingling, counts, self._keys)

    def prefixes(self, places: Numbers, counts: Array, rare: int, share: float) -> tuple[Fingerprints, Array]:
        """The prefixes of the documents at `places`, and how many fingerprints each has."""
        return self._ops.text_prefixes(self._batch(places), self._method.shingling, counts, rare, share, self._keys)

    def _batch(self, places: Numbers) -> TextBatch:
        return normalized(self._texts.take(self._places[places]), self._method.folding.form)
