"""`gpulsh.shingle`: the fingerprints of documents' shingles."""

from __future__ import annotations

from gpulsh.arrays import Fingerprints
from gpulsh.backends.select import BackendName
from gpulsh.params import Folding, Shingling, known_keywords
from gpulsh.ragged import end_to_end
from gpulsh.text.documents import Documents


@known_keywords
def shingle(
    texts: object,
    *,
    shingling: Shingling | str | None = None,
    folding: Folding | None = None,
    backend: BackendName = "auto",
    threads: int | None = None,
) -> Fingerprints:
    """The 64-bit fingerprints of every document's shingles, in text order, repeats kept.

    `texts` is any kind that `deduplicate` takes. Returns Fingerprints: `values` uint64 [nnz], `offset` int64 [n + 1],
    on the backend's device; a null document and one without a token have an empty row. They are public hashes, scheme
    1, which reproduce everywhere and which text can be made to collide in: they propose, and prove nothing against
    whoever wrote the text. `deduplicate` compares fingerprints under a secret.

    Raises InputTypeError where a row is no text, BackendError where CUDA was asked for and does not work.
    Source: shingling, Broder 1997, *On the resemblance and containment of documents*; the hash is defined in
    `gpulsh.backends.protocol`.

    >>> fingerprints = shingle(["one two three four five six", "six"], backend="cpu")
    >>> fingerprints.offset
    array([0, 2, 3])
    """
    return end_to_end(list(Documents.opened(texts, shingling, folding, backend, threads).fingerprints()))
