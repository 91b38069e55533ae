"""`gpulsh.MinHash`: signatures whose values agree between two documents with probability their Jaccard similarity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from gpulsh.params import Family, MinHashFamily, check_choice
from gpulsh.sketch.sets.set_sketch import SetSketch


@dataclass(frozen=True, kw_only=True)
class MinHash(SetSketch):
    """Signatures of `num_perm` minima over a family of hash functions drawn from `seed`.

    ================  ======================================================  =====================================
    family            h(x), x a fingerprint, y its upper half
    ================  ======================================================  =====================================
    `affine32`        a y + b mod 2^32, a odd                                 the default: as theory says; fastest
    `affine61`        a x + b mod 2^61 - 1, a not 0; signatures are uint64    2-independent
    `multiply_shift`  the upper half of a x + b mod 2^64, a odd               Dietzfelbinger 1996
    `xor`             y, then y ^ mask                                        for study: errs more than theory says
    `tabulation`      the exclusive-or of a table's entries for y's bytes     Zobrist 1970; Patrascu, Thorup 2012
    ================  ======================================================  =====================================

    Masks keep a set's binary trie: under `xor` an element is the minimum with probability 2^-(the branchings on its way
    from the root), not 1 / |set|, so that its estimates are biased for a given set and deviate more than the others'.
    No other family shows a relative error beyond chance for random numbers, which fingerprints stand for; for numbers
    in arithmetic progression `affine32`, `affine61` and `multiply_shift` do, and `tabulation` hardly (by the record
    `families.md`, in `benchmarks/record`).
    Source: Broder, Charikar, Frieze, Mitzenmacher 2000, *Min-wise independent permutations*, a minimum of each; Broder
    1997, *On the resemblance and containment of documents*, estimates by one permutation, as `BottomS` does.
    Raises ParameterError for another `family`, `num_perm` outside 1 to 65,536 and `seed` outside 0 to 2^64 - 1.

    >>> from gpulsh.text.shingling import shingle
    >>> signatures = MinHash(num_perm=128, seed=1)(shingle(["a text", "A  text!"]), backend="cpu")
    >>> signatures.shape, bool((signatures[0] == signatures[1]).all())
    ((2, 128), True)

    Sets that are no texts come by `gpulsh.fingerprint`:

    >>> from gpulsh.text.sets import fingerprint
    >>> baskets = fingerprint([range(80), range(20, 100), range(100, 180)], backend="cpu")
    >>> sketch = MinHash(num_perm=1024)
    >>> sketch.estimate(sketch(baskets, backend="cpu"), [[0, 1], [0, 2]], backend="cpu").round(1)
    array([0.6, 0. ])
    """

    family: MinHashFamily = "affine32"

    @property
    def functions(self) -> Family:
        """What the backends make signatures by. ParameterError where a parameter is wrong."""
        check_choice("family", self.family, get_args(MinHashFamily))
        return Family(name=self.family, num_perm=self.num_perm, seed=self.seed)
