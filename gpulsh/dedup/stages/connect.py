"""connect: who is connected by candidate pairs, large buckets and copies, of several ranges together; then groups.

Connected documents are a star: each with the least of them. Stars of several ranges, `stars` (document, label, pairs),
and those of copies merge in a tree; `pairs` counts the candidate pairs, of a copy alone there are none. The last task
makes `members` (document, group, meets), ascending, whole components together; `meets` tells documents in pairs and
buckets from those that are only copies. A merge holds 41 bytes of a document that it connects, and a piece of a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsh.backends.protocol import Backend
from gpulsh.dedup.placed import Numbers, Placed
from gpulsh.dedup.stages.facts import sizes_of
from gpulsh.dedup.task import Made, Workplace
from gpulsh.lsh.comparison import runs_within
from gpulsh.store.columns import MappedColumns

FAN = 16  # files that are merged at once
EDGES_AT_ONCE = 1 << 20
DOCUMENT_COST = 256  # bytes that a document in hand costs beside its text
PAIR_COST = 96
NO_PAIR = -1  # of a document that is only a copy


def star_of(edges: Numbers, pairs: Numbers, ops: Backend) -> dict[str, Numbers]:
    """The documents of `edges` [m, 2], ascending; the least that each is connected with; how often it is in `pairs`."""
    documents, places = np.unique(edges, return_inverse=True)
    label = ops.asnumpy(ops.components(len(documents), ops.asarray(places.reshape(edges.shape))))
    count = np.bincount(np.searchsorted(documents, pairs), minlength=len(documents))
    return {"document": documents, "label": documents[label], "pairs": count}


def connect(place: Workplace, step: str, stars: Sequence[Path], copies: Sequence[Path]) -> Made:
    """Merge files of stars, and of copies."""
    merged = _merged(place.ops, stars, copies)
    columns = {"document": merged.document, "label": merged.document[merged.label], "pairs": merged.pairs}
    return _made(place, step, "stars", columns, {})


def group(place: Workplace, placed: Placed, stars: Sequence[Path], copies: Sequence[Path]) -> Made:
    """The same of all that there are, and put whole components into groups."""
    merged = _merged(place.ops, stars, copies)
    groups = _grouped(merged, place, placed)
    meets = merged.pairs != NO_PAIR
    columns = {"document": merged.document, "group": groups, "meets": meets}
    facts = {"groups": int(groups.max(initial=-1)) + 1, "documents": len(groups), "meeting": int(meets.sum())}
    return _made(place, "connect", "members", columns, facts)


@dataclass(frozen=True)
class _Merged:
    document: Numbers  # [m] ascending
    label: Numbers  # [m] the place of the least document that each is connected with
    pairs: Numbers  # [m]


def _merged(ops: Backend, stars: Sequence[Path], copies: Sequence[Path]) -> _Merged:
    document = np.empty(0, np.int64)
    for path in stars:
        document = _union(document, MappedColumns(path).column("document"))
    for path in copies:
        columns = MappedColumns(path)
        for name in ("document", "first"):
            document = _union(document, np.unique(columns.column(name)))
    label, pairs = np.arange(len(document)), np.full(len(document), NO_PAIR, np.int64)
    for path in stars:
        columns = MappedColumns(path)
        places, count = np.searchsorted(document, columns.column("document")), columns.column("pairs")
        met = places[count != NO_PAIR]
        pairs[met] = np.maximum(pairs[met], 0) + count[count != NO_PAIR]
    with ops.here():
        for edges in _edges(stars, copies):
            ends = label[np.searchsorted(document, edges)]
            apart = ends[ends[:, 0] != ends[:, 1]]
            known, places = np.unique(apart, return_inverse=True)
            least = ops.asnumpy(ops.components(len(known), ops.asarray(places.reshape(apart.shape))))
            parent = np.arange(len(document))
            parent[known] = known[least]
            label = parent[label]
    return _Merged(document, label, pairs)


def _union(known: Numbers, more: Numbers) -> Numbers:
    """Two ascending columns as one."""
    places = np.searchsorted(known, more)
    fresh = np.ones(len(more), bool)
    inside = places < len(known)
    fresh[inside] = known[places[inside]] != more[inside]
    return np.insert(known, places[fresh], more[fresh])


def _edges(stars: Sequence[Path], copies: Sequence[Path]) -> Iterator[Numbers]:
    """Connected documents [m, 2], a piece of a file at a time."""
    for paths, name in ((stars, "label"), (copies, "first")):
        for path in paths:
            columns = MappedColumns(path)
            document, other = columns.column("document"), columns.column(name)
            for start in range(0, len(document), EDGES_AT_ONCE):
                part = slice(start, start + EDGES_AT_ONCE)
                yield np.stack([other[part], document[part]], axis=1)


def _grouped(merged: _Merged, place: Workplace, placed: Placed) -> Numbers:
    """int64 [m]: groups of whole components, in order of their labels, each of at most `Cut.group` unless one alone."""
    roots = np.flatnonzero(merged.label == np.arange(len(merged.label)))
    component = np.searchsorted(roots, merged.label)
    costs = np.zeros(len(roots))
    for _, part in placed.by_partition(merged.document):
        pairs, meets = merged.pairs[part], merged.pairs[part] != NO_PAIR
        cost = DOCUMENT_COST + PAIR_COST * np.maximum(pairs, 0)
        cost[meets] += sizes_of(merged.document[part][meets], place.folder, placed)
        costs += np.bincount(component[part], cost, len(roots))
    of_component = np.empty(len(roots), np.int64)
    for number, (start, stop) in enumerate(runs_within(np.cumsum(costs).astype(np.int64), place.job.cut.group)):
        of_component[start:stop] = number
    return of_component[component]


def _made(
    place: Workplace, step: str, what: str, columns: Mapping[str, NDArray[Any]], facts: Mapping[str, int]
) -> Made:
    place.progress.advance(1)
    return Made(place.write(step, **{what: columns}), {**facts, "amount": 1})
