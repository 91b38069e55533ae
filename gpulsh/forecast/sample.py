"""Runs samples of a user's files on this machine, and estimates from them what `gpulsh dedup` of all files will take.

Each run is a process of its own, with the user's options and the files' own format and compression. A very small run
shows the fixed costs; a sample of some seconds shows the rest. Fixed costs stay constant; the rest scales with bytes,
documents or pairs along a straight line. Small inputs are run in full rather than estimated.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gpulsh.backends.parallel import processors
from gpulsh.errors import InputError, ParameterError
from gpulsh.forecast.formula import DIGEST_BYTES, Corpus, compact_index_bytes, index_bytes, stage_memory, stage_works
from gpulsh.io.columns import Columns
from gpulsh.io.file import File
from gpulsh.io.files.file_texts import FileTexts
from gpulsh.io.files.inputs import find_files, refuse_unused
from gpulsh.io.files.pipes import is_stream
from gpulsh.io.files.read_options import ReadOptions
from gpulsh.io.format import evenly_spaced
from gpulsh.io.formats.endings import format_of
from gpulsh.stats.stages import CONTAINMENT_STAGES, ESTIMATED_STAGES, ITEM_STAGES
from gpulsh.store.durable import ChecksummedFile, writing

MIN_FILES, MAX_FILES = 16, 4096  # sampled files, where there are as many


class SampledFiles(NamedTuple):
    """A sample in a folder."""

    folders: dict[str, str]  # of each INPUT with a sampled file
    names: dict[str, str]  # of the files, by the paths of their samples
    share: float  # of the bytes of all files


def sample_files(files: Sequence[File], share: float, folder: Path, protected: Sequence[str] = ()) -> SampledFiles:
    """A sample of about that share, 0 to 1, of the `protected` INPUTs and of all others, in a new `folder`."""
    folders, names, taken = dict[str, str](), dict[str, str](), 0.0
    folder.mkdir()
    for apart in (True, False):
        some = [file for file in files if (file.source in protected) == apart]
        chosen = evenly_spaced(some, min(max(MIN_FILES, math.ceil(share * len(some))), MAX_FILES))
        each = min(share * len(some) / max(len(chosen), 1), 1.0)
        for file in chosen:
            own = Path(folders.setdefault(file.source, str(folder / str(len(folders)))))
            own.mkdir(exist_ok=True)
            # The number keeps the order, and makes names unique.
            path = str(own / f"{len(names):06d}-{os.path.basename(file.plain_path)}")
            names[path] = file.name
            new_file = partial(ChecksummedFile, path, path)
            taken += total_bytes([file]) * format_of(file).write_sample(file, each, new_file)
    return SampledFiles(folders, names, taken / max(total_bytes(files), 1))


def total_bytes(files: Sequence[File]) -> int:
    """Bytes of the files; InputError if a storage service does not report a size."""
    found = 0
    for file in files:
        size = file.size()
        if size is None:
            raise InputError(f"{file.name}: its storage does not report a size, and an estimate needs one")
        found += size
    return found


FIRST_BYTES = 256 << 10  # of files, in the very small run
THREAD_BYTES, MIN_BYTES, MAX_BYTES = 32 << 20, 64 << 20, 256 << 20  # of text in the sample: per thread, and in all
SAMPLE_STARTS = 5.0  # a sample's time, in starts of the program, at most; a slow method gets a smaller sample
MIN_TIMES = 4  # the sample is at least this many times as large as the very small run
NEARLY_ALL = 2 / 3  # share of the files; a larger sample becomes a run of all files
START = "start"  # seconds outside of all stages: the program, checks, evidence and the report
# Stages counted with another.
COUNTED_WITH = {
    "compare": "verify",
    "keys": "copies",
    "sight": "sign",
    **dict.fromkeys(ITEM_STAGES, "sign"),
    **dict.fromkeys(CONTAINMENT_STAGES, "collide"),
}
WRONG_USAGE = 2  # exit status for wrong options
# The child imports from the same places as this process. At its end it reports its memory and processor time.
CHILD = r"""
import json, re, resource, sys
end = 2 + int(sys.argv[1])
sys.path[:], sys.argv[1:] = sys.argv[2:end], sys.argv[end:]
from gpulsh.cli import main
status, used = main(), resource.getrusage(resource.RUSAGE_SELF)
memory = re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())
facts = {"memory": int(memory[1]) << 10 if memory else 0, "processor": used.ru_utime + used.ru_stime}
print(json.dumps({"event": "used", **facts}), file=sys.stderr)
sys.exit(status)
"""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Time, memory and disk of a run, measured or estimated."""

    corpus: Corpus
    seconds: Mapping[str, float]  # by stage, and START
    processor: float  # seconds of all threads
    memory: float  # bytes at most
    data: float  # bytes of the kept rows
    evidence: float  # bytes of duplicates.parquet

    @property
    def total_seconds(self) -> float:
        """Seconds from start to end."""
        return sum(self.seconds.values())


