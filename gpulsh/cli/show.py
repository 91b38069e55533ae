"""Commands about a finished run, `gpulsh show`, `report` and `weights`, and `gpulsh info` about this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import click

from gpulsh.cli import options as opt
from gpulsh.cli.terminal import conclude, mark_differences, note, say, say_marked


@click.command(short_help="Show dropped documents of a run and their kept duplicates.")
@click.argument("output", metavar="OUT")
@opt.number("--cluster", "N", "Number of a cluster, as in duplicates.parquet.")
@opt.value("--id name", "ID", "Id of a dropped document, or of a kept duplicate.")
@opt.flag("--near-threshold", "Show the least similar documents of all.")
@opt.number("--limit", "N", "Show at most N documents.", default=10)
def show(output: str, cluster: int | None, name: str | None, near_threshold: bool, limit: int) -> None:
    """Show documents that were dropped in OUT, each with its kept duplicate, and mark the differences.

    Without options, it shows documents of different clusters, from low to high similarity, and copies only if nothing
    else was dropped. It reads the texts again from INPUT, if that is unchanged. Differences are coloured in a terminal,
    and otherwise in [-brackets-] or {+braces+}.
    """
    from gpulsh.checks import check_integer, plural
    from gpulsh.report.originals import Review
    from gpulsh.run.output.finished import Finished

    check_integer("limit", limit, 1, 1_000_000)
    finished = Finished.of(output)
    report = finished.report
    review = Review(finished.file("duplicates.parquet"), report)
    places = review.select_rows(cluster=cluster, name=name, near_threshold=near_threshold)
    pairs = review.pairs(places[:limit])
    dropped = plural(report["funnel"]["dropped"], "dropped document")
    which = dropped if cluster is None and name is None else f"{len(places):,} matching of {dropped}"
    say_marked(f"Showing {len(pairs):,} of {which}.\n")
    for pair in pairs:
        say_marked("\n".join(_pair_lines(pair, report)) + "\n")
    for reason in dict.fromkeys(review.missing.values()):
        note(f"gpulsh: no text to show: {reason}")


def _pair_lines(pair: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[str]:
    from gpulsh.report.excerpts import run_differences
    from gpulsh.report.wording import cluster_name, measure_name, place_name

    parameters = report["parameters"]
    how = "estimated " if parameters["verify"] == "signature" else ""
    score = "not measured" if pair["similarity"] is None else f"{pair['similarity']:.4f}"
    yield f"{how}{measure_name(parameters)} {score}, {cluster_name(pair['cluster'], report['files'])}"
    for kind, pieces in zip(("dropped", "kept"), run_differences(pair["texts"], parameters), strict=True):
        yield f"{kind:<7}  {place_name(pair[kind])}"
        if text := mark_differences(pieces, kept=kind == "kept"):
            yield f"  {text}"


@click.command(short_help="Make report.html of an earlier run again.")
@click.argument("output", metavar="OUT")
@opt.value(
    "--by",
    "COLUMN",
    "Count dropped documents by the values of this column, such as lang. May be repeated.",
    multiple=True,
)
def report(output: str, by: tuple[str, ...]) -> None:
    """Write OUT/report.html again from OUT/report.json, for example if jinja2 was missing during the run.

    With --by, it reads a column again from INPUT, which must be unchanged, and adds the counts to report.json.
    """
    from gpulsh.memory_limit import memory_limit
    from gpulsh.run.output.finished import Finished

    finished = Finished.of(output)
    with memory_limit(finished.report["parameters"]["memory"], 1) if by else nullcontext():
        conclude(finished.remake_page(by))


@click.command(short_help="Add sampling weights to the rows of a run.")
@click.argument("run", metavar="OUT")
@opt.value("-o --output", "FOLDER", "New folder for the rows.", required=True)
@opt.value(
    "--weights",
    "FILE.json|txt360|log|cap:N",
    "Weights by the number of documents that a kept one represents. FILE.json maps least sizes to weights, as"
    ' {"1": 1, "2": 3}; FILE.json:LANGUAGE selects one of several.',
    required=True,
)
@opt.choice(
    "--weight-by", "verified", "component", help="Weight by 1 + copies + near, or by the size of the component."
)
def weights(run: str, output: str, weights: str, weight_by: str) -> None:
    """Write the rows of OUT/data to FOLDER, with a column of weights. OUT is a finished run of `gpulsh dedup`.

    The counts come from OUT/clusters.parquet, so INPUT is not needed. A row marked as dropped has the weight 0.
    OUT/data must have the rows as the run wrote them, in the same order.
    """
    from gpulsh.checks import plural
    from gpulsh.run.output.finished import weigh_run

    rows = weigh_run(run, output, weights, weight_by=weight_by)  # type: ignore[arg-type]
    conclude(f"Wrote {plural(rows, 'row')} with weights to {output}.")


@click.command(short_help="Show backends, devices and versions.")
@opt.flag("--json as_json", "Print JSON.")
def info(as_json: bool) -> None:
    """Show backends, devices, the memory of a run, the cache of compiled kernels, and versions of libraries.

    If a backend is not available, the output gives the reason.
    """
    from gpulsh.backends.kernel_cache import kernel_cache
    from gpulsh.backends.parallel import processors
    from gpulsh.backends.select import backend_status, select_backend
    from gpulsh.budget import memory_shares, parse_memory
    from gpulsh.checks import plural
    from gpulsh.cli.plan import device_shares
    from gpulsh.report.reproduce import versions
    from gpulsh.report.wording import size

    status, cache, gpus = backend_status(), kernel_cache(), list[str]()
    memory = {"host": parse_memory(None)}
    if status["cuda"] is None:
        from gpulsh.backends.cuda import devices

        gpus = devices()
        memory = memory_shares(memory["host"], select_backend("cuda", memory=memory["host"]).sizes())
    found: Mapping[str, Any] = {
        "backends": {name: {"available": reason is None, "reason": reason} for name, reason in status.items()},
        "devices": {"cpu": {"threads": processors()}, "cuda": gpus},
        "memory": memory,
        "kernels": {"cache": cache.folder, "refused": list(cache.refused)},
        "versions": versions(),
    }
    if as_json:
        say(json.dumps(found, indent=2))
        return
    sections = {
        "Backends": [(name, f"not available: {reason}" if reason else "works") for name, reason in status.items()],
        "Devices": [
            ("cpu", plural(processors(), "thread")),
            *((f"cuda:{place}", gpu) for place, gpu in enumerate(gpus)),
        ],
        "Memory of a run": [
            (size(memory["host"]), "by default, without --memory"),
            *((size(amount), what) for what, amount in device_shares(memory)),
        ],
        "Compiled CPU kernels": [
            ("folder", cache.folder or "none: each run compiles them again"),
            *(("refused", reason) for reason in cache.refused),
        ],
        "Versions": [(name, version or "not installed") for name, version in found["versions"].items()],
    }
    for heading, rows in sections.items():
        say("\n".join([heading, *(f"  {name:<12}{value}" for name, value in rows)]))
