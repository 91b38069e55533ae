"""Signatures of other libraries, bit for bit, so that users can continue from stored signatures.

Each sketch makes the same signatures as its library, on every backend. `gpulsh.Banding`, `jaccard` and
`candidate_pairs` take them, and stored ones, like gpulsh's own::

    stored = gpulsh.Signatures(np.array([minhash.hashvalues for minhash in minhashes], np.uint32))

In this type empty sets stay empty. datasketch keeps `legacy` as uint64: convert it. `affine64` needs np.uint64.

=============================  =====================================================================================
`DatasketchMinHash`            datasketch 2.0: `affine32`, `affine64`, and `legacy`, the only scheme of 1.x
`DatasketchWeightedMinHash`    datasketch 2.0: `WeightedMinHashGenerator`
`DatatroveMinHash`             datatrove 0.4 to 0.10, from words; `simplify_text` prepares a text as datatrove does
`TextDedupMinHash`             text-dedup 0.4
`NemoMinHash`                  NeMo Curator 1.4 with cuDF 26.10
`LanceMinHash`                 Lance: signature version 0 of its MinHash LSH index
`FastSketchLSH`                FastSketchLSH 1.0, from integers
=============================  =====================================================================================

A row without tokens is all ones here, as everywhere in gpulsh. rensa is left out: it changed its signatures in 0.4 and
in 0.5.
"""

from gpulsh.compat.schemes.datasketch import DatasketchMinHash, DatasketchWeightedMinHash
from gpulsh.compat.schemes.datatrove import DatatroveMinHash, simplify_text
from gpulsh.compat.schemes.lance import FastSketchLSH, LanceMinHash
from gpulsh.compat.schemes.nemo import NemoMinHash
from gpulsh.compat.schemes.text_dedup import TextDedupMinHash

__all__ = [
    "DatasketchMinHash",
    "DatasketchWeightedMinHash",
    "DatatroveMinHash",
    "FastSketchLSH",
    "LanceMinHash",
    "NemoMinHash",
    "TextDedupMinHash",
    "simplify_text",
]
