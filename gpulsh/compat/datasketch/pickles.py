"""Pickles that datasketch wrote, read as objects of this package, without datasketch.

Only classes that this package lacks, such as HyperLogLog, are datasketch's own, and need it.
"""

from __future__ import annotations

import io
import pickle
from typing import IO, Any

OTHERS = ("aio", "experimental", "hnsw", "hyperloglog")  # modules that only datasketch has


class Unpickler(pickle.Unpickler):
    """Finds datasketch's names here. A pickle can run any code: read only pickles that you trust."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """The class or function of a name."""
        head, dot, rest = module_name.partition(".")
        if head == "datasketch" and rest.partition(".")[0] not in OTHERS:
            module_name = f"{__package__}{dot}{rest}"
        return super().find_class(module_name, global_name)


def load(file: IO[bytes]) -> Any:
    """The object in a pickle file."""
    return Unpickler(file).load()


def loads(data: bytes) -> Any:
    """The object in a pickle.

    >>> from gpulsh.compat.datasketch import MinHash
    >>> loads(pickle.dumps(MinHash(num_perm=4)))
    MinHash(num_perm=4, seed=1, scheme='affine32')
    """
    return load(io.BytesIO(data))
