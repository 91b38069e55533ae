"""The documents of a run in the order in which an index decides about them: by position, or by `--keep`.

By position, one pass reads and decides them. Otherwise a first pass reads the values of `--keep`, and the texts are
copied into that order before the index sees the first one. The copy takes the size of the texts on disk, and memory of
about 40 bytes for each document, and its id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.index.collection import Collection
from gpulsh.index.evidence.places import Origin
from gpulsh.index.keys import KeyNames, KeyStream
from gpulsh.index.segment import Documents
from gpulsh.io.files.file_texts import FileTexts, Partition, PartitionFacts
from gpulsh.io.rows import cut
from gpulsh.run.driver import Stages
from gpulsh.run.index.jobs import KEYS_AT_ONCE, keys_of_files, names_of_files, origin_of
from gpulsh.run.job import Made, Task, Workplace, step_of
from gpulsh.run.policy import check_kinds
from gpulsh.run.records.documents import RejectionsFile, write_facts
from gpulsh.run.records.tables import RANKS
from gpulsh.run.records.texts import GroupTexts
from gpulsh.run.stages.arrange import RANK, gather, rank, survey
from gpulsh.store.manifest import Manifest

Numbered = Callable[[range], Iterator[Documents]]  # of the documents of these numbers, in order, some at a time


class OrderedInput:
    """`io.rows.TextSource` of all documents of partitions, in order of files; writes a partition's facts once read."""

    def __init__(self, place: Workplace, partitions: Sequence[Partition]) -> None:
        self._place, self._partitions = place, partitions
        self.made: list[Made] = []  # of each partition that was read: the facts of its documents
        job = place.job
        assert job.earlier is not None
        self.named = FileTexts(job.files, replace(job.columns, id=job.earlier.key), stamps=job.stamps)

    def batches(self, max_bytes: int) -> Iterator[TextBatch]:
        """All documents once."""
        for partition in self._partitions:
            with RejectionsFile(self._place.folder, partition.number) as rejected:
                facts = PartitionFacts(rejected=rejected)
                yield from self._place.read(partition.pieces, facts, most=max_bytes)
                self.made.append(write_facts(self._place, partition, facts, rejected))
            self.named.add(facts)

    def read_again(self) -> None:
        """Read all documents once more, for facts about documents that the index has added already."""
        for _ in self.batches(self._place.ops.sizes().batch):
            pass

    def keys(self) -> Iterator[pa.Array]:
        """The keys of the documents, once all were read."""
        return keys_of_files(self.named)

    def origin(self) -> Origin:
        """Where the documents can be read again."""
        return origin_of(self.named)

    def names(self) -> KeyNames:
        """How messages name the keys of the documents."""
        return names_of_files(self.named)

    def numbers(self, positions: Numbers) -> Numbers:
        """The places in this order of documents at `positions`."""
        return positions

    def decisions(self, collection: Collection, numbers: range) -> Numbered:
        """The decisions of the index about the documents that it added as `numbers`, by position."""
        return collection.decisions


class InDecisionOrder(OrderedInput):
    """The documents in another decision order; with `texts` the runner copies the texts into it."""

    def __init__(
        self,
        place: Workplace,
        manifest: Manifest,
        partitions: Sequence[Partition],
        total: int | None,
        stages: Stages,
        *,
        texts: bool,
    ) -> None:
        super().__init__(place, partitions)
        job = place.job
        given = ((partition,) for partition in partitions)
        surveyed = stages.run("survey", survey, given, total, parallel=job.cut.parallel is not None)
        if job.policy.key is not None:
            check_kinds((kind for facts in surveyed for kind in facts["kinds"]), job.policy.key)
        for facts in surveyed:
            rows = dict(enumerate(facts["rows"], facts["first_file"]))
            self.named.add(PartitionFacts(rows=rows))
        steps = (manifest.find(step_of("survey", number)) for number in range(len(partitions)))
        self.made = [Made(step.files, step.facts) for step in steps if step]
        layout = job.layout(surveyed)
        (facts,) = stages.tasks("rank", [Task(RANK, rank, (layout,))], len(layout))
        self._groups = int(facts["groups"])
        self._rank = RANKS.read(place.folder, RANK).rank
        self._ordered = np.argsort(self._rank)
        if texts:
            members = ((layout, partition, RANK) for partition in partitions)
            stages.run("arrange", gather, members, len(layout), parallel=True, step="gather")

    def batches(self, max_bytes: int) -> Iterator[TextBatch]:
        """All documents once."""
        folder, progress = self._place.folder, self._place.progress
        for group in range(self._groups):
            texts = GroupTexts(folder, group, ((number, None) for number in range(len(self._partitions))))
            batch = texts.take(np.argsort(self._rank[texts.documents]))
            yield from cut(batch, max_bytes)
            progress.advance(int(batch.offset[-1]))
            progress.count(documents=len(batch))

    def read_again(self) -> None:
        """Do nothing: the stage `survey` has read the facts."""

    def keys(self) -> Iterator[pa.Array]:
        """The keys of the documents."""
        by_position = KeyStream(keys_of_files(self.named), None).take(len(self.named))
        for start in range(0, len(self._ordered), KEYS_AT_ONCE):
            yield by_position.take(pa.array(self._ordered[start : start + KEYS_AT_ONCE]))

    def origin(self) -> Origin:
        """Where the documents can be read again."""
        found = super().origin()
        return replace(found, locate=lambda places: found.locate(self._ordered[places]))

    def names(self) -> KeyNames:
        """How messages name the keys of the documents."""
        names = super().names()
        return replace(names, of=lambda place: names.of(int(self._ordered[place])))

    def numbers(self, positions: Numbers) -> Numbers:
        """The ranks of the documents at `positions`."""
        return self._rank[positions]

    def decisions(self, collection: Collection, numbers: range) -> Numbered:
        """The decisions of the index, brought into order of position."""
        whole = Documents.joined(collection.decisions(numbers))
        if len(whole.number) == len(self._rank):  # otherwise the index has lost some, which `_Decisions` reports
            own = whole.witness >= numbers.start
            whole.witness[own] = self._ordered[whole.witness[own] - numbers.start] + numbers.start
            whole = whole.where(self._rank)._replace(number=whole.number)
        return lambda some: iter([whole.where(slice(some.start - numbers.start, some.stop - numbers.start))])
