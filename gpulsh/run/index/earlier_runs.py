"""`--index`: a run drops its documents for documents of earlier runs, too, and adds them to the index.

A run writes four things, each durable before the next: its name in its manifest, its decisions in the work folder, a
commit of the index that contains the name, and its results. So a resumed run finds by its name whether the index
contains its documents. If it does, the decisions are valid, and the index replaces damaged ones. If not, the run
decides again.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Numbers
from gpulsh.backends.select import select_backend
from gpulsh.errors import OutputError, ParameterError
from gpulsh.index.collection import Collection
from gpulsh.index.evidence.places import place_keys
from gpulsh.index.folder import has_index
from gpulsh.index.index import Index
from gpulsh.index.segment import Documents, among
from gpulsh.io.files.file_texts import Partition
from gpulsh.method import Asked, Method
from gpulsh.params import EvidenceName
from gpulsh.ragged import sorted_distinct
from gpulsh.run.driver import Decided, Decider, Stages
from gpulsh.run.index.jobs import refuse_other_ids, refuse_places
from gpulsh.run.index.ordered_input import InDecisionOrder, Numbered, OrderedInput
from gpulsh.run.job import ADMIT, Layout, Made, Workplace, report_done, tallied
from gpulsh.run.records.documents import rejected
from gpulsh.run.records.tables import DECISIONS, EARLIER, Decisions, EarlierDocuments
from gpulsh.run.stages.write import runs_of, step_of_run, write_decisions
from gpulsh.stats.counts import COUNTS
from gpulsh.stats.stages import OF_FILES_WITH_INDEX, Funnel
from gpulsh.store.columns import release_memory
from gpulsh.store.manifest import Manifest

RUN = "run"  # the step that gives the run its name
EVIDENCE = "evidence"


class EarlierRuns:
    """The index of earlier runs, or of this first one; `where` are the parameters of `Index` that affect no result.

    `evidence` is the kind of the index; None: the kind of an existing one, or "index".

    Raises InputError if the index is damaged, ParameterError if it was made with other parameters.
    """

    def __init__(
        self,
        path: str,
        key: str | None,
        asked: Asked,
        where: Mapping[str, Any],
        secret: bytes,
        evidence: EvidenceName | None = None,
    ) -> None:
        self.path, self.key = Path(path), key
        self._asked, self._where, self._secret, self._evidence = asked, where, secret, evidence
        self._index = self._existing() if has_index(self.path) else None

    def _existing(self) -> Index:
        index = Index.open(self.path, **self._asked.given(), **self._where, evidence=self._evidence)
        refuse_places(index.collection, self.path, self.key)
        return index

    def method(self) -> Method:
        """The index's parameters."""
        return self._asked.method() if self._index is None else self._index.parameters

    def decider(self, place: Workplace, manifest: Manifest, *, remote: bool) -> Decider:
        """The decider for a run: this process, even if `remote` ones run the tasks."""
        if remote:
            where = dict(self._where)
            place = replace(place, ops=select_backend(where.pop("backend"), **where))
        return Admission(self, place, manifest).decide

    def opened(self) -> Index:
        """The index, made if there is none."""
        if self._index is None:
            parameters = {**self._asked.given(), **self._where, "evidence": self._evidence or "index"}
            try:
                self._index = Index.create(self.path, **parameters, secret=self._secret)
            except OutputError:
                if not has_index(self.path):
                    raise
                self._index = self._existing()  # another run made it after the start of this one
                if self._index.parameters.matching() != self._asked.method().matching():
                    raise ParameterError(
                        f"{self.path}: another run made it meanwhile, with other parameters; start again"
                    ) from None
        return self._index

    def taken_in_by(self, run: str) -> range | None:
        """The numbers of the documents that the index contains for the run."""
        folder = None if self._index is None else self._index.collection.folder
        taken = folder.manifest.runs.get(run) if folder else None
        return None if taken is None else range(*taken)


NEEDED = {"verify": "exact", "resolve": "kept"}


def refuse_with_index(
    chosen: Mapping[str, object], on_error: str, key: str | None, others: Mapping[str, object]
) -> None:
    """ParameterError for options that an index cannot combine with: other values than `NEEDED`, and `others`."""
    for name, only in NEEDED.items():
        if (value := chosen[name]) != only:
            raise ParameterError(f"{name} is {value!r}, and with an index only {only!r} is possible; leave it out")
    for name, given in others.items():
        if given:
            raise ParameterError(f"{name} cannot be combined with an index; leave one of the two out")
    if on_error == "skip" and key is not None:
        raise ParameterError(
            "on_error is 'skip', but an index with id_column needs an id for each record, also for bad ones;"
            " leave id_column out, and keys are FILE:ROW"
        )


