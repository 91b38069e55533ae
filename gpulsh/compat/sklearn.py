"""Sketches of texts as a step of a scikit-learn pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from gpulsh.arrays import BandDigests, BitSignatures, Signatures, Values, on_host
from gpulsh.backends.select import BackendName
from gpulsh.checks import check_type
from gpulsh.errors import ParameterError
from gpulsh.lsh.banding import Banding, BitSampling
from gpulsh.params import Folding, Shingling
from gpulsh.sketch.base import SetSketch
from gpulsh.sketch.minhash import MinHash
from gpulsh.sketch.simhash import SimHash

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
except ImportError as error:
    raise ImportError("gpulsh.compat.sklearn needs scikit-learn: pip install scikit-learn") from error


class SketchVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Texts to rows of numbers; the share of columns in which two rows differ shows how far apart the texts are.

    scikit-learn calls this share `metric="hamming"`, so its neighbours and clusters work on these rows.

    =====================  ==============================  ===========================================
    `sketch`, `banding`    `transform` gives               the share of columns that differ is
    =====================  ==============================  ===========================================
    MinHash and its like   uint32 or uint64 [n, num_perm]  1 - the estimated Jaccard similarity
    SimHash                uint8 [n, bits], 0 or 1         the estimated angle / pi
    either, with banding   uint64 [n, bands]               below 1 where two are a candidate pair
    =====================  ==============================  ===========================================

    The default `sketch` is MinHash(). `banding` is a Banding, or a BitSampling for SimHash. The other parameters have
    the meaning that they have in `from_texts`. `fit` learns nothing from texts and only checks parameters. It raises
    ParameterError for a wrong one, and for SimHash with "idf", as other texts would change its weights. All texts
    without a shingle are alike.

    >>> vectorizer = SketchVectorizer(backend="cpu")
    >>> vectorizer.fit_transform(["one two three four five", "One, two, three, four, five!"]).shape
    (2, 128)
    """

    def __init__(
        self,
        sketch: SetSketch | SimHash | None = None,
        *,
        banding: Banding | BitSampling | None = None,
        shingling: Shingling | str | None = None,
        folding: Folding | None = None,
        backend: BackendName = "auto",
        threads: int | None = None,
    ) -> None:
        self.sketch = sketch
        self.banding = banding
        self.shingling = shingling
        self.folding = folding
        self.backend = backend
        self.threads = threads

    def fit(self, texts: object, y: object = None) -> Self:
        """Check the parameters; `texts` are ignored."""
        self._rows([])
        return self

    def transform(self, texts: object) -> Values:
        """A row for each text, of any kind that `gpulsh.deduplicate` takes; InputTypeError if a row is not a text."""
        return self._rows(texts)

    def _rows(self, texts: object) -> Values:
        """`transform` without scikit-learn's wrapper, which with `set_output` makes frames and counts columns."""
        sketch = MinHash() if self.sketch is None else self.sketch
        check_type("sketch", sketch, SetSketch, SimHash)
        if isinstance(sketch, SimHash) and sketch.weights == "idf":
            raise ParameterError("weights is 'idf', which needs all documents at once; give 'set' or 'count'")
        sketched: Signatures | BitSignatures | BandDigests = sketch.from_texts(
            texts, shingling=self.shingling, folding=self.folding, backend=self.backend, threads=self.threads
        )
        if self.banding is not None:
            check_type("banding", self.banding, Banding, BitSampling)
            digested: Callable[..., BandDigests] = self.banding  # refuses what another kind of sketch made
            sketched = digested(sketched, backend=self.backend, threads=self.threads)
        values: Values = on_host(sketched.values)
        if isinstance(sketched, BitSignatures):  # the bits of each word, the lowest first
            return np.unpackbits(values.astype("<u8").view(np.uint8), axis=1, bitorder="little")
        return values

    @property
    def _n_features_out(self) -> int:
        return int(self._rows([]).shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.requires_fit = False
        return tags
