"""The table of stages: runner, progress, planner and report take names and units from here.

Stages of two kinds of run may share a name: they do the same, and may count it in other units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpulsh.account import costs
from gpulsh.account.costs import Cost

OTHER = "other"  # what a report gives the seconds of a run that are no stage's
OTHER_MEANING = "start, checks, evidence and this summary"
COMPILE = "compile"  # and those in which stages waited for kernels
COMPILE_MEANING = "make kernels for this processor, which later runs need not where they are kept"


@dataclass(frozen=True)
class StageRow:
    """A row of the table."""

    name: str
    meaning: str
    unit: str  # of its progress; B are bytes of text
    cost: Cost | None = None  # None where the planner does not foretell it


def _table(*rows: StageRow) -> Mapping[str, StageRow]:
    return {row.name: row for row in rows}


# `deduplicate_files`, and the command.
OF_FILES = _table(
    StageRow("sign", "read every document, fold, cut into shingles, sign", "B", Cost("bytes of text", costs.sign)),
    StageRow("copies", "find exact copies by their hashes", "ranges", Cost("documents", costs.copies)),
    StageRow("collide", "sort band digests, find who shares a bucket", "bands", Cost("digests", costs.collide)),
    StageRow(
        "connect",
        "put documents that meet, directly or by others, into groups",
        "ranges",
        Cost("documents", costs.connect),
    ),
    StageRow("route", "bring candidate pairs and copies to their groups", "ranges", Cost("pairs", costs.route)),
    StageRow("gather", "read again the documents that met others", "documents", Cost("bytes of text", costs.gather)),
    StageRow("compare", "compare the candidate pairs of groups too large for one task", "pairs"),  # in verify's cost
    StageRow(
        "verify", "compare the other candidate pairs, decide what is kept", "documents", Cost("pairs", costs.verify)
    ),
    StageRow(
        "collect", "bring decisions back to where the documents lie", "partitions", Cost("documents", costs.collect)
    ),
    StageRow("write", "write kept rows and evidence", "documents", Cost("bytes of text", costs.write)),
)

# The same with an index of earlier runs, which decides in place of all stages before `write`.
OF_FILES_WITH_INDEX = _table(
    StageRow("admit", "compare every document with earlier ones, decide, take it into the index", "B"),
    OF_FILES["write"],
)

# `deduplicate`.
OF_MEMORY = _table(
    OF_FILES["sign"],
    StageRow("collide", "find exact copies, sort band digests, find who shares a bucket", "bands"),
    StageRow("read", "read again the documents that met others", "documents"),
    StageRow("verify", "compare the candidate pairs of small buckets", "pairs"),
    StageRow("resolve", "compare within large buckets, decide what is kept", "documents"),
)

# `gpulsh index`.
OF_INDEX = _table(
    StageRow("index", "compare every document with those held, decide, take it in", "B"),
    StageRow("save", "commit the index, write its evidence", "documents"),
    StageRow("query", "compare every document with those held", "B"),
)

# What a report may have seconds of.
REPORTED = {**OF_FILES, **OF_FILES_WITH_INDEX}
# What the planner foretells, in order.
COSTS = {row.name: row.cost for row in OF_FILES.values() if row.cost is not None}
FORETOLD = tuple(COSTS)
