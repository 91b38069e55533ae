"""sign and the text_ operations: one pass over text, the bits of its steps."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.arrays import TextBatch
from gpulsh.backends.protocol import Backend
from gpulsh.params import BandShape, Family, Shingling
from gpulsh.sketch.simhash import keys_of
from tests.backends.parity.agreement import agree, said
from tests.support.same import same
from tests.support.texts import KEYS, all_shinglings, any_text, word_shinglings


@settings(max_examples=15)
@given(any_text, st.one_of(all_shinglings, word_shinglings), st.integers(1, 20))
def test_any_text(ops: Backend, text: TextBatch, shingling: Shingling, columns: int) -> None:
    family, shape = Family(num_perm=columns), BandShape(bands=max(columns // 3, 1), rows=min(columns, 3))
    signed = agree(ops, "sign", text, shingling, family, shape, KEYS)
    signatures = agree(ops, "text_signatures", text, shingling, family)
    same(signed.digests, said("band_digests", signatures, shape))
    same(signed.exact, said("exact_hashes", text, shingling, KEYS))
    for distinct in (False, True):
        agree(ops, "text_simhash", text, shingling, keys_of(64, 1), distinct)
    counts = agree(ops, "text_frequencies", text, shingling, np.full(64, 250, np.uint8))
    for table, rare in itertools.product((counts, np.arange(16, dtype=np.uint8)), (0, 7, 252)):
        agree(ops, "text_prefixes", text, shingling, table, rare, 0.7, KEYS)
    sets = said("shingle_sets", text, shingling, KEYS)
    for known in (sets.slice(0, min(len(sets), 3)), sets.slice(0, 0)):
        agree(ops, "text_overlaps", text, shingling, known, KEYS)
