"""report.html: the report for people, one page without other files. It is a function of report.json alone.

The page of passages shows the amount of marked text, how often it occurs, and the passages that take up the most text.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from gpulsh.checks import banding_name, plural
from gpulsh.decide.edges import MAX_DRAWN
from gpulsh.errors import install_command
from gpulsh.params import Folding, Shingling
from gpulsh.report import wording
from gpulsh.report.drawn_rows import SIZES
from gpulsh.report.evidence import BINS
from gpulsh.report.excerpts import run_differences
from gpulsh.report.reproduce import command, describe_method
from gpulsh.report.summary import MIN_SECONDS, largest_sentence, sum_of
from gpulsh.stats.counts import COUNTS, DUPLICATES, SAMPLED
from gpulsh.stats.stages import COMPILE, ITEM_STAGES, OTHER, PASSAGE_STAGES, REPORT_STAGES, REST_MEANINGS
from gpulsh.theory import SCurve

LONGEST = 320  # characters of a name, an id or a sentence
FILE_COUNTS = ("rows", "rejected", "kept", "left_out", "dropped")
# Of warnings.
LARGE_CLUSTER = 0.01  # share of all documents
MANY_DOCUMENTS = 1000  # documents, below which a small cluster has a larger share
LARGE_LOSS = 0.5  # share of the documents of an INPUT
MAX_WARNINGS = 5  # warnings of a kind
# Of pictures, whose places and sizes are shares of the width and height.
WIDTH_OF_ONE = 56 / 414  # share of the width for the bar of similarity 1
BELOW_CURVE = 0.6  # of the height, for bars under the curve
STEPS, MAX_TICKS = (1, 2, 5, 10, 20), 6  # hundredths from one label of the axis to the next

Picture = Mapping[str, Any]


def missing_requirement() -> str | None:
    """The reason why the page cannot be made, with a remedy; None if it can."""
    try:
        importlib.import_module("jinja2")
    except ImportError:
        return f"report.html needs jinja2: {install_command('report')}"
    return None


@cache
def page_template(name: str) -> Any:
    """A template of this folder, with the filters of the pages."""
    import jinja2

    loader = jinja2.PackageLoader("gpulsh.report", "")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        many=plural,
        count=lambda number: f"{number:,}",
        printable=wording.printable,
        lines=wording.printable_lines,
        options=_code_options,
        place=lambda place: wording.shorten(wording.place_name(place), LONGEST),
        seconds=wording.duration,
        shown=lambda value: wording.shorten(wording.printable(str(value)), LONGEST),
    )
    functions = wording.share, wording.percent, wording.interval, wording.cluster_name
    for function in (*functions, run_differences, cluster_title, banding_name, sum_files):
        environment.globals[function.__name__] = function
    return environment.get_template(name)


def _code_options(text: str) -> Any:
    """The text as HTML with its options as code, which no browser breaks after a hyphen."""
    from jinja2.utils import markupsafe

    return markupsafe.Markup(re.sub("--[a-z-]+", r"<code>\g<0></code>", str(markupsafe.escape(text))))


def write_page(path: Path, report: Mapping[str, Any]) -> None:
    """Write the page of a report, from a run or from report.json."""
    path.write_text(render(report), encoding="utf-8", errors="replace")


def render(report: Mapping[str, Any]) -> str:
    """The page. All text in it is escaped, and none changes the direction of the text next to it."""
    from jinja2.utils import markupsafe

    parameters, evidence = report["parameters"], report["evidence"]
    banding, threshold, folding = parameters["banding"], parameters["threshold"], Folding(**parameters["folding"])
    reading, measure = Shingling(**parameters["shingling"]).with_folding(folding), wording.measure_name(parameters)
    banded = not (measure == "containment" or "near" in parameters or parameters.get("key_only"))
    curve = SCurve(**banding) if banded else None
    sample = report.get(SAMPLED.name, {"below_one": {}, "one": 0})  # not in reports of 0.2.0
    sampled = sum(sample["below_one"].values()) + sample["one"]
    candidates = candidates_picture(sample if sampled else evidence["similarity"], threshold, curve)
    script = (resources.files("gpulsh.report") / "page.js").read_text(encoding="utf-8")
    files, inputs = _files(report)
    html: str = page_template("page.html").render(
        report=report,
        steps=list(_steps(report["funnel"])),
        counts=COUNTS,
        sum_of=sum_of,
        stages=list(_stages(report)),
        short=MIN_SECONDS,
        files=files,
        inputs=inputs,
        cautions=cautions(report, [entry for entry in inputs if not entry["protected"]]),
        known={entry["file"] for entry in report["files"]},
        words=list(describe_method(parameters)),
        command=command(report),
        script=markupsafe.Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),  # no other runs
        bounds=SIZES,
        candidates=candidates if curve or sampled else None,
        similarity=similarity_picture(evidence["similarity"], threshold, measure),
        sampled=sampled,
        sampled_ones=sample["one"],
        most_drawn=MAX_DRAWN,
        represented=largest_sentence(report),
        found=wording.share(float(curve.probability(threshold)), 1) if curve else "",
        columns=DUPLICATES,
        ignored=[*(["case"] if reading.reading.case else []), *([] if reading.symbols else ["punctuation"])],
        parameters=sorted(flat_parameters("", parameters)),
    )
    return html


def _steps(funnel: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The bars from all documents to the kept ones; each begins at a share of the documents, `start`."""
    gone, start = ("contaminated", *COUNTS["dropped"].parts, "few_sources"), 0
    for name in ("documents", "protected", *gone, "kept"):
        count = funnel.get(name, 0)  # reports of 0.2.0 have fewer
        if count or name in ("documents", "kept"):
            yield {"row": COUNTS[name], "count": count, "start": start, "gone": name in gone}
            start += 0 if name == "documents" else count


