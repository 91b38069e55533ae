"""`gpulsh.Banding`: signatures to band digests."""

from __future__ import annotations

from dataclasses import dataclass

from gpulsh.arrays import BandDigests, Signatures
from gpulsh.backends.select import BackendName, select_backend
from gpulsh.errors import ParameterError
from gpulsh.params import BandShape, check_type


@dataclass(frozen=True, kw_only=True)
class Banding(BandShape):
    """`bands` bands of `rows` signature values; documents whose digests agree in one band are a candidate pair.

    Source: Leskovec, Rajaraman, Ullman, *Mining of Massive Datasets*, section 3.4. Raises ParameterError for numbers
    outside 1 to 65,536.

    >>> from gpulsh.sketch.sets.minhash import MinHash
    >>> signatures = MinHash(num_perm=128).from_texts(["one text", "another"], backend="cpu")
    >>> Banding(bands=18, rows=7)(signatures, backend="cpu").shape
    (2, 18)
    """

    def __call__(
        self, signatures: Signatures, *, backend: BackendName = "auto", threads: int | None = None
    ) -> BandDigests:
        """Digests, uint64 [n, bands], of Signatures [n, num_perm]; 2^64 - 1 in all bands of an empty document.

        Raises ParameterError where bands * rows exceeds num_perm.
        """
        check_type("signatures", signatures, Signatures)
        num_perm = signatures.shape[1]
        if self.bands * self.rows > num_perm:
            raise ParameterError(
                f"bands * rows is {self.bands} * {self.rows} = {self.bands * self.rows} and the signatures have"
                f" {num_perm} values; give bands and rows whose product is at most {num_perm}"
            )
        ops = select_backend(backend, threads=threads)
        return BandDigests(ops.band_digests(ops.asarray(signatures.values), self))