def plan(inputs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Estimate `gpulsh dedup INPUTS`; `options` are the command's, by name, as strings or lists.

    Returns JSON values. `likely` is the usage if documents repeat one another as often as in the sample, and `most` if
    their copies can be anywhere in the files. `sample` is the number of documents in the sample, `work` the most bytes
    in OUT/_work without the results, and `measured` the seconds of the runs. `index` and `index_at_source` are the
    bytes of an index of the documents with each kind of evidence, except for containment. `shares` are the parts of the
    budget, as in `budget.memory_shares`.

    Raises InputError, also if an INPUT can be read only once or a sample fails. Raises ParameterError, and any other
    error that the run itself would raise at its start.
    """
    began = time.perf_counter()
    protect = list(options.get("protect") or ())
    for path in (*protect, *inputs):
        if is_stream(path):
            raise InputError(f"{path}: can be read only once, and a sample would use it up; give a file")
    read_options = ReadOptions(**{own.name: options[own.name] for own in fields(ReadOptions) if options.get(own.name)})
    files = find_files(list(inputs), protect, options=read_options)
    refuse_unused(files, read_options)
    FileTexts(files, Columns(text=options.get("text_column") or "text")).check()
    size = total_bytes(files)
    with writing(tempfile.gettempdir()), tempfile.TemporaryDirectory(prefix="gpulsh-") as folder:
        given = files, list(inputs), protect, options
        share, report, small = _run_share(FIRST_BYTES / max(size, 1), *given, Path(folder, "small"))
        usage = small
        if share < 1:
            share, report, usage = _run_share(next_share(share, small), *given, Path(folder, "large"))
    parameters, of = report["parameters"], usage.corpus
    memory: int = parameters["memory"]
    threads = parameters["threads"] or processors()
    # For containment, a stage brings every shingle together, in rows as long as a digest's. Weights take up to 2 bytes
    # for each, and the prefixes have rows, too.
    contained = parameters.get("measure") == "containment"
    bands = of.shingles if contained else parameters["banding"]["bands"]
    more = (2 + (1 - parameters["threshold"]) * DIGEST_BYTES) * of.shingles if contained else 0  # for a document
    times = 1 / share
    corpus = replace(of, documents=of.documents * times, bytes=of.bytes * times)
    shares = {name: getattr(of, name) for name in ("met", "met_bytes", "dropped")}
    often = {name: min(share * times, 1.0) for name, share in shares.items() if share is not None}
    usages = (
        extrapolate(small, usage, corpus, bands=bands, threads=threads, memory=memory)
        for corpus in (corpus, replace(corpus, pairs=of.pairs * times, **often))
    )
    likely, most = (
        {
            **asdict(usage),
            "all": usage.total_seconds,
            "work": sum(work.written for work in stage_works(usage.corpus, bands).values())
            + more * usage.corpus.documents,
        }
        for usage in usages
    )
    kinds = {} if contained else {"index": index_bytes, "index_at_source": compact_index_bytes}
    return {
        "likely": likely,
        "most": most,
        "work": most["work"],
        **{name: size_of(corpus, int(bands)) for name, size_of in kinds.items()},
        "files": len(files),
        "bytes": size,
        "sample": of.documents,
        "measured": round(time.perf_counter() - began, 3),
        "backend": report["backend"]["name"],
        "threads": threads,
        "memory": memory,
        "shares": report["memory"],
        "parameters": parameters,
    }


def extrapolate(small: Usage, large: Usage, corpus: Corpus, *, bands: float, threads: int, memory: int) -> Usage:
    """The estimate for that corpus, along straight lines through two runs: seconds of each stage by its own amount."""
    runs = (small.corpus, large.corpus, corpus)
    works = [stage_works(of, bands) for of in runs]

    def seconds(name: str) -> float:
        # `gather` looks through all texts, which takes longer than to copy a few of them.
        little, much, wanted = (work[name].inputs if name == "gather" else work[name].amount for work in works)
        return _value_on_line((little, small.seconds[name]), (much, large.seconds[name]), wanted)

    held = [max(stage_memory(name, of, bands, threads, 1, memory) for name in works[0]) for of in runs]
    dropped, sampled = (of.documents * of.dropped for of in (corpus, large.corpus))
    return Usage(
        corpus=corpus,
        seconds={**{name: seconds(name) for name in ESTIMATED_STAGES}, START: large.seconds[START]},
        processor=_value_on_line((runs[0].bytes, small.processor), (runs[1].bytes, large.processor), corpus.bytes),
        memory=large.memory + max(held[2] - held[1], 0.0),
        data=large.data * (corpus.documents - dropped) / max(large.corpus.documents - sampled, 1.0),
        evidence=large.evidence * max(dropped / max(sampled, 1.0), 1.0),
    )


def _value_on_line(short: tuple[float, float], long: tuple[float, float], wanted: float) -> float:
    """The value at `wanted` on the line through two (amount, value); through the origin if that line falls."""
    (little, less), (much, more) = short, long
    each = (more - less) / (much - little) if more > less and much > little else more / max(much, 1.0)
    return more + each * (wanted - much)


def next_share(share: float, small: Usage) -> float:
    """The share of the files for the sample, after the very small run of a `share`."""
    start = small.seconds[START]
    text = min(max(THREAD_BYTES * processors(), MIN_BYTES), MAX_BYTES)
    slow = max(small.total_seconds - 2 * start, 0.0)  # of a usual method, the small run takes less
    times = min(text / max(small.corpus.bytes, 1), SAMPLE_STARTS * start / slow if slow else math.inf)
    return max(times, MIN_TIMES) * share


def _run_share(
    share: float, files: Sequence[File], inputs: list[str], protected: list[str], options: Mapping[str, Any], out: Path
) -> tuple[float, Mapping[str, Any], Usage]:
    """Run about this share of the files, drawn into `out`: the share, report and usage; all files if it is nearly 1."""
    out.mkdir()
    names: dict[str, str] = {}
    patterns = list(options.get("as_text") or ())
    if share < NEARLY_ALL:
        drawn = sample_files(files, share, out / "in", protected)
        inputs, protected = (list(filter(None, map(drawn.folders.get, some))) for some in (inputs, protected))
        share, names = drawn.share, drawn.names
        patterns = [f"*{pattern.rpartition('/')[2]}" for pattern in patterns]  # a number precedes the names
    left_out = ["protect", "as_text", *(["keep"] if str(options.get("keep")).startswith("source:") else [])]
    given = [part for name, value in options.items() if name not in left_out for part in _option(name, value)]
    given += [*(f"--protect={path}" for path in protected), *(f"--as-text={pattern}" for pattern in patterns)]
    try:
        report, usage = run_dedup([*given, "--", *inputs], out / "out")
        if report["compiling"]:  # later runs on this machine reuse the kernels
            report, usage = run_dedup([*given, "--", *inputs], out / "again")
    except (InputError, ParameterError) as error:
        message = error.message
        for path, name in names.items():
            message = message.replace(path, name)
        raise type(error)(message) from error
    return share if names else 1.0, report, usage


def _option(name: str, value: object) -> list[str]:
    """An option of the command with its value; empty for a default."""
    if name == "drop_contained_only":
        return [] if value else ["--drop-containing"]
    option = "--and" if name == "also" else f"--{name.replace('_', '-')}"
    if value is None or value is False:
        return []
    if isinstance(value, (list, tuple)):
        value = ",".join(map(str, value))
    return [option if value is True else f"{option}={value}"]


def run_dedup(arguments: Sequence[str], out: Path) -> tuple[Mapping[str, Any], Usage]:
    """Run `gpulsh dedup ARGUMENTS -o OUT` in a process of its own: its report and usage, or its error."""
    options = ["dedup", "-o", str(out), "--json", *arguments]
    command = [sys.executable, "-c", CHILD, str(len(sys.path)), *sys.path, *options]
    began = time.perf_counter()
    try:
        child = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise InputError(f"no process can be started to run a sample: {os.strerror(error.errno or 0)}") from error
    took = time.perf_counter() - began
    lines = child.stderr.decode("utf-8", "replace").splitlines()
    events = [json.loads(line) for line in lines if line.startswith('{"event"')]
    if child.returncode:
        errors = [line for line in lines if line.startswith("gpulsh: error: ")]
        last = errors[-1] if errors else f"it ended with status {child.returncode}"
        kind = ParameterError if child.returncode == WRONG_USAGE else InputError
        raise kind(last.removeprefix("gpulsh: error: "))
    ends = {event["stage"]: event for event in events if event["event"] == "end"}
    gather = ends.get("gather", {})
    used = events[-1]
    report = json.loads(child.stdout)
    funnel = report["funnel"]
    documents, each = funnel["documents"], max(funnel["documents"], 1)
    seconds = dict.fromkeys(ESTIMATED_STAGES, 0.0)
    for name, spent in funnel["seconds"].items():
        seconds[COUNTED_WITH.get(name, name)] += spent
    sizes = {name: (out / name).stat().st_size for name in report["outputs"]}
    return report, Usage(
        corpus=Corpus(
            documents=documents,
            bytes=funnel["bytes"],
            met=min(gather.get("documents", 0) / each, 1.0),
            pairs=funnel["candidates"] / each,
            dropped=(funnel["dropped"] + funnel["contaminated"]) / each,
            protected=funnel["protected"] / each,
            bytes_per_shingle=max(funnel["bytes"] / max(funnel["shingles"], 1), 1.0),
            met_bytes=min(gather.get("bytes", 0) / max(funnel["bytes"], 1), 1.0),
        ),
        seconds={**seconds, START: max(took - sum(seconds.values()) - report["compiling"], 0.0)},
        processor=used["processor"],
        memory=used["memory"],
        data=sum(size for name, size in sizes.items() if name.startswith("data/")),
        evidence=sizes["duplicates.parquet"],
    )
