"""The memory of single parts does not grow with the input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpulsh.arrays import Signed
from gpulsh.backends.cpu import CpuBackend
from gpulsh.io.columns import Columns
from gpulsh.io.files.file_texts import FileTexts, PartitionFacts, Piece
from gpulsh.io.files.inputs import find_files
from gpulsh.run.stages import sign
from tests.support.traced import at_most


def test_of_short_documents_little_is_known(tmp_path: Path) -> None:
    """Of a file that cannot be read apart it is known of all, until the end."""
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a b"}\n' * 10_000)
    facts = PartitionFacts()
    texts = FileTexts(find_files([str(tmp_path / "a.jsonl")]), Columns(text="text"))
    assert sum(map(len, texts.read([Piece(0, None)], 1 << 20, facts))) == 10_000
    assert sum(map(len, facts.sizes)) == 10_000 and sum(sizes.nbytes for sizes in facts.sizes) == 10_000


def test_what_is_held_of_signed_rows_does_not_depend_on_bands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One band has few digests a row, and an exact hash and a number as every other."""
    monkeypatch.setattr(sign, "RUN_DIGESTS", 1 << 18)
    rows, ops = 1 << 13, CpuBackend(threads=1)
    signed = (
        Signed(np.ones((rows, 1), np.uint64), np.ones((rows, 2), np.uint64), np.ones(rows, np.int64)) for _ in range(64)
    )
    with at_most(10 << 20):
        made, counts = sign._write_runs(tmp_path, "sign-000000", signed, 1, ops)
    assert counts == {"shingles": 64 * rows, "empty": 0} and len(made) == 2
