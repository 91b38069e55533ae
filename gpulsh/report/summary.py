"""The summary that a run prints: three sentences, and with `--verbose` a table of its counts and seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from gpulsh.checks import plural
from gpulsh.report.wording import measure_name, printable, share, size
from gpulsh.stats.counts import COUNTS, CountRow

ALWAYS_SHOWN = ("documents", "empty", "exact_copies", "candidates", "verified", "kept", "dropped")
WITHOUT_TEXTS = ("documents", "kept", "dropped")  # with --key-only
SHOWN_IF_ANY = ("protected", "contaminated", "few_sources", "rejected", "not_utf8", "stray_bytes")  # left out if 0
SHOWN_INPUTS = 10
MIN_SECONDS = 0.05  # seconds; a shorter stage would read as 0.0


def summary(report: Mapping[str, Any], output: str, *, earlier: bool) -> str:
    """A sentence each on documents, pairs, and where the results are; `earlier`: made by an earlier run."""
    funnel = report["funnel"]
    by_key, contaminated = funnel.get("key_copies", 0), funnel.get("contaminated", 0)
    documents, dropped = funnel["documents"] - funnel["protected"], funnel["dropped"] + contaminated
    copies = funnel["copies_of_kept"] + funnel["copies_of_dropped"]
    kinds = [
        f"{by_key:,} {'copy' if by_key == 1 else 'copies'} by key" if by_key else "",
        f"{copies:,} exact {'copy' if copies == 1 else 'copies'}" if copies else "",
        plural(funnel["near_duplicates"], "near-duplicate") if funnel["near_duplicates"] else "",
        f"{contaminated:,} with text of protected items" if contaminated else "",
    ]
    notes = [
        f"{plural(funnel['protected'], 'document')} protected" if funnel["protected"] else "",
        f"{plural(funnel['few_sources'], 'document')} left out, from too few sources" if funnel["few_sources"] else "",
        f"{plural(funnel['rejected'], 'bad record')} skipped" if funnel["rejected"] else "",
    ]
    why = f" ({share(dropped, documents)}): {', '.join(filter(None, kinds))}" if dropped else ""
    kept = f"Kept {funnel['kept']:,} of {plural(documents, 'document')} and dropped {dropped:,}{why}"
    where = results_sentence(report, output, resumed=bool(funnel["resumed"]), earlier=earlier)
    return "\n".join([f"{'; '.join(filter(None, [kept, *notes]))}.", f"{_pairs_sentence(report)}.", where])


def results_sentence(report: Mapping[str, Any], output: str, *, resumed: bool, earlier: bool) -> str:
    """Where the results are, and what made them; `earlier`: a run that had finished before."""
    if earlier:
        return f"Results are in {output}, from the finished run that began at {report['began']}."
    finished = "resumed and finished " if resumed else ""
    return f"Results are in {output}, {finished}after {report['seconds']:.1f} s on {_machine(report)}."


def _pairs_sentence(report: Mapping[str, Any]) -> str:
    funnel, parameters = report["funnel"], report["parameters"]
    similar, others = f"{funnel['similar']:,}", f"{funnel['dissimilar']:,}"
    pairs = plural(funnel["candidates"], "candidate pair")
    if parameters.get("key_only"):
        return f"Keys in {parameters['key']!r} were compared, and no texts"
    if not funnel["candidates"]:
        return "No pairs were candidates"
    if parameters["verify"] == "none":
        return f"{pairs} found, not compared: {similar} taken as duplicates"
    how = " by signature" if parameters["verify"] == "signature" else ""
    excluding = ("within", "across", "protect", "also")  # options that rule out similar pairs
    if any(parameters.get(name) for name in excluding):
        return (
            f"{pairs} compared{how}: {plural(funnel['similar'], 'duplicate')}, {plural(funnel['dissimilar'], 'other')}"
        )
    return f"{pairs} compared{how}: {similar} at or above {parameters['threshold']:g}, {others} below"


def funnel_table(report: Mapping[str, Any]) -> str:
    """The counts with their meanings, and the seconds of each stage that took 0.05 s or more."""
    funnel, parameters = report["funnel"], report["parameters"]
    documents = funnel["documents"] - funnel["protected"]
    measure, verify, key_only = measure_name(parameters), parameters["verify"], parameters.get("key_only")
    how = "exact" if verify == "exact" else "estimated"
    similar = f"duplicates have an {how} {measure} of {parameters['threshold']:g} or more"
    notes = {
        "documents": "" if key_only else f"{size(funnel['bytes'])}, {plural(funnel['shingles'], 'shingle')}",
        "candidates": "accepted without a comparison" if verify == "none" else similar,
        "dropped": share(funnel["dropped"], documents),
        "kept": share(funnel["kept"], documents),
    }
    rows: list[tuple[str, int, str]] = []
    shown = {*(WITHOUT_TEXTS if key_only else ALWAYS_SHOWN), *(name for name in SHOWN_IF_ANY if funnel.get(name))}
    for row in COUNTS.values():
        if row.name in shown:
            parts = sum_of(row, funnel), notes.get(row.name, row.meaning)
            rows.append((row.label, funnel[row.name], "; ".join(filter(None, parts))))
        if row.name == "dropped":
            rows += [("", count, reason) for reason, count in dropped_for(report)]
    wide = max(len(f"{count:,}") for _, count, _ in rows)
    labels = max(len(label) for label, _, _ in rows)
    lines = [f"{label:<{labels}}  {count:>{wide},}  {meaning}".rstrip() for label, count, meaning in rows]
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in funnel["seconds"].items() if seconds >= MIN_SECONDS)
    compiling = report.get("compiling", 0.0)
    stages += f"; {compiling:.1f} to compile kernels" if compiling >= MIN_SECONDS else ""
    took = f"{report['seconds']:.1f} s on {_machine(report)}"
    lines += ["", said] if (said := largest_sentence(report)) else []
    return "\n".join([*lines, "", f"{took}: {stages}" if stages else took])


def largest_sentence(report: Mapping[str, Any]) -> str:
    """The most documents that a kept one represents, verified and by component; empty without duplicates.

    >>> largest_sentence(
    ...     {"counts": {"documents": 3, "verified": {"most": 1200}, "component": {"most": 1300}}}
    ... )
    'A kept document represents at most 1,200 documents, itself included; the largest component has 1,300.'
    """
    counts = report.get("counts")
    if not counts or not counts["documents"]:
        return ""
    verified, component = counts["verified"]["most"], counts["component"]["most"]
    return (
        f"A kept document represents at most {plural(verified, 'document')}, itself included;"
        f" the largest component has {component:,}."
    )


def _machine(report: Mapping[str, Any]) -> str:
    backend, engine = report["backend"], report.get("engine", {})
    device = f" ({backend['device']})" if backend["device"] else ""
    kind, count = "Ray worker" if engine.get("name") == "ray" else "worker", engine.get("workers", 1)
    workers = f", {plural(count, kind)}" if count > 1 or kind == "Ray worker" else ""
    return f"{backend['name']}{device}{workers}"


def sum_of(row: CountRow, funnel: Mapping[str, Any]) -> str:
    """The parts of a count that are not 0, as a sum.

    >>> sum_of(COUNTS["empty"], {"empty": 3, "nulls": 1, "wordless": 2})
    '= 1 null + 2 wordless'
    """
    parts = [COUNTS[name].counted(funnel[name]) for name in row.parts if funnel.get(name)]
    return f"= {' + '.join(parts)}" if parts else ""


def dropped_for(report: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The INPUTs that dropped documents duplicate, with counts, largest first; empty for a run of one INPUT."""
    protected = {entry["input"] for entry in report["sources"] if entry["protected"]}
    if len(report["sources"]) < 2 and report["parameters"].get("index") is None:
        return []
    found, counts = report["evidence"]["dropped_for"], Counter[str]()
    for entry in found["listed"]:
        name = entry["of"]
        kind = " (protected)" if name in protected else ""
        counts["for earlier runs" if name is None else f"for {printable(name)}{kind}"] += entry["count"]
    ranked = counts.most_common()
    rest = found["more"] + sum(count for _, count in ranked[SHOWN_INPUTS:])
    return [*ranked[:SHOWN_INPUTS], *([("for others", rest)] if rest else [])]
