"""The process that is measured: one library reads the files, decides, and leaves for each row whether it stays."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.engines import DECIDERS, decider_class

KEEP = "keep.npy"  # bool [n]: of one size whatever is decided


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.race.decide", description=__doc__)
    parser.add_argument("library", choices=DECIDERS)
    parser.add_argument("inputs", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--threshold", type=float, default=0.8)
    parser.add_argument("--cores", type=int, default=1)
    given = parser.parse_args()
    keep = decider_class(given.library)(given.cores).keep(given.inputs, given.threshold, given.scratch)
    np.save(given.scratch / KEEP, keep)


if __name__ == "__main__":
    main()
