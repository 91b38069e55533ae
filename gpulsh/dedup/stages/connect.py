"""connect: who is connected by candidate pairs, large buckets and copies, of several ranges together; then groups.

Connected documents are a star: each with the least of them. Stars of several ranges merge in a tree, whose last makes
`members` (document, label, meets), ascending; `meets` tells documents in pairs and buckets from those that are only in
copies. `groups` (document, group, meets) puts whole components together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.protocol import Backend
from gpulsh.dedup.job import step_file
from gpulsh.dedup.placed import Numbers, Placed
from gpulsh.dedup.stages.facts import sizes_of
from gpulsh.dedup.task import Made, Workplace
from gpulsh.store.columns import MappedColumns, write_columns

FAN = 16  # files that are merged at once
DOCUMENT_COST = 256  # bytes that a document in hand costs beside its text


def connected(edges: Numbers, ops: Backend) -> dict[str, Numbers]:
    """The documents of `edges` [m, 2], ascending, and the least document that each is connected with."""
    documents, places = np.unique(edges, return_inverse=True)
    places = places.reshape(edges.shape)
    label = ops.asnumpy(ops.components(len(documents), ops.asarray(places)))
    return {"document": documents, "label": documents[label]}


def connect(place: Workplace, step: str, stars: Sequence[Path], copies: Sequence[Path]) -> Made:
    """Merge files of stars, and of copies."""
    return _made(place, step, _merged(place.ops, stars, copies), {})


def group(place: Workplace, placed: Placed, stars: Sequence[Path], copies: Sequence[Path]) -> Made:
    """The same of all that there are, and put whole components into groups."""
    members = _merged(place.ops, stars, copies)
    groups = _grouped(members["document"], members.pop("label"), members["meets"], place, placed)
    members = {"document": members["document"], "group": groups, "meets": members["meets"]}
    return _made(place, "connect", members, {"groups": int(groups.max(initial=-1)) + 1})


def _merged(ops: Backend, stars: Sequence[Path], copies: Sequence[Path]) -> dict[str, NDArray[Any]]:
    meeting = [np.empty(0, np.int64)]
    edges = [np.empty((0, 2), np.int64)]
    for path in stars:
        columns = MappedColumns(path)
        document = columns.column("document")
        edges.append(np.stack([columns.column("label"), document], axis=1))
        meeting.append(document[columns.flags("meets")] if "meets" in columns.names() else document)
    for path in copies:
        columns = MappedColumns(path)
        edges.append(np.stack([columns.column("first"), columns.column("document")], axis=1))
    with ops.here():
        members: dict[str, NDArray[Any]] = dict(connected(np.concatenate(edges), ops))
    members["meets"] = np.zeros(len(members["document"]), bool)
    members["meets"][np.searchsorted(members["document"], np.concatenate(meeting))] = True
    return members


def _made(place: Workplace, step: str, members: Mapping[str, NDArray[Any]], facts: Mapping[str, int]) -> Made:
    path = step_file(place.folder, step, "members")
    counts = {"documents": len(members["document"]), "meeting": int(members["meets"].sum())}
    place.progress.advance(1)
    return Made({path.name: write_columns(path, members)}, {**facts, **counts, "amount": 1})


def _grouped(document: Numbers, label: Numbers, meets: NDArray[np.bool_], place: Workplace, placed: Placed) -> Numbers:
    """int64 [m]: groups of whole components, in order of their labels, each of at most `Cut.group` unless one alone."""
    cost = np.full(len(document), DOCUMENT_COST, np.int64)
    cost[meets] += sizes_of(document[meets], place.folder, placed)
    order = np.argsort(label, kind="stable")
    starts = np.flatnonzero(np.diff(label[order], prepend=-1))
    costs = np.add.reduceat(cost[order], starts) if len(starts) else cost[:0]
    numbers = np.empty(len(starts), np.int64)
    number = held = 0
    for at, added in enumerate(costs.tolist()):
        if held and held + added > place.job.cut.group:
            number, held = number + 1, 0
        numbers[at] = number
        held += added
    group = np.empty(len(document), np.int64)
    group[order] = np.repeat(numbers, np.diff(starts, append=len(document)))
    return group
