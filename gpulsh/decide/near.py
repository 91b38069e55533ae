"""Only documents whose bit signatures are near each other are duplicates: `also=` of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import Numbers
from gpulsh.backends.protocol import Backend
from gpulsh.decide.compare.shingled_texts import ShingledTexts
from gpulsh.decide.relation import Relation
from gpulsh.params import NearBits
from gpulsh.ragged import cuts, offsets
from gpulsh.sketch.bits.hamming import distances


@dataclass(frozen=True)
class NearRelation(Relation):
    """A relation that also asks for signatures, uint64 [v, words] by place, which differ in at most `distance` bits."""

    words: NDArray[np.uint64] = field(default_factory=lambda: np.empty((0, 1), np.uint64))
    places: Numbers = field(default_factory=lambda: np.empty(0, np.int64))  # of each document, by its number
    distance: int = 0

    def allows(self, earlier: Numbers, later: Numbers) -> NDArray[np.bool_]:
        """bool [m]: whether each later document may be dropped for the earlier one."""
        apart = distances(self.words[self.places[earlier]], self.words[self.places[later]])
        allowed: NDArray[np.bool_] = super().allows(earlier, later) & (apart <= self.distance)
        return allowed


def near_relation(
    relation: Relation, near: NearBits, texts: ShingledTexts, places: Numbers, ops: Backend
) -> NearRelation:
    """`relation`, and near each other; `texts` go by place, and `places` are those of documents, by number."""
    sizes, words = texts.text_sizes(), [np.empty((0, near.bits // 64), np.uint64)]
    for start, stop in cuts(offsets(sizes), ops.sizes().batch):
        words.append(ops.asnumpy(texts.simhash(np.arange(start, stop), near)))
    return NearRelation(**vars(relation), words=np.concatenate(words), places=places, distance=near.distance)
