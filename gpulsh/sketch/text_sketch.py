"""What every sketch of texts is to its user: made of any texts, a batch of them at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from gpulsh.backends.select import BackendName
from gpulsh.params import Folding, Shingling
from gpulsh.text.documents import Documents

Sketched = TypeVar("Sketched", covariant=True)


class TextSketch(ABC, Generic[Sketched]):
    """Makes of each text what it makes of the text's fingerprints."""

    def from_texts(
        self,
        texts: object,
        *,
        shingling: Shingling | str | None = None,
        folding: Folding | None = None,
        backend: BackendName = "auto",
        threads: int | None = None,
    ) -> Sketched:
        """As of `shingle(texts)`, without ever holding the fingerprints of more than a batch of the texts.

        `texts` is any kind that `deduplicate` takes. Raises InputTypeError where a row is no text.
        """
        documents = Documents.opened(texts, shingling, folding, backend, threads)
        with documents.ops.here():
            return self._of_documents(documents)

    @abstractmethod
    def _of_documents(self, documents: Documents) -> Sketched:
        """A row a document; the backend's device is the current one."""
