"""`gpulsh.MinHash`: signatures whose values agree between two documents with probability their Jaccard similarity."""

from __future__ import annotations

from dataclasses import dataclass

from gpulsh.params import SKETCHES, Family, FamilyName, check_choice
from gpulsh.sketch.set_sketch import SetSketch

MINHASH_FAMILIES = tuple(name for name, sketch in SKETCHES.items() if sketch == "minhash")


@dataclass(frozen=True, kw_only=True)
class MinHash(SetSketch):
    """Signatures of `num_perm` minima over a family of hash functions drawn from `seed`.

    Source: Broder 1997; the family `affine32` is h(x) = a x + b mod 2^32 on the upper half of a fingerprint.

    >>> from gpulsh.text.shingling import shingle
    >>> signatures = MinHash(num_perm=128, seed=1)(shingle(["a text", "A  text!"]), backend="cpu")
    >>> signatures.shape, bool((signatures[0] == signatures[1]).all())
    ((2, 128), True)
    """

    family: FamilyName = "affine32"

    @property
    def functions(self) -> Family:
        """What the backends make signatures by. ParameterError where a parameter is wrong."""
        check_choice("family", self.family, MINHASH_FAMILIES)
        return Family(name=self.family, num_perm=self.num_perm, seed=self.seed)