@dataclass(frozen=True)
class Admission:
    """A run whose documents an index decides about."""

    earlier: EarlierRuns
    place: Workplace
    manifest: Manifest

    def decide(self, partitions: Sequence[Partition], total: int | None, stages: Stages) -> Decided:
        """Decide and add the documents, or read the decisions of an interrupted run."""
        named, funnel = self.manifest.finished(RUN), stages.funnel
        if named is None:
            named = {"name": secrets.token_hex(16)}
            self.manifest.add(RUN, {}, named)
        run = str(named["name"])
        taken_in = self.earlier.taken_in_by(run)
        facts = self.manifest.finished(ADMIT) if taken_in else None
        source = OrderedInput(self.place, partitions)
        if facts is None and self.place.job.policy.keep != "first":
            given = self.place, self.manifest, partitions, total, stages
            source = InDecisionOrder(*given, texts=taken_in is None)
        with funnel.stage(self.place.progress, OF_FILES_WITH_INDEX["admit"], total):
            if facts is None:
                with self.place.unchanged(range(len(self.place.job.files))):
                    facts = self._admitted(run, taken_in, source)
            else:
                read = facts["funnel"]
                done = {"amount": read["bytes"], "documents": read["documents"]}
                report_done(done, "B", self.place.progress, before=True)
                funnel.resumed = [ADMIT]
        release_memory()
        for name, count in facts["funnel"].items():
            setattr(funnel, name, count)
        self.place.progress.count(dropped=funnel.dropped)
        return Decided(self.place.job.layout(facts["partitions"]), tuple(facts["ids"]))

    def _admitted(self, run: str, taken_in: range | None, source: OrderedInput) -> Mapping[str, Any]:
        """Decide and add the documents; the facts of the decisions, once both are durable."""
        job = self.place.job
        if taken_in is None:
            self._refuse_results()
        tally = Funnel()
        with self.earlier.opened() as index:
            collection = index.collection
            if taken_in is None:
                self._refuse_known(index, source)
                origin = source.origin() if collection.evidence == "source" else None
                numbers = collection.take_in(
                    source, source.keys, decide=True, tally=tally, names=source.names(), origin=origin
                )
                before: Mapping[str, Any] = {name: tally[name] for name in COUNTS}
            else:
                source.read_again()
                numbers = taken_in
                recorded = self.manifest.find(ADMIT)
                before = recorded.facts["funnel"] if recorded else {}
            read = [made.facts for made in source.made]
            layout = job.layout(read)
            release_memory()
            decisions = _Decisions(collection, source.decisions(collection, numbers), numbers, layout)
            made = [self._written(decisions, number) for number in range(len(source.made))]
            counts = {name: tallied(read, name) for name in ("bytes", "nulls", "not_utf8", "stray_bytes")}
            decided = {"dropped": decisions.dropped, "earlier": decisions.earlier}
            kept, wordless = len(layout) - decisions.dropped, before.get("empty", 0) - counts["nulls"]
            facts = {
                "funnel": {**before, **counts, **decided, "wordless": wordless, "kept": kept},
                "partitions": read,
                "ids": [part.facts["ids"] for part in made],
            }
            files = {name: fact for part in (*source.made, *made) for name, fact in part.files.items()}
            job.stamps.check()  # for the index cannot be rolled back
            self.manifest.add(ADMIT, files, facts)
            if taken_in is None:
                collection.forget(numbers.start + source.numbers(self._rejected(layout)))
                collection.commit({run: (numbers.start, numbers.stop)})
        return facts

    def _written(self, decisions: _Decisions, partition: int) -> Made:
        layout, folder = decisions.layout, self.place.folder
        columns, witnesses, keys = decisions.of(partition)
        made = write_decisions(self.place, layout, partition, columns)
        earlier = EARLIER.write(folder, partition, EarlierDocuments(witnesses, keys))
        return replace(made, files={**made.files, **earlier})

    def _rejected(self, layout: Layout) -> Numbers:
        """Positions of rejected rows."""
        bad, found = rejected(self.place.folder, layout), [np.empty(0, np.int64)]
        for number, (start, stop) in enumerate(zip(layout.files, layout.files[1:], strict=False)):
            if bad.touches(number):
                found.append(np.flatnonzero(~bad.left_out(np.ones(int(stop - start), bool), number)) + start)
        return np.concatenate(found)

    def _refuse_results(self) -> None:
        """OutputError if the run has results, but the index does not contain its name."""
        written = map(step_of_run, runs_of(self.place.job))
        if any(self.manifest.find(step) for step in (*written, EVIDENCE)):
            raise OutputError(
                f"{self.earlier.path}: has lost the documents of this run, which it contained before; restore it from a"
                " copy, or start again with --overwrite"
            )

    def _refuse_known(self, index: Index, source: OrderedInput) -> None:
        """ParameterError if the first key of a file is in the index, or of another kind; others are checked later."""
        refuse_other_ids(index.collection, self.earlier.path, source.named)
        for file in () if self.earlier.key else self.place.job.files:
            (key,) = place_keys(file.name, np.zeros(1, np.int64)).to_pylist()
            if key in index:
                raise ParameterError(
                    f"{self.earlier.path}: has a document with the key {key!r}, so it contains {file.name} already;"
                    " leave the file out, or give --id-column"
                )


class _Decisions:
    """The decisions of an index about documents by position, in 1 byte each, or 9 if dropped for an outside one."""

    def __init__(self, collection: Collection, decided: Numbered, numbers: range, layout: Layout) -> None:
        self._catalogue, self._decided, self._numbers, self.layout = collection, decided, numbers, layout
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
            own_first = ~old & (
                witness < documents.number[rows]
            )  # the witness comes before the documents dropped for it
            first, places = np.unique(witness[~own_first], return_index=True)
            witnesses.append(first)
            positions.append(documents.number[rows[~own_first][places]] - numbers.start)
        if found != len(numbers) or found != len(layout):
            raise OutputError(f"{collection.path}: has lost documents of this run; start again with --overwrite")
        self._witnesses, places = np.unique(np.concatenate(witnesses), return_index=True)
        self._first = np.concatenate(positions)[places]

    def of(self, partition: int) -> tuple[Decisions, Numbers, pa.Array]:
        """DECISIONS of a partition; its earlier witnesses, ascending, and their keys."""
        base = self._numbers.start
        start, stop = (base + self.layout.partitions[partition : partition + 2]).tolist()
        documents = Documents.joined(self._decided(range(start, stop)))
        old = documents.witness < base
        dropped = documents.witness != documents.number
        cluster = documents.witness - base
        has_first = among(documents.witness, self._witnesses)
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
        witnesses = sorted_distinct(documents.witness[old])
        return DECISIONS.rows(columns, dropped | is_witness), witnesses, self._catalogue.snapshot().keys(witnesses)