def _stages(report: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    funnel, whole, writes = report["funnel"], report["seconds"], report["parameters"]["write"] != "duplicates"
    texts = [(funnel["documents"], "documents"), (funnel["bytes"], "B")]
    amounts = {
        "sign": texts,
        "admit": texts,
        # If two stages compared pairs, the number of each is not known.
        **({} if "compare" in funnel["seconds"] else {"verify": [(funnel["candidates"], "pairs")]}),
        "write": [((funnel["documents"] - funnel["protected"]) * writes, "documents")],
    }
    meanings = {name: row.meaning for name, row in REPORT_STAGES.items()} | REST_MEANINGS
    compiling = report.get("compiling", 0.0)
    rest = whole - compiling - sum(funnel["seconds"].values())
    first = {COMPILE: compiling} if compiling else {}
    for name, seconds in [*first.items(), *funnel["seconds"].items(), (OTHER, max(rest, 0.0))]:
        known = [] if name in funnel.get("resumed", ()) else amounts.get(name, [])
        rates = [
            f"{wording.size(int(amount / seconds))}/s" if unit == "B" else f"{amount / seconds:,.0f} {unit}/s"
            for amount, unit in known
            if seconds > 0 and amount
        ]
        stage = {"name": name, "meaning": meanings.get(name, ""), "seconds": seconds, "rates": ", ".join(rates)}
        yield {**stage, "part": wording.percent(seconds, whole)}


def _files(report: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The counts of every file, and of every INPUT, with the INPUTs it duplicates."""
    evidence = report["evidence"]
    sources = [source for source in report["sources"] for _ in range(source["files"])]
    files: list[Mapping[str, Any]] = []
    inputs: dict[str, dict[str, Any]] = {}
    none = [0] * len(sources)
    counts = evidence["dropped"], evidence["rejected"], evidence.get("contaminated", none)
    for entry, source, dropped, rejected, contaminated in zip(report["files"], sources, *counts, strict=True):
        lost = dropped + contaminated
        kept = 0 if source["protected"] else entry.get("kept", entry["rows"] - rejected - lost)
        gone = 0 if source["protected"] else entry["rows"] - rejected - kept - lost
        files.append({**entry, **source, "dropped": lost, "rejected": rejected, "kept": kept, "left_out": gone})
        found = {"name": source["input"], "protected": source["protected"], **dict.fromkeys(FILE_COUNTS, 0), "for": []}
        of_input = inputs.setdefault(source["input"], found)
        for name in FILE_COUNTS:
            of_input[name] += files[-1][name]
    for listed in evidence["dropped_for"]["listed"]:
        inputs[listed["input"]]["for"].append((listed["of"], listed["count"]))
    return files, list(inputs.values())


def sum_files(files: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The sums of the counts of some files."""
    return {name: sum(file[name] for file in files) for name in FILE_COUNTS}


def candidates_picture(counts: Mapping[str, Any], threshold: float, curve: SCurve | None) -> Picture:
    """Candidate pairs by similarity, in another colour below the threshold, and the S-curve of the banding."""
    below = _below_one(counts)
    most, tall = max(below.values(), default=1), BELOW_CURVE if curve else 1
    bars = [
        _bar("under" if low / BINS >= threshold - 1e-9 else "under less", low / BINS, 1 / BINS, tall * count / most)
        for low, count in below.items()
    ]
    picture = {
        "title": "Candidate pairs by Jaccard similarity",
        "axis": "Jaccard similarity",
        "ticks": [(k / 5, f"{k / 5}") for k in range(6)],
        "levels": [(k / 4, f"{25 * k} %") for k in range(5)] if curve else _levels(most),
        "bars": bars,
        "mark": {"x": threshold, "text": f"threshold {threshold:g}", "left": threshold > 0.5},
    }
    if curve is None:
        return picture
    similarity, found = np.linspace(0, 1, 201), float(curve.probability(threshold))
    title = f"Probability that two documents become a candidate pair, by similarity: {found:.4f} at {threshold:g}"
    points = zip(similarity.tolist(), curve.probability(similarity).tolist(), strict=True)
    return picture | {"title": title, "line": list(points), "dot": found}


def similarity_picture(counts: Mapping[str, Any], threshold: float, measure: str) -> Picture:
    """Dropped documents by similarity with the kept one. Similarity 1 has a bar of its own, with its count.

    A bar that would make the others flat is drawn broken, without a scale.
    """
    contained = measure == "containment"
    alike, axis = ("containment", "Containment in") if contained else ("similarity", "Jaccard similarity with")
    below, one = _below_one(counts), counts["one"]
    first = min([*below, int(threshold * BINS + 1e-9), BINS - 5])
    most = max([*below.values(), 1 if below else one, 1])
    wide = (1 - WIDTH_OF_ONE) / (BINS - first)
    bars = [
        _bar("bar", (at - first) * wide, wide, count / most, f"{at / BINS:.2f} to {(at + 1) / BINS:.2f}: {count:,}")
        for at, count in below.items()
    ]
    bars.append(_bar("bar one", 1 - 0.7 * WIDTH_OF_ONE, 0.7 * WIDTH_OF_ONE, min(one / most, 1), f"1: {one:,}"))
    step = next(step for step in STEPS if (BINS - first) / step <= MAX_TICKS)
    ticks = [((at - first) * wide, f"{at / BINS:.2f}") for at in range(-(-first // step) * step, BINS, step)]
    return {
        "title": f"Dropped documents by {alike} {axis.split()[-1]} the kept one: {one:,} of {alike} 1",
        "axis": f"{axis} the kept document",
        "ticks": [*ticks, (1 - 0.35 * WIDTH_OF_ONE, "1")],
        "levels": _levels(most),
        "bars": bars,
        "one": f"{one:,}",
        "broken": one > most,
    }


def _bar(kind: str, left: float, wide: float, tall: float, name: str = "") -> Mapping[str, Any]:
    return {"kind": kind, "x": left, "width": wide, "height": tall, "name": name}


def _levels(most: int) -> list[tuple[float, str]]:
    """The lines of a scale of counts: 0, about half, and the most; each with its share of the height.

    >>> _levels(1), _levels(5)
    ([(0.0, '0'), (1.0, '1')], [(0.0, '0'), (0.4, '2'), (1.0, '5')])
    """
    return [(count / most, _short_count(count)) for count in sorted({0, most // 2, most})]


def _short_count(count: int) -> str:
    """A count of few characters.

    >>> [_short_count(count) for count in (9, 2500, 1_250_000, 3 * 10**9)]
    ['9', '2,500', '1.2 M', '3,000.0 M']
    """
    return f"{count:,}" if count < 100_000 else f"{count / 1e6:,.1f} M"


def _below_one(counts: Mapping[str, Any]) -> dict[int, int]:
    """Counts by hundredths of similarity."""
    return {round(float(low) * BINS): count for low, count in counts["below_one"].items()}


def cautions(report: Mapping[str, Any], inputs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Warnings, a line each: hints, clusters that are much of the corpus, and `inputs`, by name, that lose much."""
    funnel, found = report["funnel"], list(report.get("hints", ()))
    documents = funnel["documents"] - funnel["protected"]
    for cluster in report["evidence"]["clusters"].get("sample", ())[:MAX_WARNINGS]:  # the largest come first
        if documents >= MANY_DOCUMENTS and cluster["dropped"] > LARGE_CLUSTER * documents:
            name = wording.cluster_name(cluster["cluster"], report["files"])
            part = wording.share(cluster["dropped"], documents)
            found.append(
                f"{name}: {cluster['dropped']:,} documents dropped, {part} of all; check for a template, an error page"
                " or boilerplate"
            )
    losing = [entry for entry in inputs if entry["dropped"] > LARGE_LOSS * (entry["rows"] - entry["rejected"])]
    for entry in losing[:MAX_WARNINGS]:
        part = wording.share(entry["dropped"], entry["rows"] - entry["rejected"])
        found.append(f"{wording.printable(entry['name'])} loses {part} of its documents")
    if len(losing) > MAX_WARNINGS:
        more = plural(len(losing) - MAX_WARNINGS, "more INPUT")
        found.append(f"more than half of the documents of {more} are dropped")
    return found


def cluster_title(cluster: Mapping[str, Any]) -> str:
    """The beginning of one of the cluster's texts, for a title."""
    return next((text for pair in cluster["pairs"] for text in reversed(pair["texts"]) if text), "")[:200]


def flat_parameters(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Nested parameters, as `shingling.size`."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flat_parameters(f"{name}.{key}" if name else key, inner)
    else:
        yield name, "none" if value is None else str(value)


def write_passages_page(path: Path, report: Mapping[str, Any]) -> None:
    """Write the page of a report. All text in it is escaped."""
    found, parameters = report["passages"], report["parameters"]
    html = page_template("passages.html").render(
        report=report,
        found=found,
        parameters=parameters,
        items="protect" in parameters,
        unit=parameters.get("part", "window"),
        known={**PASSAGE_STAGES, **ITEM_STAGES},
        flat=sorted(flat_parameters("", parameters)),
    )
    path.write_text(html, encoding="utf-8", errors="replace")
