"""shingle_part: the sets whole, then the values of the part."""

from __future__ import annotations

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.reference.shingle import shingle
from gpulsh.backends.reference.unique import from_rows, rows_of
from gpulsh.params import Shingling
from gpulsh.secret import EvidenceKeys


def shingle_part(
    text: TextBatch, shingling: Shingling, part: int, parts: int, keys: EvidenceKeys | None = None
) -> Fingerprints:
    rows = [sorted(set(row.tolist())) for row in rows_of(shingle(text, shingling, keys))]
    return from_rows([x for x in row if (x * parts) >> 64 == part] for row in rows)
