"""A drop-in for datasketch 2.0: the same names, the same signatures, in modules of the same names.

`pickles.loads` reads pickles that datasketch wrote, with or without datasketch. HyperLogLog, HNSW and AsyncMinHashLSH
are not here: import them from datasketch itself.
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
