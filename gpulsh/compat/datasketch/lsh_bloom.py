"""`MinHashLSHBloom` of datasketch 2.0: whether a similar set was inserted, by one Bloom filter per band.

datasketch uses the filters of pybloomfilter, which needs a compiler. The files here have another format. The hash of a
band depends on the order of its values, where datasketch adds them up, so that fewer other sets pass.
"""

from __future__ import annotations

import math
import mmap
import os
import warnings
from pathlib import Path
from struct import Struct

import numpy as np

from gpulsh.arrays import Values
from gpulsh.checks import check_integer
from gpulsh.compat.datasketch.lsh import AnyMinHash, check_signature, chosen_bands
from gpulsh.compat.schemes.sketches import murmur_finalizer
from gpulsh.errors import InputError, ParameterError
from gpulsh.theory import checked_number

HEAD = Struct("<8sQQQ")  # of a file: its kind; bits, hash functions and values of a band
MAGIC = b"gpulshBF"
MAX_BITS = 1 << 40


class BloomTable:
    """The Bloom filter of a band of `band_size` values, for `item_count` sets; a share `fp` of other sets passes.

    It is in the file `fname`, which is made if it does not exist, or in memory if that is None.
    """

    def __init__(self, item_count: int, fp: float, band_size: int, fname: str | None = None) -> None:
        self.r, self.fname = band_size, fname
        per_item = -math.log(fp) / math.log(2) ** 2
        self.bits = max(8, math.ceil(item_count * per_item))
        self.hashes = max(1, round(per_item * math.log(2)))
        if self.bits > MAX_BITS:
            raise ParameterError(f"n is {item_count} and fp {fp}, which takes {self.bits} bits a band; give less")
        size = HEAD.size + (self.bits + 7) // 8
        if fname is None:
            self._data = mmap.mmap(-1, size)
            return
        path = Path(fname)
        if not path.exists():
            with open(path, "xb") as new:
                new.write(HEAD.pack(MAGIC, self.bits, self.hashes, self.r))
                new.truncate(size)
        with open(path, "r+b") as file:
            head = file.read(HEAD.size)
            if len(head) < HEAD.size or head[:8] != MAGIC:
                raise InputError(
                    f"{path}: is not a Bloom filter of gpulsh; give another folder, or build the index again"
                )
            _, self.bits, self.hashes, rows = HEAD.unpack(head)
            if path.stat().st_size != HEAD.size + (self.bits + 7) // 8 or not self.bits:
                raise InputError(f"{path}: is damaged, its size does not fit {self.bits} bits; build the index again")
            if rows != self.r:
                raise ParameterError(
                    f"{path}: has bands of {rows} values, not {self.r}; give the same parameters, or another folder"
                )
            self._data = mmap.mmap(file.fileno(), 0)

    def sync(self) -> None:
        """Write it to its file."""
        if self.fname is None:
            warnings.warn("the index is in memory only: nothing is saved", RuntimeWarning, stacklevel=2)
        else:
            self._data.flush()

    def insert(self, first: int, second: int) -> None:
        """Add a band by its hashes."""
        for place in self._places(first, second):
            self._data[HEAD.size + (place >> 3)] |= 1 << (place & 7)

    def query(self, first: int, second: int) -> bool:
        """Whether a band with these hashes was added, or passes by chance."""
        data = self._data
        return all(data[HEAD.size + (place >> 3)] >> (place & 7) & 1 for place in self._places(first, second))

    def _places(self, first: int, second: int) -> list[int]:
        """The places of a band's bits; two hashes do for all (Kirsch and Mitzenmacher 2006)."""
        return [(first + number * second) % self.bits for number in range(self.hashes)]


class MinHashLSHBloom:
    """Whether a set as similar as `threshold` was probably inserted, without its key.

    `n` is the expected number of sets; a share `fp` of sets without a common band passes in each band. With `save_dir`
    the filters are in files there, and existing files are continued; without, in memory. All else as `MinHashLSH`.
    Raises ParameterError, which is a ValueError, and InputError if a file is not a filter of gpulsh.

    >>> from tempfile import TemporaryDirectory
    >>> from gpulsh.compat.datasketch import MinHash
    >>> one = MinHash(num_perm=16)
    >>> one.update(b"a")
    >>> with TemporaryDirectory() as folder:
    ...     index = MinHashLSHBloom(threshold=0.5, num_perm=16, n=100, fp=0.001, save_dir=folder)
    ...     before = index.query(one)
    ...     index.insert(one)
    ...     before, index.query(one)
    (False, True)
    """

    def __init__(
        self,
        threshold: float = 0.9,
        num_perm: int = 128,
        n: int | None = None,
        fp: float | None = None,
        save_dir: str | None = None,
        weights: tuple[float, float] = (0.5, 0.5),
        params: tuple[int, int] | None = None,
    ) -> None:
        count = check_integer("n", n, 1, MAX_BITS)
        if fp is None or not 0 < checked_number("fp", fp) < 1:
            raise ParameterError(f"fp is {fp}; give the allowed share of false positives, between 0 and 1")
        self.h = num_perm
        self.b, self.r = chosen_bands(threshold, num_perm, weights, params)
        if save_dir is None:
            warnings.warn("save_dir is None: the index is in memory only", RuntimeWarning, stacklevel=2)
        else:
            os.makedirs(save_dir, exist_ok=True)
        self.hashtables = [
            BloomTable(count, fp, self.r, None if save_dir is None else os.path.join(save_dir, f"band-{band}.bf"))
            for band in range(self.b)
        ]
        self.hashranges = [(band * self.r, (band + 1) * self.r) for band in range(self.b)]
        self._minhash_scheme: str | None = None

    def insert(self, minhash: AnyMinHash) -> None:
        """Add a set."""
        found = self._hashes(minhash)
        self._minhash_scheme = self._minhash_scheme or getattr(minhash, "scheme", None)
        for table, (first, second) in zip(self.hashtables, found, strict=True):
            table.insert(first, second)

    def query(self, minhash: AnyMinHash) -> bool:
        """Whether a set that shares a band with this one was inserted."""
        found = zip(self.hashtables, self._hashes(minhash), strict=True)
        return any(table.query(first, second) for table, (first, second) in found)

    def _hashes(self, minhash: AnyMinHash) -> list[list[int]]:
        check_signature(minhash, self._minhash_scheme, self.h)
        values = minhash.hashvalues
        return band_hashes(values.reshape(self.h, -1)[: self.b * self.r].reshape(self.b, -1))

    def sync(self) -> None:
        """Write the filters to their files."""
        for table in self.hashtables:
            table.sync()


def band_hashes(values: Values) -> list[list[int]]:
    """Two hashes of each band, of values [bands, rows]: multilinear, then mixed; the second one is odd."""
    words = values.astype(np.uint64)
    factors = murmur_finalizer(np.arange(1, words.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    first = murmur_finalizer((words * factors).sum(axis=1, dtype=np.uint64))
    second = murmur_finalizer(~first) | np.uint64(1)
    found: list[list[int]] = np.stack([first, second], axis=1).tolist()
    return found
