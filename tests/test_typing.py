"""Types of the public calls, as a checker of the user's own code finds them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = """
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import gpulsh

class Frame: ...

result = gpulsh.deduplicate(["a", "b"], sketch="minhash", text_column=["title", "body"])
assert_type(result, gpulsh.Decision)
assert_type(result.keep, NDArray[np.bool_])
assert_type(result.duplicate_of, NDArray[np.int64])
assert_type(result.similarity, NDArray[np.float32])
assert_type(result.filter(["a", "b"]), list[str])
assert_type(result.filter(("a", "b")), list[str])
numbers: NDArray[np.float64] = np.zeros(2)
assert_type(result.filter(numbers), NDArray[np.float64])
assert_type(result.filter(Frame()), Frame)
assert_type([text for text, stays in zip("ab", result.keep) if stays], list[str])
"""
WRONG = {"threshhold=0.5": "call-arg", "num_perm='many'": "arg-type"}


def test_types_of_a_decision(tmp_path: Path) -> None:
    """What mypy --strict finds is that of the wrong calls, and nothing else."""
    code = CODE + "".join(f'gpulsh.deduplicate(["a"], {wrong})\n' for wrong in WRONG)
    (tmp_path / "user.py").write_text(code)
    command = [sys.executable, "-m", "mypy", "--strict", "--hide-error-context", str(tmp_path / "user.py")]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line for line in found.stdout.splitlines() if ": error: " in line]
    lines = len(code.splitlines()) - len(WRONG)
    for number, (line, kind) in enumerate(zip(errors, WRONG.values(), strict=True)):
        assert f"user.py:{lines + number + 1}: " in line and line.endswith(f"[{kind}]"), found.stdout
