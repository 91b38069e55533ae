"""`gpulsh plan`: the time, disk and memory of a job before it runs, from samples of its files or from numbers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gpulsh.cli import options as opt
from gpulsh.cli.terminal import say
from gpulsh.stats.stages import ESTIMATED_STAGES

if TYPE_CHECKING:  # numpy is loaded only when the command runs
    from gpulsh.forecast.formula import Estimate

SECTIONS = {  # first option -> heading
    "text_column": "For INPUT",
    "documents": "For numbers",
    "threshold": "For both",
}
EXAMPLES = {  # command -> its purpose
    "gpulsh plan crawl/": "Time, memory and disk for your own files on this machine",
    "gpulsh plan --docs 1e11 --bytes 5e14 --threads 8192 --nodes 64": "Needs of a cluster for 10^11 pages",
}
SHARES = ("met", "pairs", "dropped")


def _number(given: str) -> float:
    """A number, perhaps with a unit: 1TB is 10^12 bytes, 1TiB is 2^40; ValueError otherwise.

    >>> [_number(given) for given in ("5e14", "1TB", "1.5 TiB", "20G", "3kB", "7B")]
    [500000000000000.0, 1000000000000.0, 1649267441664.0, 20000000000.0, 3000.0, 7.0]
    """
    found = re.fullmatch(r"(.*?[0-9.])\s*([kKMGTP]?)(i?)B?", given.strip())
    if found is None:
        return float(given)
    base, power = 1024 if found[3] else 1000, " KMGTP".index(found[2].upper() or " ")
    return float(float(found[1]) * base**power)


def _bytes(ctx: click.Context, param: click.Parameter, given: str | None) -> float | None:
    try:
        return None if given is None else _number(given)
    except ValueError:
        raise click.BadParameter(f"{given!r} is not a number of bytes, such as 5e14 or 500TB", ctx, param) from None


def _rates(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    found = {}
    for one in given:
        name, _, number = one.partition("=")
        try:
            found[name] = _number(number)
        except ValueError:
            raise click.BadParameter(f"{one!r} is not NAME=NUMBER, such as sign=20G", ctx, param) from None
    return found


@click.command(
    cls=opt.SectionedCommand,
    sections=SECTIONS,
    examples=EXAMPLES,
    short_help="Estimate time, disk and memory of a job from its files or from numbers.",
)
@click.argument("inputs", nargs=-1, metavar="[INPUT...]")
@opt.text_options()
@opt.method_options("shingle", "normalize", "measure", "sketch", "seed")
@opt.backend
@opt.choice("--write", "data", "duplicates", help="Write kept rows and evidence, or the evidence alone.")
@opt.number("--docs documents", "N", "Number of documents, such as 1e11.", kind=float)
@opt.value("--bytes size", "N", "Bytes of their text, such as 5e14 or 500TB.", callback=_bytes)
@opt.number("--gpus", "N", "Number of GPUs. Each has its own machine, unless --nodes is given.")
@opt.number("--nodes", "N", "Machines that share the workers evenly.  [default: 1]")
@opt.flag("--remote", "Read and write over the network, as with S3, instead of local disks.")
@opt.number("--hours", "H", "Also print how many workers meet this time limit.", kind=float)
@opt.number("--met", "SHARE", "Share of the documents in a candidate pair, from 0 to 1.", kind=float)
@opt.number("--pairs", "N", "Number of compared pairs per document.", kind=float)
@opt.number("--dropped", "SHARE", "Share of dropped documents, from 0 to 1.", kind=float)
@opt.value(
    "--rate rates",
    "STAGE=NUMBER",
    "Amount that a worker handles per second, such as sign=20G. sign, gather, verify, write: bytes of text."
    " copies, connect, collect: documents. collide: digests. route: pairs. disk, network: bytes of a machine.",
    multiple=True,
    callback=_rates,
)
@opt.method_options("threshold", "num-perm", "bands", "rows")
@opt.number(
    "--threads",
    "N",
    "Threads of the CPU backend; from numbers, the threads of all machines.  [default: all processors]",
)
@opt.value(
    "--memory", "SIZE", "Memory for the run on each machine, such as 64GiB.  [default: as in dedup; from numbers, 8GiB]"
)
@opt.flag("--json as_json", "Print one JSON object instead of the table.")
@click.pass_context
def plan(ctx: click.Context, /, inputs: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Estimate the time, disk and memory of a job, from INPUT or from numbers.

    From INPUT: gpulsh runs a sample for a few seconds on this machine, with the formats and compression of your files,
    and leaves no files behind. `gpulsh dedup ... --dry-run` does the same with all options of that command.

    From numbers: gpulsh estimates time, disk, network and memory of each stage, and false candidate pairs, on any
    machines. Rates come from a record of such workers, or from --rate; without either, a rate is "not measured". --met,
    --pairs and --dropped say how much the documents repeat one another. A run of a sample measures them. By default,
    the plan assumes the corpus behind the recorded rates.
    """
    kind, other = ("numbers", "INPUT") if inputs else ("files", "--docs and --bytes")
    section, of_other = "", set()
    for option in ctx.command.params:
        section = SECTIONS.get(option.name or "", section)
        if section == ("For numbers" if inputs else "For INPUT"):
            of_other.add(option.name)
            if ctx.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"{option.opts[0]} is for a plan from {kind}; leave it out, or {other}")
    facts: Mapping[str, Any]
    if inputs:
        from gpulsh.budget import parse_memory
        from gpulsh.forecast.sample import plan as sampled
        from gpulsh.method import Method
        from gpulsh.sketch.named import sketches_by_name

        named = {name: value for name, value in options.items() if name.replace("_", "-") in opt.DECISION}
        parameters = opt.given_options(named)
        sketch, _ = sketches_by_name(parameters.pop("sketch", None), None, options["num_perm"], options["seed"])
        Method.choose(**parameters, sketch=sketch)
        parse_memory(options["memory"])
        found = sampled(inputs, {name: value for name, value in options.items() if name not in of_other})
        facts, lines = found, sample_lines(found)
    elif options["documents"] is None or options["size"] is None:
        raise click.UsageError("give INPUT, or the amount of text by --docs and --bytes")
    elif not (options["documents"] and options["size"]):
        raise click.UsageError("--docs or --bytes is 0; give both, above 0")
    elif options["gpus"] is not None and options["threads"] is not None:
        raise click.UsageError("give --gpus or --threads, not both")
    else:
        given, estimated = _from_numbers(options)
        facts, lines = {**given, **estimated.to_dict()}, _number_lines(given, estimated, options)
    say(json.dumps(facts, indent=2) if as_json else "\n".join(lines))


