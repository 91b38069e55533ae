"""How far each family of MinHash is from min-wise independence, for a few sets, by many of its functions.

In a min-wise independent family, each element of a set X is the minimum with probability 1 / |X|. Epsilon is the
greatest relative error of these probabilities (Broder, Charikar, Frieze, Mitzenmacher 2000, *Min-wise independent
permutations*, section 1). Counts of draws also have errors. So the table adds the bound for as many draws of a min-wise
independent family, and the root mean square error is without chance. For `xor`, epsilon is computed as well.
"""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from benchmarks.bench import Bench
from gpulsh.arrays import Fingerprints
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.protocol import Backend, sketched
from gpulsh.params import Family, MinHashFamily
from gpulsh.theory import epsilon_of_chance

TITLE = "Families of MinHash: relative error of min-wise independence, and of estimates"
WORK: dict[str, Any] = {}
SIZES = (3, 10, 50, 200, 1000)
COLUMNS = 2048  # functions of a seed
SEEDS = 100  # a round
NUM_PERM = 128  # functions of an estimate
UPPER = ("affine32", "xor", "tabulation")  # families that read the upper 32 bits of a fingerprint

Words = NDArray[np.uint64]


class Drawn:
    """How often each element of a set is the minimum of the functions drawn so far, and errors of estimates."""

    def __init__(self, numbers: Words) -> None:
        self.numbers, self.size = numbers, len(numbers)
        self.wins = np.zeros(self.size, np.int64)
        self.common = np.arange(self.size) < self.size // 2  # what a pair of sets with this union has in common
        self.squares = 0.0  # of the errors of estimates
        self.estimates = 0

    def add(self, winners: NDArray[np.int64], generator: np.random.Generator) -> None:
        """Count the places of the minima, and estimate the similarity of pairs drawn at random with this union."""
        self.wins += np.bincount(winners, minlength=self.size)
        groups = winners.reshape(-1, NUM_PERM)
        common = generator.permuted(np.tile(self.common, (len(groups), 1)), axis=1)
        errors = np.take_along_axis(common, groups, axis=1).mean(axis=1) - self.common.mean()
        self.squares += float((errors**2).sum())
        self.estimates += len(groups)

    def figures(self) -> dict[str, float]:
        functions, similarity = self.wins.sum(), self.common.mean()
        relative = self.wins * (self.size / functions) - 1
        theory = similarity * (1 - similarity) / NUM_PERM
        return {
            "epsilon": abs(relative).max(),
            "of chance": epsilon_of_chance(self.size, int(functions)),
            "rms": np.sqrt(max((relative**2).mean() - (self.size - 1) / functions, 0)),
            "deviation / theory": np.sqrt(self.squares / self.estimates / theory),
        }

    def beyond_trie(self) -> float:
        """By how many standard deviations counts are off those that `trie_probabilities` predicts, at most."""
        wanted, functions = trie_probabilities(self.numbers), self.wins.sum()
        deviation = np.sqrt(wanted * (1 - wanted) / functions)
        return float((abs(self.wins / functions - wanted) / deviation).max())


def run(bench: Bench) -> dict[str, Any]:
    """`bench.rounds` times SEEDS * COLUMNS functions of each family."""
    ops, rows, checks = CpuBackend(max(bench.threads)), [], []
    for family in get_args(MinHashFamily):
        drawn = {(size, kind): Drawn(numbers) for size in SIZES for kind, numbers in _sets(size).items()}
        for seed in range(SEEDS * bench.rounds):
            _draw(ops, family, seed, list(drawn.values()))
        for (size, kind), one in drawn.items():
            figures = one.figures()
            if family == "xor":
                beyond = one.beyond_trie()
                assert beyond < 6, (size, kind)
                checks.append({"xor": kind, "size": size, "deviations off the trie": round(beyond, 2)})
                figures["exact epsilon"] = abs(trie_probabilities(one.numbers) * size - 1).max()
            row = {"family": family, "size": size, "set": kind}
            rows.append({**row, **{name: round(float(value), 4) for name, value in figures.items()}})
        bench.say(f"  {family}")
    return {"rows": rows, "checks": checks, "lines": [], "raw": []}


def _sets(size: int) -> dict[str, Words]:
    """Numbers of 32 bits."""
    first = np.arange(size, dtype=np.uint64)
    random = np.random.default_rng(size).choice(2**32, size, replace=False).astype(np.uint64)
    return {"i": first, "1000 i + 17": first * 1000 + 17, "2^20 i": first << 20, "random": random}


def _draw(ops: Backend, family: MinHashFamily, seed: int, sets: list[Drawn]) -> None:
    """Add the functions of a seed, all sets signed at once: each number a document of its own."""
    values = np.concatenate([one.numbers for one in sets])
    alone = Fingerprints(values << 32 if family in UPPER else values, np.arange(len(values) + 1, dtype=np.int64))
    # The first function of `xor` is no draw, but the number itself.
    found = sketched(ops, alone, Family(name=family, num_perm=COLUMNS + 1, seed=seed))[:, 1:]
    generator, start = np.random.default_rng(seed), 0
    for one in sets:
        one.add(found[start : start + one.size].argmin(axis=0), generator)
        start += one.size


def trie_probabilities(numbers: Words) -> NDArray[np.float64]:
    """For distinct numbers, the probability that a random mask makes each one the least.

    It is 2^-(branchings on its path in the binary trie of all): at each the mask's bit decides which side is less.

    >>> trie_probabilities(np.array([0, 1, 2], np.uint64))
    array([0.25, 0.25, 0.5 ])
    """
    if len(numbers) == 1:
        return np.ones(1)
    found = np.empty(len(numbers))
    branching = int(np.bitwise_or.reduce(numbers ^ numbers[0])).bit_length() - 1
    upper = numbers >> branching & 1 == 1
    for side in (upper, ~upper):
        found[side] = trie_probabilities(numbers[side]) / 2
    return found
