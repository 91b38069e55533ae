"""`--index`: a run drops its documents for documents of earlier runs, too, and adds them to the index.

A run writes four things, each durable before the next: its name in its manifest, its decisions in the work folder, a
commit of the index that contains the name, and its results. So a resumed run finds by its name whether the index
contains its documents. If it does, the decisions are valid, and the index replaces damaged ones. If not, the run
decides again.

The index decides by position, or by `--keep`. By position, one pass reads and decides the documents. Otherwise a first
pass reads the values of `--keep`, and the texts are copied into that order before the index sees the first one. The
copy takes the size of the texts on disk, and memory of about 40 bytes for each document, and its id.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers, TextBatch
from gpulsh.backends.select import select_backend
from gpulsh.errors import OutputError, ParameterError, refuse_given
from gpulsh.index.collection import Collection
from gpulsh.index.evidence.places import Origin
from gpulsh.index.folder import has_index
from gpulsh.index.index import Index
from gpulsh.index.keys import KeyNames, KeyStream
from gpulsh.index.segment import Documents, is_in
from gpulsh.io.files.file_texts import FileTexts, Partition, PartitionFacts
from gpulsh.io.rows import split_batch
from gpulsh.method import Method
from gpulsh.params import EvidenceName
from gpulsh.ragged import sorted_distinct
from gpulsh.run.driver import Decider, RunDecisions, Stages
from gpulsh.run.index.jobs import (
    KEYS_AT_ONCE,
    keys_of_files,
    names_of_files,
    origin_of,
    refuse_file_row_keys,
    refuse_first_keys,
)
from gpulsh.run.job import ADMIT, JobContext, Layout, Task, TaskResult, fact_sum, report_done, step_of
from gpulsh.run.policy import check_kinds
from gpulsh.run.records.documents import RejectionsFile, read_rejected, write_facts
from gpulsh.run.records.tables import DECISIONS, EARLIER, RANKS, Decisions, EarlierDocuments
from gpulsh.run.records.texts import GroupTexts
from gpulsh.run.stages.arrange import RANK, gather_texts, rank_documents, read_order_values
from gpulsh.run.stages.write import file_runs, step_of_run, write_decisions, written_files
from gpulsh.stats.counts import COUNTS
from gpulsh.stats.stages import INDEXED_STAGES, Funnel
from gpulsh.store.columns import release_memory
from gpulsh.store.manifest import Manifest

RUN = "run"  # the step that gives the run its name
EVIDENCE = "evidence"


class EarlierRuns:
    """The index of earlier runs, or of this first one. `backend_options` are parameters of `Index`.

    `evidence` is the kind of the index; None: the kind of an existing one, or "index".

    Raises InputError if the index is damaged, ParameterError if it was made with other parameters.
    """

    def __init__(
        self,
        path: str,
        key: str | None,
        parameters: Mapping[str, Any],
        backend_options: Mapping[str, Any],
        secret: bytes,
        evidence: EvidenceName | None,
    ) -> None:
        self.path, self.key = Path(path), key
        self._parameters, self._backend_options = parameters, backend_options
        self._secret, self._evidence = secret, evidence
        self._index = self._open_existing() if has_index(self.path) else None

    def _open_existing(self) -> Index:
        index = Index.open(self.path, **self._parameters, **self._backend_options, evidence=self._evidence)
        refuse_file_row_keys(index.collection, self.path, self.key)
        return index

    def method(self) -> Method:
        """The index's parameters."""
        return Method.choose(**self._parameters) if self._index is None else self._index.parameters

    def decider(self, context: JobContext, manifest: Manifest, *, remote: bool) -> Decider:
        """The decider for a run: this process, even if `remote` ones run the tasks."""
        if remote:
            where = dict(self._backend_options)
            context = replace(context, ops=select_backend(where.pop("backend"), **where))
        return partial(self._decide, context, manifest)

    def open_index(self) -> Index:
        """The index, made if there is none."""
        if self._index is None:
            parameters = {**self._parameters, **self._backend_options, "evidence": self._evidence or "index"}
            try:
                self._index = Index.create(self.path, **parameters, secret=self._secret)
            except OutputError:
                if not has_index(self.path):
                    raise
                self._index = self._open_existing()  # another run made it after the start of this one
                if self._index.parameters.matching() != Method.choose(**self._parameters).matching():
                    raise ParameterError(
                        f"{self.path}: another run made it meanwhile, with other parameters; start again"
                    ) from None
        return self._index

    def _decide(
        self,
        context: JobContext,
        manifest: Manifest,
        partitions: Sequence[Partition],
        total: int | None,
        stages: Stages,
    ) -> RunDecisions:
        """Decide and add the documents, or read the decisions of an interrupted run."""
        named, funnel, job = manifest.finished(RUN), stages.funnel, context.job
        if named is None:
            named = {"name": secrets.token_hex(16)}
            manifest.add(RUN, {}, named)
        run = str(named["name"])
        folder = None if self._index is None else self._index.collection.folder
        taken_in = folder.manifest.runs.get(run) if folder else None
        facts = manifest.finished(ADMIT) if taken_in else None
        source = OrderedInput(context, partitions)
        if facts is None and job.policy.keep != "first":
            source.arrange(manifest, total, stages, texts=taken_in is None)
        with funnel.stage(context.progress, INDEXED_STAGES["admit"], total):
            if facts is None:
                with context.unchanged(range(len(job.files))):
                    facts = self._admit(context, manifest, run, range(*taken_in) if taken_in else None, source)
            else:
                done = {"amount": facts["funnel"]["bytes"], "documents": facts["funnel"]["documents"]}
                report_done(done, "B", context.progress, before=True)
                funnel.resumed = [ADMIT]
        release_memory()
        for name, count in facts["funnel"].items():
            setattr(funnel, name, count)
        context.progress.count(dropped=funnel.dropped)
        return RunDecisions(job.layout(facts["partitions"]), tuple(facts["ids"]))

    def _admit(
        self, context: JobContext, manifest: Manifest, run: str, taken_in: range | None, source: OrderedInput
    ) -> Mapping[str, Any]:
        """Decide and add the documents; the facts of the decisions, once both are durable."""
        job = context.job
        runs = file_runs(job, written_files(job))
        if taken_in is None and any(manifest.find(step) for step in (*map(step_of_run, runs), EVIDENCE)):
            raise OutputError(
                f"{self.path}: has lost the documents of this run; restore it from a copy, or start again with"
                " --overwrite"
            )
        with self.open_index() as index:
            collection = index.collection
            if taken_in is None:
                refuse_first_keys(collection, self.path, source.named)
                tally, names = Funnel(), source.names()
                origin = source.origin() if collection.evidence == "source" else None
                numbers = collection.add(source, source.keys, decide=True, tally=tally, names=names, origin=origin)
                counts = {name: tally[name] for name in COUNTS}
            else:
                source.read_facts()
                numbers, recorded = taken_in, manifest.find(ADMIT)
                counts = dict(recorded.facts["funnel"]) if recorded else {}
            partitions = [result.facts for result in source.results]
            layout = job.layout(partitions)
            release_memory()
            decisions = _Decisions(collection, source.decisions(collection, numbers), numbers, layout)
            written = [decisions.write(context, number) for number in range(len(partitions))]
            counts |= {name: fact_sum(partitions, name) for name in ("bytes", "nulls", "not_utf8", "stray_bytes")}
            counts |= {"dropped": decisions.dropped, "earlier": decisions.earlier}
            counts |= {"wordless": counts.get("empty", 0) - counts["nulls"], "kept": len(layout) - decisions.dropped}
            facts = {"funnel": counts, "partitions": partitions, "ids": [result.facts["ids"] for result in written]}
            files = {name: fact for result in (*source.results, *written) for name, fact in result.files.items()}
            job.stamps.check()  # for the index cannot be rolled back
            manifest.add(ADMIT, files, facts)
            if taken_in is None:
                bad = read_rejected(context.folder, layout).positions(layout.files)
                collection.forget(numbers.start + source.numbers(bad))
                collection.commit({run: (numbers.start, numbers.stop)})
        return facts