def device_shares(shares: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The parts of a budget with a device, each with its bytes."""
    words = {
        "read_ahead": "of the budget for text read ahead",
        "pinned": "of the budget as page-locked memory",
        "held": "of the budget for texts that wait to be compared and written",
        "device": "on each device",
    }
    return ((words[name], amount) for name, amount in shares.items() if name in words)


def sample_lines(plan: Mapping[str, Any]) -> Iterator[str]:
    """A plan from samples, for a terminal; stages of less than 0.05 s are left out."""
    from gpulsh.checks import plural
    from gpulsh.report.summary import MIN_SECONDS
    from gpulsh.report.wording import duration, share, size

    likely, most, corpus = plan["likely"], plan["most"], plan["likely"]["corpus"]
    whole = plan["sample"] == corpus["documents"]

    def row(name: str, value: str, rest: str = "") -> str:
        return f"{name:<9}{value:>14}{rest}"

    def up_to(name: str, likely: str, most: str) -> str:
        return row(name, likely, f"  at most {most}" if most != likely else "")

    part = f"{plan['sample']:,.0f} of them ({share(plan['sample'], corpus['documents'])})"
    files = f"{plural(plan['files'], 'file')} of {size(plan['bytes'])}"
    yield f"{plural(round(corpus['documents']), 'document')}, {size(int(corpus['bytes']))} of text in {files}"
    machine = f"{plan['backend']}, {plural(plan['threads'], 'thread')}"
    took = duration(plan["measured"])
    yield f"gpulsh ran {'all of them' if whole else part} on this machine in {took}: {machine}"
    yield "\nstage              time"
    yield from (row(name, duration(seconds)) for name, seconds in likely["seconds"].items() if seconds >= MIN_SECONDS)
    yield up_to("all", duration(likely["all"]), duration(most["all"]))
    yield row("", duration(likely["processor"]), "  of processor time")
    yield ""
    yield row("memory", size(int(likely["memory"])), f"  at its peak, with a budget of {size(plan['memory'])}")
    yield from (row("", size(amount), f"  {what}") for what, amount in device_shares(plan["shares"]))
    out = plan["work"] + likely["data"] + most["evidence"]
    yield row("OUT", size(int(out)), f"  at its peak; the end of the run removes {size(int(plan['work']))} of it")
    yield row("kept rows", size(int(likely["data"])))
    if "index" in plan:
        compact = f"  for later crawls, if you build one; {size(int(plan['index_at_source']))} by --evidence source"
        yield row("index", size(int(plan["index"])), compact)
    others = 1 - corpus["protected"]
    yield up_to("dropped", *(share(min(of["corpus"]["dropped"], others), others) for of in (likely, most)))
    if not whole:
        yield "\nDocuments repeat one another as in the sample. At most: copies are anywhere in the files."


def _from_numbers(options: Mapping[str, Any]) -> tuple[Mapping[str, Any], Estimate]:
    """The facts of the plan as JSON values, and the estimate."""
    from gpulsh.backends.cuda.memory import max_text_sizes
    from gpulsh.backends.parallel import processors
    from gpulsh.budget import MAX_DEFAULT, memory_shares, parse_memory
    from gpulsh.checks import check_integer
    from gpulsh.errors import ParameterError
    from gpulsh.forecast.formula import MAX_WORKERS, RATES, Corpus, check_rates, estimate, read_rates, workers_needed
    from gpulsh.method import Method, given_parameters

    gpus, nodes, hours = options["gpus"], options["nodes"], options["hours"]
    kind, name = ("thread", "threads") if gpus is None else ("GPU", "gpus")
    workers = check_integer(name, processors() if options[name] is None else options[name], 1, MAX_WORKERS)

    def machines(workers: int) -> int:
        return nodes or (1 if gpus is None else workers)

    check_integer("nodes", machines(workers) if nodes is None else nodes, 1, workers)
    check_rates(options["rates"])
    known = read_rates().get(kind, {})
    rates = {**known.get("rates", {}), **options["rates"]}
    assumed = {**read_rates()["corpus"], **{name: options[name] for name in SHARES if options[name] is not None}}
    corpus = Corpus(documents=options["documents"], bytes=options["size"], **assumed)
    memory = MAX_DEFAULT if options["memory"] is None else parse_memory(options["memory"])
    parameters = {name: options[name] for name in ("threshold", "num_perm", "bands", "rows")}
    method = Method.choose(**given_parameters(**parameters))
    banding: dict[str, Any] = {"bands": method.banding.bands, "rows": method.banding.rows}
    remote = options["remote"]
    fixed = {name: known.get(name, 0.0) for name in ("start", "process")}

    def estimated(workers: int) -> Estimate:
        at: dict[str, Any] = {"workers": workers, "nodes": machines(workers), "remote": remote, "memory": memory}
        return estimate(corpus, rates, **at, **banding, **fixed)

    found = estimated(workers)
    deadline, held = {}, {}
    if gpus is not None:  # the devices' own memory is not known
        sizes = memory_shares(memory, max_text_sizes(memory, -(-workers // machines(workers))))
        held = {name: sizes[name] for name in ("read_ahead", "pinned")}
    if hours is not None:
        if not (math.isfinite(hours) and hours > 0):
            raise ParameterError(f"hours is {hours:g}; give a number above 0")
        needed = workers_needed(hours * 3600, estimated) if found.seconds is not None else None
        deadline = {"hours": hours, "workers_needed": needed and max(needed, nodes or 1)}
    return {
        "documents": corpus.documents,
        "bytes": corpus.bytes,
        "threshold": method.threshold,
        **banding,
        "workers": workers,
        "worker": kind,
        "nodes": machines(workers),
        "remote": remote,
        "memory": memory,
        "shares": held,
        "assumed": assumed,
        "rates": {name: rates.get(name) for name in RATES},
        "measured_worker": known.get("worker"),
        "source": known.get("source"),
        **deadline,
    }, found


def _number_lines(given: Mapping[str, Any], found: Estimate, options: Mapping[str, Any]) -> Iterator[str]:
    """A plan from numbers, for a terminal."""
    yield from _stage_lines(given, found)
    yield ""
    yield from _size_lines(given, found)
    yield ""
    yield from _note_lines(given, found, options)
    if "hours" in given:
        yield f"\nTo finish in {given['hours']:g} h: {_deadline(given, found, options)}"


def _stage_lines(given: Mapping[str, Any], found: Estimate) -> Iterator[str]:
    """The stages that take 0.05 s or more."""
    from gpulsh.checks import banding_name, plural
    from gpulsh.report.summary import MIN_SECONDS
    from gpulsh.report.wording import duration, size

    stages, columns = found.stages, ("disk_read", "disk_written", "network", "memory_each")

    def row(name: str, time: str, bound: str = "", *amounts: str) -> str:
        return (f"{name:<9}{time:>14}  {bound:<9}" + "".join(f"{amount:>14}" for amount in amounts)).rstrip()

    machines = f"{plural(given['workers'], given['worker'])} of {plural(given['nodes'], 'machine')}"
    yield f"{given['documents']:,.0f} documents, {size(int(given['bytes']))} of text, on {machines}"
    yield f"threshold {given['threshold']:g}: {banding_name(given['bands'], given['rows'])}"
    yield ""
    yield row("stage", "time", "bound by", "disk read", "disk written", "network", "memory each")
    for stage in stages:
        if stage.seconds is None or stage.seconds >= MIN_SECONDS:
            time = "not measured" if stage.seconds is None else duration(stage.seconds)
            yield row(stage.name, time, stage.bound or "", *(size(int(getattr(stage, name))) for name in columns))
    if found.start:
        yield row("start", duration(found.start))
    sums = (size(int(sum(getattr(stage, name) for stage in stages))) for name in columns[:-1])
    yield row("all", "not known" if found.seconds is None else duration(found.seconds), "", *sums)
    if unknown := [name for name in ESTIMATED_STAGES if given["rates"][name] is None]:
        yield f"{'':<9}measure a sample and give {' '.join(f'--rate {name}=...' for name in unknown)}"


def _size_lines(given: Mapping[str, Any], found: Estimate) -> Iterator[str]:
    """Sizes on disk and the number of false candidates."""
    from gpulsh.report.wording import duration, size

    each, compact = (size(round(of / given["documents"])) for of in (found.index, found.index_at_source))
    yield f"OUT/_work at most      {size(int(found.work_disk)):>10}  plus {size(int(found.output))} of kept text"
    yield f"index of kept documents{size(int(found.index)):>10}  for later crawls, {each} per document"
    yield f"  by --evidence source {size(int(found.index_at_source)):>10}  {compact} per document; it reads texts again"
    yield ""
    yield "False candidate pairs cost time, but drop nothing. Their number, by the similarity of unrelated documents:"
    for similarity, pairs in found.false_candidates.items():
        seconds = found.false_seconds[similarity]
        time = f"{duration(seconds):>14} to compare" if seconds is not None else ""
        chance = "  (digests of 64 bits that agree by chance)" if similarity == 0 else ""
        rate = f"{pairs / given['documents']:.2g} per document"
        yield f"{similarity:>9g}  {pairs:>10.3g} pairs, {rate:<20}{time}{chance}".rstrip()


def _note_lines(given: Mapping[str, Any], found: Estimate, options: Mapping[str, Any]) -> Iterator[str]:
    """The assumptions."""
    from gpulsh.budget import TASK_MEMORY
    from gpulsh.checks import plural
    from gpulsh.forecast.formula import CONNECT_BYTES
    from gpulsh.io.limits import exact_size
    from gpulsh.report.wording import share, size

    rates, assumed = given["rates"], given["assumed"]
    met, dropped = (share(assumed[name], 1) for name in ("met", "dropped"))
    yield f"Assumed: {met} of the documents are in a candidate pair, and {dropped} are dropped;"
    yield f"{assumed['pairs']:g} pairs per document are compared. The time above includes no further false candidates."
    if given["shares"]:
        parts = ", ".join(f"{size(amount)} {what}" for what, amount in device_shares(given["shares"]))
        yield f"Of the memory of a machine: {parts}."
    yield f"Memory fits a budget of {size(given['memory'])}. But `connect` needs, on one machine, {CONNECT_BYTES}"
    yield "bytes for each document in a candidate pair."
    each, tasks = given["workers"] // given["nodes"], given["memory"] // TASK_MEMORY
    if given["worker"] == "thread" and tasks < each:
        enough = exact_size(TASK_MEMORY * each)
        yield f"The budget allows {plural(tasks, 'task')} at once on a machine. The time above needs --memory {enough}."
    slow = [name for name in ("disk", "network") if rates[name] is None]
    if slow and found.seconds is not None:
        yield f"No limit assumed: {' and '.join(slow)}. To set one: {' '.join(f'--rate {name}=5G' for name in slow)}"
    if given["nodes"] > 1:
        yield "For several machines, the work is assumed to divide evenly; none were run."
    if used := [name for name in ESTIMATED_STAGES if rates[name] is not None and name not in options["rates"]]:
        yield f"Rates of {', '.join(used)}: {given['measured_worker']}, {given['source']}"


def _deadline(given: Mapping[str, Any], found: Estimate, options: Mapping[str, Any]) -> str:
    """How many workers meet the time limit."""
    from gpulsh.checks import plural

    needed, kind = given["workers_needed"], given["worker"]
    if needed is not None:
        nodes = options["nodes"] or (1 if kind == "thread" else needed)
        return f"{plural(needed, kind)} on {plural(nodes, 'machine')}"
    if found.seconds is None:
        return "not known until every rate is measured"
    return f"no number of {kind}s is enough: start, disks or networks alone take longer"
