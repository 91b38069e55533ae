"""The table of stages: runner, progress, planner and report take names and units from here.

Stages of two kinds of run may share a name: they do the same, and may count it in other units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

OTHER = "other"  # what a report gives the seconds of a run that are no stage's
OTHER_MEANING = "start, checks, evidence and this summary"
COMPILE = "compile"  # and those in which stages waited for kernels
COMPILE_MEANING = "compile kernels for this processor; later runs reuse them"


@dataclass(frozen=True)
class StageRow:
    """A row of the table."""

    name: str
    meaning: str
    unit: str  # of its progress; B are bytes of text
    cost: str | None = None  # the unit that its time grows with (`costs`); None where the planner does not estimate it


def _table(*rows: StageRow) -> Mapping[str, StageRow]:
    return {row.name: row for row in rows}


# `deduplicate_files`, and the command.
OF_FILES = _table(
    StageRow("sign", "read every document, fold, cut into shingles, sign", "B", "bytes of text"),
    StageRow("copies", "find exact copies by their hashes", "ranges", "documents"),
    StageRow("collide", "sort band digests, find documents that share a bucket", "bands", "digests"),
    StageRow("connect", "group documents that meet directly or through others", "ranges", "documents"),
    StageRow("route", "bring candidate pairs and copies to their groups", "ranges", "pairs"),
    StageRow("gather", "read the documents that met others again", "documents", "bytes of text"),
    StageRow("compare", "compare the candidate pairs of groups too large for one task", "pairs"),  # in verify's cost
    StageRow(
        "verify", "compare the other candidate pairs, decide which documents to keep", "documents", "bytes of text"
    ),
    StageRow("collect", "return decisions to the partitions of their documents", "partitions", "documents"),
    StageRow("write", "write kept rows and evidence", "documents", "bytes of text"),
)

# The same where the measure is containment, instead of "collide".
OF_CONTAINMENT = _table(
    StageRow("weigh", "count how many documents have each shingle", "ranges"),
    StageRow("prefix", "choose the rarest shingles of each document", "partitions"),
    StageRow("join", "find documents that share a rare shingle", "ranges"),
)

# The same with an index of earlier runs, which decides instead of all stages before `write`.
OF_FILES_WITH_INDEX = _table(
    StageRow("admit", "compare every document with earlier ones, decide, add it to the index", "B"),
    OF_FILES["write"],
)

# Before them where documents are kept by anything but their position.
OF_ORDER = _table(
    StageRow("survey", "read every document for its place by --keep", "B"),
    StageRow("arrange", "bring the texts into that order", "documents"),
)

# `deduplicate`.
OF_MEMORY = _table(
    OF_FILES["sign"],
    StageRow("collide", "find exact copies, sort band digests, find documents that share a bucket", "bands"),
    StageRow("read", "read the documents that met others again", "documents"),
    StageRow("verify", "compare the candidate pairs of small buckets", "pairs"),
    StageRow("resolve", "compare within large buckets, decide which documents to keep", "documents"),
)

# `gpulsh index`.
OF_INDEX = _table(
    StageRow("index", "compare every document with the index, decide, add it", "B"),
    StageRow("save", "commit the index, write its evidence", "documents"),
    StageRow("query", "compare every document with the index", "B"),
)

# What a report may have seconds of.
REPORTED = {**OF_FILES, **OF_CONTAINMENT, **OF_ORDER, **OF_FILES_WITH_INDEX}
# The stages that `gpulsh plan` estimates, in order.
COSTS = {row.name: row.cost for row in OF_FILES.values() if row.cost is not None}
ESTIMATED = tuple(COSTS)
