"""A job in steps that are finished one by one and found finished when it is run again: sign, decide, write.

A step is one partition signed, all documents decided, or one output file written. Its files are durable before the
manifest names it; a step whose files are damaged is done again.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gpulsh.arrays import Signed
from gpulsh.backends.protocol import Backend
from gpulsh.dedup.decision import Decision
from gpulsh.dedup.funnel import Funnel
from gpulsh.dedup.plan import Plan
from gpulsh.dedup.progress import Progress
from gpulsh.dedup.signed import SignedDocuments
from gpulsh.dedup.stages import count_signed, sign_batches
from gpulsh.io.buffers import booleans, strings
from gpulsh.io.file_texts import FileTexts, PartitionFacts
from gpulsh.io.rejected import end_to_end
from gpulsh.store.columns import MappedColumns, StoredRows, columns_file, write_columns
from gpulsh.store.durable import FileFact, fact_of, sync_folder
from gpulsh.store.manifest import Manifest

PARTITION_BYTES = 256 << 20  # of text that is signed in one step
PARTITION_BATCHES = 16  # at least so many batches, for each step waits for its last one
EXACT = ("exact0", "exact1")
KEEP, DECIDED = "keep", ("duplicate_of", "similarity", "cluster")

_log = logging.getLogger("gpulsh")


def sign_partitions(
    texts: FileTexts, plan: Plan, ops: Backend, progress: Progress, manifest: Manifest, folder: Path, total: int | None
) -> SignedDocuments:
    """`dedup.stages.sign`, partition by partition, with what it gives on disk in `folder`."""
    funnel = Funnel()
    names = [f"band{number}" for number in range(plan.banding.bands)]
    files = []
    texts.forget()
    target = max(PARTITION_BYTES, PARTITION_BATCHES * ops.sizes().batch)
    with funnel.stage(progress, "sign", total, "B"):
        for partition in texts.partitions(target):
            step = f"sign-{partition.number:06d}"
            path = folder / f"{step}.arrow"
            found = _finished(manifest, step)
            if found is None:
                facts = PartitionFacts()
                batches = texts.read(partition.pieces, ops.sizes().batch, facts)
                before = funnel.bytes
                signed = sign_batches(batches, plan, ops, funnel, progress)
                made = {path.name: _write_signed(path, signed, names, ops)}
                sizes = np.concatenate([np.empty(0, np.int64), *facts.sizes])
                made[f"{step}-sizes.arrow"] = write_columns(folder / f"{step}-sizes.arrow", {"sizes": sizes})
                keys = 0
                for keys, stored in enumerate(_stored_keys(facts.keys), 1):
                    key_path = folder / f"{step}-key{keys - 1}.arrow"
                    made[key_path.name] = write_columns(key_path, {"key": stored})
                if facts.rejected:
                    rejected_path = folder / f"{step}-rejected.arrow"
                    made[rejected_path.name] = write_columns(rejected_path, end_to_end(facts.rejected))
                found = {
                    "bytes": funnel.bytes - before,
                    "nulls": facts.nulls,
                    "rows": {str(number): rows for number, rows in facts.rows.items()},
                    "keys": keys,
                    "rejected": bool(facts.rejected),
                }
                manifest.add(step, made, found)
            else:
                funnel.bytes += found["bytes"]
                progress.advance(found["bytes"])
                progress.count(documents=sum(found["rows"].values()))
            columns = MappedColumns(path)
            files.append(columns)
            texts.add(_facts(found, folder / step))
    signed_documents = SignedDocuments(
        StoredRows(files, names, np.uint64),
        StoredRows(files, EXACT, np.uint64),
        StoredRows(files, ["shingles"], np.int64),
        funnel,
    )
    count_signed(signed_documents, texts.nulls(), ops)
    return signed_documents


def worth_resuming(manifest: Manifest) -> bool:
    """Whether finished steps have taken so long that they should outlive an error; a killed run leaves them anyway."""
    signed: int = sum(step.facts.get("bytes", 0) for step in manifest.steps())
    return signed >= PARTITION_BYTES


def decide_once(decide: Callable[[], Decision], manifest: Manifest, folder: Path) -> Decision:
    """What `decide` gives, or gave when it was a step of this job before; then without the pairs."""
    found, path = _finished(manifest, "decide"), folder / "decide.arrow"
    if found is None:
        decision = decide().to_numpy()
        fact = write_columns(path, {name: getattr(decision, name) for name in (KEEP, *DECIDED)})
        manifest.add("decide", {path.name: fact}, {"funnel": decision.funnel.to_dict()})
        return decision
    columns = MappedColumns(path)
    keep, (duplicate_of, similarity, cluster) = booleans(columns.array(KEEP)), map(columns.column, DECIDED)
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
    with open(part, "rb") as file:
        os.fsync(file.fileno())
    os.replace(part, target)
    sync_folder(target.parent)
    fact = fact_of(target)
    assert fact is not None
    manifest.add(step, {target.relative_to(folder).as_posix(): fact}, {})


def _finished(manifest: Manifest, step: str) -> Mapping[str, Any] | None:
    """The facts of a step that needs not be done again."""
    damaged = manifest.damaged(step)
    if damaged is not None:
        _log.warning("%s is missing or damaged; what it held is computed again", damaged)
    found = manifest.find(step)
    return None if found is None else found.facts


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
    sizes = MappedColumns(step.with_name(f"{step.name}-sizes.arrow")).column("sizes").copy()
    keys = []
    for number in range(found["keys"]):
        array = MappedColumns(step.with_name(f"{step.name}-key{number}.arrow")).array("key")
        in_json = pa.types.is_string(array.type)  # a key column of strings is refused
        keys.append([json.loads(text) for text in array.to_pylist()] if in_json else array)
    rows = {int(number): count for number, count in found["rows"].items()}
    rejected = MappedColumns(step.with_name(f"{step.name}-rejected.arrow")).batches() if found["rejected"] else []
    return PartitionFacts([sizes], keys, rows, found["nulls"], rejected)
