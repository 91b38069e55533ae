"""`gpulsh plan`: what a job will take, before it is run; by samples of its files, or from numbers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gpulsh.account.stages import COSTS, FORETOLD
from gpulsh.cli.options import DECISION, choice, method_options, parsed, text_options
from gpulsh.cli.sections import SectionedCommand
from gpulsh.cli.terminal import say
from gpulsh.facts import Facts

if TYPE_CHECKING:  # numpy is loaded only when the command runs
    from gpulsh.report.plan.estimate import Estimate, Rates

SECTIONS = {  # first option -> heading
    "text_column": "Of INPUT",
    "docs": "Of numbers",
    "threshold": "Of both",
}
EXAMPLES = {  # command -> what it is for
    "gpulsh plan crawl/": "How long your own files will take on this machine",
    "gpulsh plan --docs 1e11 --bytes 5e14 --threads 8192 --nodes 64": "What a cluster needs for 10^11 pages",
}
SHARES = ("met", "pairs", "dropped")
OF_INPUT = {
    *("text_column", "lines", "as_text", "delimiter", "encoding"),
    *("shingle", "normalize", "measure", "sketch", "seed", "backend", "write"),
}
OF_NUMBERS = {"docs", "size", "gpus", "nodes", "remote", "hours", "given_rates", *SHARES}
OF_BOTH = {"threshold", "num_perm", "bands", "rows", "threads", "memory"}
SI = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def _rates(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    """The numbers of NAME=NUMBER, with an optional k, M, G or T behind, or a usage error."""
    found = {}
    for one in given:
        name, _, number = one.partition("=")
        try:
            found[name] = float(number.rstrip("kMGT")) * SI.get(number[-1:], 1)
        except ValueError:
            raise click.BadParameter(f"{one!r} is not NAME=NUMBER, as sign=20G", ctx, param) from None
    return found


def _bytes(ctx: click.Context, param: click.Parameter, given: str | None) -> float | None:
    """A number, or one with a unit: 1TB are 10^12 bytes, 1TiB are 2^40."""
    if given is None:
        return None
    found = re.fullmatch(r"(.*?[0-9.])\s*([kKMGTP]?)(i?)B?", given.strip())
    try:
        number = float(found[1] if found else given)
    except ValueError:
        raise click.BadParameter(f"{given!r} is no number of bytes, as 5e14 or 500TB", ctx, param) from None
    base = 1024 if found and found[3] else 1000
    return number * base ** " KMGTP".index(found[2].upper() or " ") if found else number


def _refuse_others(ctx: click.Context, names: set[str], of: str) -> None:
    """A usage error where an option is given that is of a plan of the other kind."""
    for option in ctx.command.params:
        if option.name in names and ctx.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            without = "INPUT" if of == "numbers" else "--docs and --bytes"
            raise click.UsageError(f"{option.opts[0]} is of a plan from {of}; leave it out, or {without}")


def _of_inputs(inputs: Sequence[str], options: Facts, as_json: bool) -> None:
    """Print what the files will take."""
    from gpulsh.budget import parse_memory
    from gpulsh.cli.foretold import told
    from gpulsh.method import Asked
    from gpulsh.run.foretell.foretell import plan

    method = {name: value for name, value in options.items() if name.replace("_", "-") in DECISION}
    Asked(**parsed(method)).method()
    parse_memory(options["memory"])
    found = plan(inputs, options)
    say(json.dumps(found.to_dict(), indent=2) if as_json else told(found))


def _costs() -> str:
    """What the rates of the stages are of, as `pairs for route and verify`."""
    stages: dict[str, list[str]] = {}
    for name, unit in COSTS.items():
        stages.setdefault(unit, []).append(name)
    return ", ".join(
        f"{unit} for {' and '.join(filter(None, [', '.join(names[:-1]), names[-1]]))}" for unit, names in stages.items()
    )


@click.command(
    cls=SectionedCommand,
    sections=SECTIONS,
    examples=EXAMPLES,
    short_help="Foretell time, disk and memory of a job, by its files or from numbers.",
)
@click.argument("inputs", nargs=-1, metavar="[INPUT...]")
@text_options()
@method_options("shingle", "normalize", "measure", "sketch", "seed")
@choice("--backend", "auto", "cpu", "cuda", "reference", help="auto takes CUDA where it works.")
@choice("--write", "data", "duplicates", help="Kept rows and the evidence, or the evidence alone.")
@click.option("--docs", type=float, metavar="N", help="Documents, as 1e11.")
@click.option("--bytes", "size", callback=_bytes, metavar="N", help="Bytes of their text, as 5e14 or 500TB.")
@click.option("--gpus", type=int, metavar="N", help="Workers are GPUs, one a machine unless --nodes says otherwise.")
@click.option("--nodes", type=int, metavar="N", help="Machines that share the workers evenly.  [default: 1]")
@click.option("--remote", is_flag=True, help="Inputs and results lie behind the network, as in S3, not on the disks.")
@click.option("--hours", type=float, metavar="H", help="Say how many workers finish in so many hours.")
@click.option("--met", type=float, metavar="SHARE", help="Documents that are in a candidate pair, from 0 to 1.")
@click.option("--pairs", type=float, metavar="N", help="Pairs compared, a document.")
@click.option("--dropped", type=float, metavar="SHARE", help="Documents that are dropped, from 0 to 1.")
@click.option(
    "--rate",
    "given_rates",
    multiple=True,
    callback=_rates,
    metavar="STAGE=NUMBER",
    help=f"What a worker does a second, as sign=20G: {_costs()}; of a machine: bytes for disk and network.",
)
@method_options("threshold", "num-perm", "bands", "rows")
@click.option("--threads", type=int, metavar="N", help="CPU threads, the workers.  [default: of this machine]")
@click.option("--memory", metavar="SIZE", help="Budget of a machine, as 64GiB.  [default: 8GiB]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the table.")
@click.pass_context
def plan(
    ctx: click.Context,
    /,
    inputs: tuple[str, ...],
    docs: float | None,
    size: float | None,
    gpus: int | None,
    threads: int | None,
    nodes: int | None,
    remote: bool,
    memory: str | None,
    hours: float | None,
    threshold: float | None,
    num_perm: int | None,
    bands: int | None,
    rows: int | None,
    given_rates: dict[str, float],
    as_json: bool,
    **others: Any,
) -> None:
    """Estimate what a job takes: time, disk and memory, of INPUT or of numbers.

    Of INPUT, samples of some seconds are run on this machine as `gpulsh dedup` would run all of it, of the same formats
    and packed alike; nothing is left of them. `gpulsh dedup ... --dry-run` does it with all options of that command.

    Of numbers, time, disk, network and memory of each stage, and false candidate pairs, on any machines. Rates come
    from a record of such workers, where there is one; give others by --rate, or they count as not measured. How much
    the documents repeat one another (--met, --pairs, --dropped) depends on the corpus: take it from a run of a sample.
    Without it, the plan assumes the corpus that the rates were measured on.
    """
    _refuse_others(ctx, OF_NUMBERS if inputs else OF_INPUT, "numbers" if inputs else "files")
    if inputs:
        options = {name: value for name, value in ctx.params.items() if name in {*OF_INPUT, *OF_BOTH}}
        _of_inputs(inputs, options, as_json)
        return
    if docs is None or size is None:
        raise click.UsageError("give INPUT, or how much there is by --docs and --bytes")
    if gpus is not None and threads is not None:
        raise click.UsageError("give --gpus or --threads, not both")
    from gpulsh.account.costs import Corpus
    from gpulsh.backends.processors import processors
    from gpulsh.budget import MOST_CHOSEN, parse_memory
    from gpulsh.errors import ParameterError
    from gpulsh.method import Asked
    from gpulsh.params import check_integer
    from gpulsh.report.plan.estimate import Rates, estimate, recorded, workers_needed

    kind = "GPU" if gpus is not None else "thread"
    most = 10**9
    if gpus is not None:
        workers = check_integer("gpus", gpus, 1, most)
    else:
        workers = check_integer("threads", processors() if threads is None else threads, 1, most)

    def machines(workers: int) -> int:
        return nodes if nodes is not None else workers if gpus is not None else 1

    check_integer("nodes", machines(workers), 1, workers)
    unknown = sorted(given_rates.keys() - Rates.__dataclass_fields__.keys())
    if unknown:
        raise ParameterError(f"there is no rate of {unknown[0]}; there are {', '.join(Rates.__dataclass_fields__)}")
    measured = recorded().get(kind, {})
    rates = Rates(**{**measured.get("rates", {}), **given_rates})
    assumed = {
        **recorded()["corpus"],
        **{name: share for name, share in others.items() if name in SHARES and share is not None},
    }
    corpus = Corpus(documents=docs, bytes=size, **assumed)
    budget = MOST_CHOSEN if memory is None else parse_memory(memory)
    method = Asked(threshold=threshold, num_perm=num_perm, bands=bands, rows=rows).method()
    shape = method.banding

    def estimated(workers: int) -> Estimate:
        return estimate(
            corpus,
            rates,
            workers=workers,
            nodes=machines(workers),
            bands=shape.bands,
            rows=shape.rows,
            start=measured.get("start", 0.0),
            process=measured.get("process", 0.0),
            remote=remote,
            memory=budget,
        )

    found = estimated(workers)
    needed = None
    if hours is not None:
        if not (math.isfinite(hours) and hours > 0):
            raise ParameterError(f"hours is {hours:g}; give a number above 0")
        if found.seconds is not None:
            needed = workers_needed(hours * 3600, estimated)
    asked = {
        "documents": docs,
        "bytes": size,
        "threshold": method.threshold,
        "bands": shape.bands,
        "rows": shape.rows,
        "workers": workers,
        "worker": kind,
        "nodes": machines(workers),
        "remote": remote,
        "memory": budget,
        "assumed": assumed,
        "rates": vars(rates),
        "measured_worker": measured.get("worker"),
        "source": measured.get("source"),
    }
    if as_json:
        more = {} if hours is None else {"hours": hours, "workers_needed": needed}
        say(json.dumps({**asked, **found.to_dict(), **more}, indent=2))
        return
    say(_table(asked, found, rates, set(given_rates)))
    if hours is not None:
        if needed is not None:
            told = f"{_many(needed, kind)} on {_many(machines(needed), 'machine')}"
        elif found.seconds is None:
            told = "not known while a rate is not measured"
        else:
            told = f"no number of {kind}s is enough: start, disks or networks alone take longer"
        say(f"\nTo finish in {hours:g} h: {told}")


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' if count != 1 else ''}"


def _table(asked: Facts, found: Estimate, rates: Rates, given: set[str]) -> str:
    from gpulsh.report.funnel import duration, share, size
    from gpulsh.report.plan.estimate import CONNECT_BYTES

    def row(name: str, time: str, bound: str, amounts: Sequence[str]) -> str:
        return f"{name:<9}{time:>14}  {bound:<9}" + "".join(f"{amount:>14}" for amount in amounts)

    lines = [
        f"{asked['documents']:,.0f} documents, {size(int(asked['bytes']))} of text, on "
        f"{_many(asked['workers'], asked['worker'])} of {_many(asked['nodes'], 'machine')}",
        f"threshold {asked['threshold']:g}: {asked['bands']} bands of {asked['rows']} rows",
        "",
        row("stage", "time", "bound by", ("disk read", "disk written", "network", "memory each")),
    ]
    columns = ("disk_read", "disk_written", "network", "memory_each")
    for stage in found.stages:
        time = "not measured" if stage.seconds is None else duration(stage.seconds)
        lines.append(row(stage.name, time, stage.bound or "", [size(int(getattr(stage, name))) for name in columns]))
    if found.start:
        lines.append(row("start", duration(found.start), "", ()).rstrip())
    sums = [size(int(sum(getattr(stage, name) for stage in found.stages))) for name in columns[:-1]]
    lines.append(row("all", "not known" if found.seconds is None else duration(found.seconds), "", sums))
    unknown = [name for name in FORETOLD if getattr(rates, name) is None]
    if unknown:
        lines.append(f"{'':<9}measure a sample and give {' '.join(f'--rate {name}=...' for name in unknown)}")
    lines += [
        "",
        f"OUT/_work at most     {size(int(found.work_disk)):>10}  beside {size(int(found.output))} of kept text",
        f"index of what is kept {size(int(found.index)):>10}  for later crawls, "
        f"{size(round(found.index / asked['documents']))} a document",
        "",
        "False candidates, which are compared and drop nothing, where unrelated documents have a Jaccard similarity of",
    ]
    for similarity, pairs in found.false_candidates.items():
        each, seconds = f"{pairs / asked['documents']:.2g} a document", found.false_seconds[similarity]
        told = f"{duration(seconds):>14} to compare" if seconds is not None else ""
        chance = "  (digests of 64 bits that agree by chance)" if similarity == 0 else ""
        lines.append(f"{similarity:>9g}  {pairs:>10.3g} pairs, {each:<19}{told}{chance}".rstrip())
    assumed = asked["assumed"]
    used = [name for name in FORETOLD if getattr(rates, name) is not None and name not in given]
    met, dropped = (share(assumed[name], 1) for name in ("met", "dropped"))
    lines += [
        "",
        f"Assumed: {met} of the documents are in a candidate pair, {assumed['pairs']:g} pairs are compared a document,",
        f"{dropped} are dropped. False candidates beyond those are not in the time above.",
        f"Memory is what a stage holds at once, cut to fit a budget of {size(asked['memory'])}; but one machine makes"
        f" the groups, in {CONNECT_BYTES} bytes a document that met others.",
    ]
    if asked["remote"]:
        lines.append("Inputs and results count as network, the work between the stages as disk.")
    slow = [name for name in ("disk", "network") if getattr(rates, name) is None]
    if slow and found.seconds is not None:
        lines.append(f"Not a limit here: {' and '.join(slow)}; give {' '.join(f'--rate {name}=...' for name in slow)}.")
    if asked["nodes"] > 1:
        lines.append("Several machines are calculated, as work that divides evenly; none were run.")
    if used:
        lines.append(f"Rates of {', '.join(used)}: {asked['measured_worker']}, {asked['source']}")
    return "\n".join(lines)