def refuse_with_index(
    chosen: Mapping[str, object], on_error: str, key: str | None, others: Mapping[str, object]
) -> None:
    """ParameterError for options that an index cannot combine with: other ways to decide, and `others`."""
    for name, only in {"verify": "exact", "resolve": "kept"}.items():
        if (value := chosen[name]) != only:
            raise ParameterError(f"--{name} is {value!r}, and --index allows only {only!r}; leave it out")
    refuse_given(others, "{} and --index cannot be combined; leave one of the two out")
    if on_error == "skip" and key is not None:
        raise ParameterError(
            "--on-error is 'skip', but --index with --id-column needs an id for each record, also for bad ones;"
            " leave --id-column out, and keys are FILE:ROW"
        )


class OrderedInput:
    """`io.rows.TextSource` of all documents of partitions in decision order: by position, unless arranged."""

    def __init__(self, context: JobContext, partitions: Sequence[Partition]) -> None:
        self._context, self._partitions = context, partitions
        self.results: list[TaskResult] = []  # of each partition that was read: the facts of its documents
        self._rank: Numbers | None = None  # of each document, if not by position
        job = context.job
        assert job.earlier is not None
        self.named = FileTexts(job.files, replace(job.columns, id=job.earlier.key), stamps=job.stamps)

    def arrange(self, manifest: Manifest, total: int | None, stages: Stages, *, texts: bool) -> None:
        """Read the facts and the values of `--keep`, and order the documents by them; copy `texts` into that order."""
        context, partitions, job = self._context, self._partitions, self._context.job
        surveyed = stages.run("survey", read_order_values, zip(partitions), total, parallel=stages.parallel)
        if job.policy.order_column is not None:
            check_kinds((kind for facts in surveyed for kind in facts["kinds"]), job.policy.order_column)
        for facts in surveyed:
            self.named.add(PartitionFacts(rows=dict(enumerate(facts["rows"], facts["first_file"]))))
        steps = (manifest.find(step_of("survey", number)) for number in range(len(partitions)))
        self.results = [TaskResult(step.files, step.facts) for step in steps if step]
        layout = job.layout(surveyed)
        (facts,) = stages.run_tasks("rank", [Task(RANK, rank_documents, (layout,))], len(layout))
        self._groups = int(facts["groups"])
        self._rank = RANKS.read(context.folder, RANK).rank
        self._ordered = np.argsort(self._rank)
        if texts:
            members = ((layout, partition, RANK) for partition in partitions)
            stages.run("arrange", gather_texts, members, len(layout), parallel=True, step="gather")

    def batches(self, max_bytes: int) -> Iterator[TextBatch]:
        """All documents once; by position, the facts of each partition are written once it was read."""
        folder, progress = self._context.folder, self._context.progress
        if self._rank is None:
            for partition in self._partitions:
                with RejectionsFile(folder, partition.number) as bad:
                    facts = PartitionFacts(rejected=bad)
                    yield from self._context.read(partition.pieces, facts, max_bytes=max_bytes)
                    self.results.append(write_facts(self._context, partition, facts, bad))
                self.named.add(facts)
            return
        for group in range(self._groups):
            texts = GroupTexts(folder, group, ((number, None) for number in range(len(self._partitions))))
            batch = texts.take(np.argsort(self._rank[texts.documents]))
            yield from split_batch(batch, max_bytes)
            progress.advance(int(batch.offset[-1]))
            progress.count(documents=len(batch))

    def read_facts(self) -> None:
        """Read the documents for their facts alone, unless `arrange` has read these."""
        if not self.results:
            for _ in self.batches(self._context.ops.sizes().batch):
                pass

    def keys(self) -> Iterator[pa.Array]:
        """The keys of the documents, once all were read."""
        if self._rank is None:
            yield from keys_of_files(self.named)
            return
        by_position = KeyStream(keys_of_files(self.named), None).take(len(self.named))
        for start in range(0, len(self._ordered), KEYS_AT_ONCE):
            yield by_position.take(pa.array(self._ordered[start : start + KEYS_AT_ONCE]))

    def origin(self) -> Origin:
        """Where the documents can be read again."""
        found = origin_of(self.named)
        if self._rank is None:
            return found
        return replace(found, locate=lambda places: found.locate(self._ordered[places]))

    def names(self) -> KeyNames:
        """How messages name the keys of the documents."""
        found = names_of_files(self.named)
        return found if self._rank is None else replace(found, place=lambda at: found.place(int(self._ordered[at])))

    def numbers(self, positions: Numbers) -> Numbers:
        """The places in this order of documents at `positions`."""
        return positions if self._rank is None else self._rank[positions]

    def decisions(self, collection: Collection, numbers: range) -> Callable[[range], Iterator[Documents]]:
        """A function from some of `numbers`, as if by position, to the decisions of the index about these documents."""
        if self._rank is None:
            return collection.decisions
        whole = Documents.joined(collection.decisions(numbers))
        if len(whole.number) == len(self._rank):  # otherwise the index has lost some, which `_Decisions` reports
            own = whole.witness >= numbers.start
            whole.witness[own] = self._ordered[whole.witness[own] - numbers.start] + numbers.start
            whole = whole.where(self._rank)._replace(number=whole.number)
        return lambda some: iter([whole.where(slice(some.start - numbers.start, some.stop - numbers.start))])


