"""What a report warns of: what the run said, clusters that are much of the corpus, INPUTs that lose much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpulsh.facts import Facts
from gpulsh.report.foreign import cluster_told, printable
from gpulsh.report.funnel import share

MUCH = 0.01  # of all documents, in one cluster
MANY = 1000  # documents, below which a cluster of a few is more than that
LOST = 0.5  # of the documents of an INPUT
MOST = 5  # lines of a kind


def cautions(report: Facts, inputs: Sequence[Facts]) -> list[str]:
    """A line each; `inputs` have the `rows`, `dropped` and `rejected` of each INPUT, by its `name`."""
    return [*report.get("hints", ()), *_of_clusters(report), *_of_inputs(inputs)]


def _of_clusters(report: Facts) -> Iterator[str]:
    documents = report["funnel"]["documents"]
    for cluster in report["evidence"]["clusters"].get("sample", ())[:MOST]:  # the largest come first
        if documents >= MANY and cluster["dropped"] > MUCH * documents:
            yield (
                f"{cluster_told(cluster['cluster'], report['files'])} loses {cluster['dropped']:,} documents,"
                f" {share(cluster['dropped'], documents)} of all; see whether they are a template, an error page or"
                " boilerplate"
            )


def _of_inputs(inputs: Sequence[Facts]) -> Iterator[str]:
    losing = [entry for entry in inputs if entry["dropped"] > LOST * (entry["rows"] - entry["rejected"])]
    for entry in losing[:MOST]:
        part = share(entry["dropped"], entry["rows"] - entry["rejected"])
        yield f"{printable(entry['name'])} loses {part} of its documents"
    if len(losing) > MOST:
        yield f"{len(losing) - MOST:,} more INPUTs lose more than half of their documents"
