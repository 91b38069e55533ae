"""The facts to repeat a run: its method in words, its command, its machine, and the versions of libraries."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import gpulsh
from gpulsh.backends.parallel import processors
from gpulsh.checks import banding_name, plural
from gpulsh.params import Folding, Shingling
from gpulsh.report.wording import measure_name
from gpulsh.sketch.named import SETS

LONGEST = 20_000  # characters of a command
LIBRARIES = ("numpy", "numba", "pyarrow", "fsspec", "orjson", "zstandard", "zlib-ng", "click", "rich")
OPTIONAL = ("cupy-cuda12x", "cupy-cuda13x", "cupy", "cudf-cu12", "cudf-cu13", "pandas", "polars", "jinja2", "ray")
_KEEP_TEXT = {"first": "The first of two duplicates is kept.", "longest": "The longer text of two duplicates is kept."}


def describe_method(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Sentences that describe a run with these parameters."""
    if size := parameters.get("passages"):
        yield (
            f"Documents that hold {100 * parameters['coverage']:g} % or more of the words of a protected document, in"
            f" runs of {size}, are dropped first."
        )
    if "index" not in parameters and parameters.get("key") is not None:
        what = "URL in" if parameters["normalize_url"] else "value of"
        yield f"Documents with the same {what} {parameters['key']} are copies."
        if parameters["key_only"]:
            yield "No texts are compared."
            yield _keep_sentence(parameters["keep"])
            return
    shingling, threshold = Shingling(**parameters["shingling"]), parameters["threshold"]
    contained = measure_name(parameters) == "containment"
    tokens = "words" if shingling.unit == "word" else "characters"
    of = f"runs of {shingling.size} {tokens}" if shingling.size > 1 else f"single {tokens}"
    form = parameters["folding"]["form"]
    yield f"Documents are compared as sets of {of} (shingles){f', normalized to {form}' if form else ''}."
    yield {
        "exact": (
            f"A document duplicates another that contains {threshold:g} or more of its shingles."
            if parameters.get("drop_contained_only", True)
            else f"Two documents are duplicates if one contains {threshold:g} or more of the shingles of the other."
        )
        if contained
        else f"Two documents are duplicates if their exact Jaccard similarity is {threshold:g} or more: the number of"
        " shingles in both, divided by the number in either.",
        "signature": f"Two documents are duplicates if their estimated similarity is {threshold:g} or more.",
        "none": "Every candidate pair counts as duplicates; pairs are not compared.",
    }[parameters["verify"]]
    if near := parameters.get("near"):
        tables = parameters["banding"]["bands"]
        yield f"Pairs are candidates if their SimHash signatures agree in the key of one of {tables} tables."
        yield f"All pairs that {_agreement(near)} are candidates."
    elif not contained:
        banding, family = parameters["banding"], parameters["family"]
        yield (
            f"Pairs are candidates if their signatures of {plural(family['num_perm'], 'value')} agree in one of"
            f" {banding_name(banding['bands'], banding['rows'])}."
        )
    if also := parameters.get("also"):
        yield f"Candidates are compared only if their SimHash signatures {_agreement(also)}."
    yield _keep_sentence(parameters["keep"])
    if parameters["resolve"] == "kept":
        yield "A document is dropped only if a kept document duplicates it, never through a chain of others."
    else:
        yield "One document of each connected component of duplicates is kept."
    if (least := parameters.get("min_cluster", 1)) > 1:
        yield f"Documents are dropped only in clusters of {least:,} or more."
    if (most := parameters.get("max_copies", 1)) > 1:
        yield f"Of a document and its duplicates, up to {most:,} stay."
    if (sources := parameters.get("min_sources", 1)) > 1:
        yield f"A document stays only if {sources:,} sources hold it."
    if parameters["within"] or parameters["across"]:
        yield f"Only documents of {'the same INPUT' if parameters['within'] else 'different INPUTs'} are duplicates."


def _keep_sentence(keep: str) -> str:
    return _KEEP_TEXT.get(keep, f"{keep} decides which of two duplicates is kept.")


