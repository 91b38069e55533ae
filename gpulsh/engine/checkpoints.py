"""A job in steps that are finished one by one and found finished when it is run again: sign, decide, write.

A step is one partition signed, all documents decided, or one output file written. Its files are durable before the
manifest names it; a step whose files are damaged is done again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Signed
from gpulsh.backends.protocol import Backend
from gpulsh.dedup.decision import COLUMNS, Decision
from gpulsh.dedup.funnel import Funnel
from gpulsh.dedup.plan import Plan
from gpulsh.dedup.progress import Progress
from gpulsh.dedup.signed import SignedDocuments
from gpulsh.dedup.stages import sign_batches
from gpulsh.io.buffers import booleans, strings
from gpulsh.io.file_texts import FileTexts, Partition, PartitionFacts
from gpulsh.io.rejected import end_to_end
from gpulsh.store.columns import MappedColumns, StoredRows, columns_file, write_columns
from gpulsh.store.durable import FileFact, fact_of, put_in_place
from gpulsh.store.manifest import Manifest

PARTITION_BYTES = 256 << 20  # of text that is signed in one step
PARTITION_BATCHES = 16  # at least so many batches, for each step waits for its last one
EXACT = ("exact0", "exact1")

_log = logging.getLogger("gpulsh")


def sign_partitions(
    texts: FileTexts, plan: Plan, ops: Backend, progress: Progress, manifest: Manifest, folder: Path, total: int | None
) -> SignedDocuments:
    """`dedup.stages.sign`, partition by partition, with what it gives on disk in `folder`."""
    funnel = Funnel()
    files = []
    texts.forget()
    target = max(PARTITION_BYTES, PARTITION_BATCHES * ops.sizes().batch)
    with funnel.stage(progress, "sign", total, "B"):
        for partition in texts.partitions(target):
            step = folder / f"sign-{partition.number:06d}"
            found = _finished(manifest, step.name)
            if found is None:
                found = _sign_partition(texts, partition, step, plan, ops, funnel, progress, manifest)
            else:
                funnel.bytes += found["bytes"]
                progress.advance(found["bytes"])
                progress.count(documents=sum(found["rows"].values()))
            files.append(MappedColumns(_file(step)))
            texts.add(_facts(found, step))
    return SignedDocuments.counted(
        StoredRows(files, _bands(plan), np.uint64),
        StoredRows(files, EXACT, np.uint64),
        StoredRows(files, ["shingles"], np.int64),
        *(texts.nulls(), funnel, ops),
    )


def _sign_partition(
    texts: FileTexts,
    partition: Partition,
    step: Path,
    plan: Plan,
    ops: Backend,
    funnel: Funnel,
    progress: Progress,
    manifest: Manifest,
) -> Mapping[str, Any]:
    """Sign the documents of a partition into files whose names begin with `step`; the facts of the finished step."""
    facts = PartitionFacts()
    before = funnel.bytes
    signed = sign_batches(texts.read(partition.pieces, ops.sizes().batch, facts), plan, ops, funnel, progress)
    made = {_file(step): _write_signed(_file(step), signed, _bands(plan), ops)}
    keys = list(_stored_keys(facts.keys))
    columns: dict[str, Mapping[str, Any]] = {"sizes": {"sizes": np.concatenate([np.empty(0, np.int64), *facts.sizes])}}
    columns |= {f"key{number}": {"key": stored} for number, stored in enumerate(keys)}
    if facts.rejected:
        columns["rejected"] = end_to_end(facts.rejected)
    made |= {_file(step, what): write_columns(_file(step, what), values) for what, values in columns.items()}
    found = {
        "bytes": funnel.bytes - before,
        "nulls": facts.nulls,
        "rows": {str(number): rows for number, rows in facts.rows.items()},
        "keys": len(keys),
        "rejected": bool(facts.rejected),
    }
    manifest.add(step.name, {path.name: fact for path, fact in made.items()}, found)
    return found


def _file(step: Path, what: str | None = None) -> Path:
    """Of a step that signs: its signed documents, or something else that it keeps."""
    return step.with_name(f"{step.name}-{what}.arrow" if what else f"{step.name}.arrow")


def _bands(plan: Plan) -> list[str]:
    """Names of the columns of digests."""
    return [f"band{number}" for number in range(plan.banding.bands)]


def worth_resuming(manifest: Manifest) -> bool:
    """Whether finished steps have taken so long that they should outlive an error; a killed run leaves them anyway."""
    signed: int = sum(step.facts.get("bytes", 0) for step in manifest.steps())
    return signed >= PARTITION_BYTES


def decide_once(decide: Callable[[], Decision], manifest: Manifest, folder: Path) -> Decision:
    """What `decide` gives, or gave when it was a step of this job before; then without the pairs."""
    found, path = _finished(manifest, "decide"), folder / "decide.arrow"
    if found is None:
        decision = decide().to_numpy()
        fact = write_columns(path, {name: getattr(decision, name) for name in COLUMNS})
        manifest.add("decide", {path.name: fact}, {"funnel": decision.funnel.to_dict()})
        return decision
    columns = MappedColumns(path)
    keep, (duplicate_of, similarity, cluster) = booleans(columns.array(COLUMNS[0])), map(columns.column, COLUMNS[1:])
    known = {field.name for field in fields(Funnel)}
    funnel = Funnel(**{name: value for name, value in found["funnel"].items() if name in known})
    no_pairs = np.empty((0, 2), np.int64)
    return Decision(keep, duplicate_of, similarity, cluster, no_pairs, np.empty(0, np.float32), funnel)


def write_once(step: str, target: Path, write: Callable[[str], None], manifest: Manifest, folder: Path) -> None:
    """An output file at `target`, below `folder`, by `write`, which is given the path to write to."""
    if _finished(manifest, step) is not None:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    write(str(part))
    if not part.exists():  # of a file of one document that is dropped nothing is written
        manifest.add(step, {}, {})
        return
    put_in_place(part, target)
    fact = fact_of(target)
    assert fact is not None
    manifest.add(step, {target.relative_to(folder).as_posix(): fact}, {})


def _finished(manifest: Manifest, step: str) -> Mapping[str, Any] | None:
    """The facts of a step that needs not be done again."""
    found = manifest.find(step)
    damaged = manifest.damaged(found) if found else None
    if damaged is not None:
        _log.warning("%s is missing or damaged; what it held is computed again", damaged)
    return found.facts if found and damaged is None else None


def _write_signed(path: Path, signed: Iterable[Signed], names: Sequence[str], ops: Backend) -> FileFact:
    """The signed documents of a partition, written as they come."""
    fields = [*((name, pa.uint64()) for name in (*names, *EXACT)), ("shingles", pa.int64())]
    with columns_file(path, pa.schema(fields)) as file:
        for part in signed:
            digests, exact = ops.asnumpy(part.digests), ops.asnumpy(part.exact)
            file.append([*map(np.ascontiguousarray, (*digests.T, *exact.T)), ops.asnumpy(part.shingles)])
        return file.finish()


def _stored_keys(blocks: list[Any]) -> Iterator[Any]:
    """The keys of a partition, an array for each run of blocks of one type; lists of Python numbers as JSON texts."""
    for kind, run in groupby(blocks, lambda block: block.type if isinstance(block, pa.Array) else None):
        if kind is not None:
            yield pa.concat_arrays(run)
        else:
            yield strings([json.dumps(value) for block in run for value in block])


def _facts(found: Mapping[str, Any], step: Path) -> PartitionFacts:
    """What the files of a step that signs tell of its documents."""
    sizes = MappedColumns(_file(step, "sizes")).column("sizes").copy()
    keys = []
    for number in range(found["keys"]):
        array = MappedColumns(_file(step, f"key{number}")).array("key")
        in_json = pa.types.is_string(array.type)  # a key column of strings is refused
        keys.append([json.loads(text) for text in array.to_pylist()] if in_json else array)
    rows = {int(number): count for number, count in found["rows"].items()}
    rejected = MappedColumns(_file(step, "rejected")).batches() if found["rejected"] else []
    return PartitionFacts([sizes], keys, rows, found["nulls"], rejected)
