"""Filters for datatrove pipelines: near-duplicates of a stream, and of a run of gpulsh over all files.

`NearDuplicateFilter` decides as documents come, in one task. Tasks that read parts of a corpus do not see each other's
documents. For these, `gpulsh dedup --write duplicates --id-column id` decides over all files first, and
`ListedDuplicateFilter` drops the listed documents in each task. Unlike datatrove's own MinHash blocks, both drop a
document only for a kept one, after an exact comparison.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from gpulsh.cached import cached_value
from gpulsh.errors import ParameterError
from gpulsh.index.index import Index

try:
    from datatrove.data import Document
    from datatrove.io import open_file
    from datatrove.pipeline.filters.base_filter import BaseFilter
except ImportError as error:
    raise ImportError('gpulsh.compat.datatrove needs datatrove: pip install "datatrove[io,processing]"') from error

REASON = "near_duplicate"  # in datatrove's statistics


class NearDuplicateFilter(BaseFilter):  # type: ignore[misc]
    """Drops each document that duplicates an earlier kept one, as `gpulsh.deduplicate` would over all of them.

    exclusion_writer  Takes dropped documents, with the id of the duplicate in `metadata["duplicate_of"]`, and their
                      similarity in `metadata["similarity"]`.
    batch_size        Documents that are decided together. A larger batch takes less time and more memory.
    index             Folder of a gpulsh.Index of earlier pipelines, made if it is absent, and committed when the stream
                      ends. None keeps an index in memory for this stream.
    parameters        Of gpulsh.Index, as threshold=0.8.

    Each id may occur only once. Raises ParameterError for wrong parameters, and in a pipeline of several tasks.
    """

    name = "gpulsh near-duplicates"

    def __init__(
        self,
        exclusion_writer: Any = None,
        batch_size: int = 4096,
        index: str | os.PathLike[str] | None = None,
        **parameters: Any,
    ) -> None:
        super().__init__(exclusion_writer, batch_size)
        Index(**parameters)  # a wrong parameter fails here, where it was given
        self.index = None if index is None else Path(index)
        self.parameters = parameters

    def run(self, data: Iterator[Document], rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """The documents of `data` that are kept, in order."""
        if world_size > 1:
            raise ParameterError(
                f"the pipeline has {world_size} tasks, and each sees only its own documents; use one task, or"
                " deduplicate_files(write='duplicates') and then ListedDuplicateFilter in all tasks"
            )
        if self.index is None:
            opened: AbstractContextManager[Index] = nullcontext(Index(**self.parameters))
        else:
            opened = (Index.open if self.index.exists() else Index.create)(self.index, **self.parameters)
        with opened as self._known:
            yield from super().run(data, rank, world_size)

    def filter_batch(self, batch: list[Document]) -> list[bool | tuple[bool, str]]:
        """Whether each document is kept."""
        added = self._known.add([str(document.id) for document in batch], [document.text for document in batch])
        for row in (~added.keep).nonzero()[0].tolist():
            batch[row].metadata["duplicate_of"] = added.duplicate_of[row]
            batch[row].metadata["similarity"] = float(added.similarity[row])
        return [keep or (False, REASON) for keep in added.keep.tolist()]

    def filter(self, doc: Document) -> bool | tuple[bool, str]:
        """Whether one document is kept."""
        return self.filter_batch([doc])[0]


class ListedDuplicateFilter(BaseFilter):  # type: ignore[misc]
    """Drops the documents whose ids a `duplicates.parquet` lists, in any number of tasks.

    `duplicates` is its path or URL. Its run needs `--id-column`, with the ids that the pipeline's reader gives. All
    listed ids are in memory. `exclusion_writer` takes dropped documents. Raises ParameterError if a row has no id.
    """

    name = "gpulsh listed duplicates"

    def __init__(self, duplicates: str | os.PathLike[str], exclusion_writer: Any = None) -> None:
        super().__init__(exclusion_writer)
        self.duplicates = os.fspath(duplicates)

    def filter(self, doc: Document) -> bool | tuple[bool, str]:
        """Whether the document is not listed."""
        return str(doc.id) not in self._listed or (False, REASON)

    @cached_value
    def _listed(self) -> frozenset[str]:
        with open_file(self.duplicates, "rb") as file:
            ids = pq.read_table(file, columns=["id"])["id"]
        if ids.null_count:
            raise ParameterError(f"{self.duplicates} lists documents without an id; give its run an id_column")
        return frozenset(map(str, ids.to_pylist()))