def _agreement(bits: Mapping[str, Any]) -> str:
    return f"differ in at most {bits['distance']} of {bits['bits']} bits"


def command(report: Mapping[str, Any]) -> str | None:
    """The command line; None if some parameters exist only in Python.

    It has OUT instead of the folder, and INPUT instead of very many inputs. Options that change no byte of the results
    are left out: threads, memory and engine.
    """
    parameters = report["parameters"]
    method = _method_options(parameters)
    if method is None or isinstance(parameters.get("weights"), dict):
        return None
    usual = {"text_column": "text", "verify": "exact", "resolve": "kept", "write": "data", "on_error": "fail"}
    valued = (
        *(*usual, "delimiter", "encoding", "id_column", "index", "format", "compression", "min_cluster", "max_copies"),
        *("min_sources", "source_column", "date_column", "weights", "weight_by", "passages", "coverage"),
        *("ignore_common", "keep", *(("key",) if "index" not in parameters else ())),
    )
    flags = ("within", "across", "lines", "normalize_url", "key_only", "add_counts")
    words = ["-o", "OUT", *method]
    for name in valued:
        if parameters.get(name) not in (None, usual.get(name)):
            words += [f"--{name.replace('_', '-')}", str(parameters[name])]
    words += [part for path in parameters["protect"] for part in ("--protect", path)]
    words += [f"--{name.replace('_', '-')}" for name in flags if parameters.get(name)]
    words += [part for pattern in parameters.get("as_text", ()) for part in ("--as-text", pattern)]
    line = shlex.join(["gpulsh", "dedup", *report["inputs"], *words])
    return line if len(line) <= LONGEST else f"gpulsh dedup INPUT... {shlex.join(words)}"[:LONGEST]


def _method_options(parameters: Mapping[str, Any]) -> list[str] | None:
    shingling, folding = Shingling(**parameters["shingling"]), Folding(**parameters["folding"])
    sketch = next((name for name, kind in SETS.items() if kind.kind == parameters["family"]["name"]), None)
    near, also = parameters.get("near"), parameters.get("also")
    has_options = str(shingling) != repr(shingling) and Folding(form=folding.form) == folding
    counting = any(bits and bits["weights"] != "set" for bits in (near, also))
    seed = (near or parameters["family"])["seed"]  # one for all sketches
    if not has_options or sketch is None or counting or (also and also["seed"] != seed):
        return None
    options = ["--threshold", f"{parameters['threshold']!r}", "--shingle", str(shingling)]
    options += ["--normalize", folding.form] if folding.form else []
    options += ["--and", _bits_name(also)] if also else []
    options += ["--seed", str(seed)]
    if measure_name(parameters) == "containment":
        both = [] if parameters.get("drop_contained_only", True) else ["--drop-containing"]
        return [*options, "--measure", "containment", *both]
    if near:
        return [*options, "--sketch", _bits_name(near)]
    family, banding = parameters["family"], parameters["banding"]
    options += ["--sketch", f"{sketch}:{family['num_perm']}"]
    return [*options, "--bands", str(banding["bands"]), "--rows", str(banding["rows"])]


def _bits_name(bits: Mapping[str, Any]) -> str:
    return f"simhash:{bits['bits']}:{bits['distance']}"


def machine_facts() -> Mapping[str, Any]:
    """The system, the processor, the number of processors, and the memory."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)
    except OSError:
        model = None
    return {
        "system": platform.platform(),
        "processor": model or platform.machine(),
        "processors": processors(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def versions() -> dict[str, str | None]:
    """The versions of gpulsh, Python and libraries, by their names in pip; None for a missing required library."""
    found: dict[str, str | None] = {"gpulsh": gpulsh.__version__, "python": platform.python_version()}
    for name in LIBRARIES:
        found[name] = _version(name)
    found.update({name: version for name in OPTIONAL if (version := _version(name)) is not None})
    return found


@cache  # looking up a version reads files
def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
