"""An index of Python dictionaries and sets, document after document, by the definitions in `tests.support.naive`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support import naive


@dataclass
class Document:
    key: Any
    words: tuple[str, ...]
    shingles: set[Any]
    digests: set[tuple[int, int]]
    witness: Any = None  # a Document; itself where it is held
    similarity: float = 1.0
    removed: bool = False

    @property
    def held(self) -> bool:
        return self.witness is self and not self.removed

    @property
    def live(self) -> bool:
        return not self.removed and not self.witness.removed


@dataclass
class NaiveIndex:
    threshold: float
    size: int
    num_perm: int
    bands: int
    rows: int
    measure: str = "jaccard"
    documents: list[Document] = field(default_factory=list)

    def copy(self) -> NaiveIndex:
        """A copy whose changes leave this index alone."""
        same = {id(old): Document(**vars(old)) for old in self.documents}
        for document in same.values():
            document.witness = same[id(document.witness)]
        return replace(self, documents=[same[id(old)] for old in self.documents])

    def described(self, key: Any, text: str | None) -> Document:
        words = tuple(naive.tokens(text or "", "word"))
        shingles = naive.shingles(words, self.size)
        signature = naive.signature([naive.fingerprint(shingle) for shingle in shingles], self.num_perm, 1)
        digests = set(enumerate(naive.band_digests(signature, self.bands, self.rows))) if words else set()
        return Document(key, words, set(shingles), digests)

    def near(self, document: Document) -> list[tuple[float, Document]]:
        """Held documents at or above the threshold that share a bucket, the most similar first, then the earliest.

        By containment all held ones, whatever they share.
        """
        contained = self.measure == "containment"
        similarity = _contained if contained else naive.jaccard
        found = [
            (similarity(document.shingles, other.shingles), other)
            for other in self.documents
            if other.held and (contained or other.digests & document.digests)
        ]
        return sorted((pair for pair in found if pair[0] >= self.threshold), key=lambda pair: -pair[0])

    def insert(self, keys: Sequence[Any], texts: Sequence[str | None]) -> None:
        for key, text in zip(keys, texts, strict=True):
            document = self.described(key, text)
            document.witness = document
            self.documents.append(document)

    def add(self, keys: Sequence[Any], texts: Sequence[str | None]) -> list[tuple[Any, float]]:
        """The (key of the witness, similarity) of each document."""
        found = []
        for key, text in zip(keys, texts, strict=True):
            document = self.described(key, text)
            first = next((d for d in self.documents if d.live and d.words == document.words and d.words), None)
            near = self.near(document)
            if first is not None:
                document.witness, document.similarity = first.witness, first.similarity
            elif near:
                document.similarity, document.witness = near[0]
            else:
                document.witness = document
            self.documents.append(document)
            found.append((document.witness.key, document.similarity))
        return found

    def query(self, texts: Sequence[str | None]) -> list[tuple[int, Any, float]]:
        return [
            (position, other.key, similarity)
            for position, text in enumerate(texts)
            for similarity, other in self.near(self.described(None, text))
        ]

    def pairs(self) -> list[tuple[Any, Any, float]]:
        """The (key, later key, similarity) of each pair of held documents."""
        held = [document for document in self.documents if document.held]
        found = []
        for at, later in enumerate(held):
            before = replace(self, documents=held[:at])
            found += [(other.key, later.key, similarity) for similarity, other in before.near(later)]
        return found

    def counts(self) -> list[tuple[Any, int, int]]:
        """The (key, exact copies, other documents dropped for it) of each held document."""
        found = []
        for held in (document for document in self.documents if document.held):
            dropped = [d for d in self.documents if d.live and d.witness is held and d is not held]
            copies = sum(d.words == held.words for d in dropped)
            found.append((held.key, copies, len(dropped) - copies))
        return found

    def remove(self, keys: Sequence[Any]) -> None:
        chosen = set(keys)
        for document in self.documents:
            if document.live and document.key in chosen:
                document.removed = True
        self.documents = [d for d in self.documents if d.live]

    def compact(self) -> None:
        """No answer changes."""

    def keys(self) -> list[Any]:
        return [document.key for document in self.documents if document.live]


def _contained(asked: set[Any], held: set[Any]) -> float:
    return len(asked & held) / max(len(asked), 1)