class _Decisions:
    """The decisions of an index about documents by position, in 1 byte each, or 9 if dropped for an outside one."""

    def __init__(
        self, collection: Collection, decided: Callable[[range], Iterator[Documents]], numbers: range, layout: Layout
    ) -> None:
        self._collection, self._decided, self._numbers, self._layout = collection, decided, numbers, layout
        self._is_witness = np.zeros(len(numbers), bool)
        self.dropped = self.earlier = found = 0
        witnesses, positions = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for documents in decided(numbers):
            found += len(documents.number)
            rows = np.flatnonzero(documents.witness != documents.number)
            witness = documents.witness[rows]
            old = witness < numbers.start
            self._is_witness[witness[~old] - numbers.start] = True
            self.dropped, self.earlier = self.dropped + len(rows), self.earlier + int(old.sum())
            # Whether the witness comes before the documents dropped for it.
            own_first = ~old & (witness < documents.number[rows])
            first, places = np.unique(witness[~own_first], return_index=True)
            witnesses.append(first)
            positions.append(documents.number[rows[~own_first][places]] - numbers.start)
        if found != len(numbers) or found != len(layout):
            raise OutputError(f"{collection.path}: has lost documents of this run; start again with --overwrite")
        self._witnesses, places = np.unique(np.concatenate(witnesses), return_index=True)
        self._first = np.concatenate(positions)[places]

    def write(self, context: JobContext, partition: int) -> TaskResult:
        """Write the decisions of a partition, and its earlier witnesses, ascending, with their keys."""
        base = self._numbers.start
        start, stop = (base + bound for bound in self._layout.bounds(partition))
        documents = Documents.joined(self._decided(range(start, stop)))
        old = documents.witness < base
        dropped = documents.witness != documents.number
        cluster = documents.witness - base
        has_first = is_in(documents.witness, self._witnesses)
        cluster[has_first] = self._first[np.searchsorted(self._witnesses, documents.witness[has_first])]
        is_witness = self._is_witness[start - base : stop - base]
        columns = Decisions(
            documents.number - base,
            np.where(old, ~documents.witness, documents.witness - base),
            documents.similarity.astype(np.float32),
            cluster,
            is_witness,
            ~dropped,
            *(np.full(len(dropped), number) for number in (0, 0, 1)),  # an index counts for itself
        )
        made = write_decisions(context, self._layout, partition, DECISIONS.rows(columns, dropped | is_witness))
        witnesses = sorted_distinct(documents.witness[old])
        earlier = EarlierDocuments(witnesses, self._collection.contents.keys(witnesses))
        return replace(made, files={**made.files, **EARLIER.write(context.folder, partition, earlier)})
