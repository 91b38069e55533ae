"""A drop-in for datasketch 2.0: the same names, the same signatures, in modules of the same names.

Pickles that datasketch wrote are read by `pickles.loads`, with or without datasketch.
What gpulsh does not make, as HyperLogLog, HNSW and the index on servers, is datasketch's own, where that is installed.
"""

from __future__ import annotations

from gpulsh.compat.datasketch.b_bit_minhash import bBitMinHash
from gpulsh.compat.datasketch.hashfunc import sha1_hash32, sha1_hash64
from gpulsh.compat.datasketch.lean_minhash import LeanMinHash
from gpulsh.compat.datasketch.lsh import MinHashLSH
from gpulsh.compat.datasketch.lsh_bloom import MinHashLSHBloom
from gpulsh.compat.datasketch.lshensemble import MinHashLSHEnsemble
from gpulsh.compat.datasketch.lshforest import MinHashLSHForest
from gpulsh.compat.datasketch.minhash import MinHash
from gpulsh.compat.datasketch.theirs import theirs
from gpulsh.compat.datasketch.weighted_minhash import WeightedMinHash, WeightedMinHashGenerator

WeightedMinHashLSH = MinHashLSH
WeightedMinHashLSHForest = MinHashLSHForest

__all__ = [
    "LeanMinHash",
    "MinHash",
    "MinHashLSH",
    "MinHashLSHBloom",
    "MinHashLSHEnsemble",
    "MinHashLSHForest",
    "WeightedMinHash",
    "WeightedMinHashGenerator",
    "WeightedMinHashLSH",
    "WeightedMinHashLSHForest",
    "bBitMinHash",
    "sha1_hash32",
    "sha1_hash64",
]
_THEIRS = {"AsyncMinHashLSH": "aio", "HNSW": "hnsw", "HyperLogLog": "hyperloglog", "HyperLogLogPlusPlus": "hyperloglog"}


def __getattr__(name: str) -> object:
    if name not in _THEIRS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return theirs(_THEIRS[name], name)
