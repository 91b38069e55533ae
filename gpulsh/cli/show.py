"""`gpulsh show`: dropped documents beside what is kept instead, in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from gpulsh.cli.terminal import marks, say_marked, tell


@click.command(short_help="Show what an earlier run dropped, beside what is kept instead.")
@click.argument("output", metavar="OUT")
@click.option("--cluster", type=int, metavar="N", help="Of the cluster N, as duplicates.parquet numbers it.")
@click.option("--id", "name", metavar="ID", help="With this id, or dropped for the document with this id.")
@click.option("--near-threshold", is_flag=True, help="The least similar first.")
@click.option(
    "--limit", type=click.IntRange(1), default=10, show_default=True, metavar="N", help="Show so many at most."
)
def show(output: str, cluster: int | None, name: str | None, near_threshold: bool, limit: int) -> None:
    """Show documents that were dropped in OUT, each beside the one it was dropped for, differences marked.

    Without a choice some are shown, from the least similar to the most, each of another cluster. Texts are read again
    from INPUT, where that is as it was. What differs is coloured in a terminal, and stands in [-brackets-] or
    {+braces+} elsewhere.
    """
    from gpulsh.report.originals import Review
    from gpulsh.run.output.finished import Finished

    finished = Finished.of(output)
    report = finished.report
    review = Review(finished.file("duplicates.parquet"), report)
    places = review.chosen(cluster=cluster, name=name, near_threshold=near_threshold)
    pairs = review.pairs(places[:limit])
    dropped = report["funnel"]["dropped"]
    of = f", {len(places):,} of them as asked for" if cluster is not None or name is not None else ""
    say_marked(f"{dropped:,} dropped{of}; shown are {len(pairs):,}\n")
    for pair in pairs:
        say_marked("\n".join(_told(pair, report)) + "\n")
    for told in review.missing.values():
        tell(f"gpulsh: no text to show: {told}")


def _told(pair: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[str]:
    from gpulsh.report.excerpts import marked
    from gpulsh.report.wording import cluster_name, measure_name, place_name

    parameters = report["parameters"]
    score = "not measured" if pair["similarity"] is None else f"{pair['similarity']:.4f}"
    yield f"{measure_name(parameters)} {score}, {cluster_name(pair['cluster'], report['files'])}"
    sides: Sequence[list[tuple[bool, str]]] = marked(pair["texts"], parameters)
    for kind, pieces in zip(("dropped", "kept"), sides, strict=True):
        yield f"{kind:<7}  {place_name(pair[kind])}"
        if text := marks(pieces, kept=kind == "kept"):
            yield f"  {text}"
