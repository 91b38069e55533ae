"""What a run will take, as `gpulsh plan INPUT` and `gpulsh dedup --dry-run` print it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # numpy is loaded only when the command runs
    from gpulsh.run.foretell.foretell import Plan


def told(plan: Plan) -> str:
    """The plan as lines of text."""
    from gpulsh.report.funnel import duration, share, size

    likely, least, most = (getattr(plan.foretold, name) for name in ("likely", "least", "most"))
    corpus = likely.corpus
    files = f"{plan.files:,} file{'s' if plan.files != 1 else ''}"
    sampled = share(plan.sample, corpus.documents)
    of = "all of them were run" if plan.whole else f"{plan.sample:,.0f} of them ({sampled}) were run"
    threads = f"{plan.machine.threads} thread{'s' if plan.machine.threads != 1 else ''}"
    out = plan.work + likely.data + likely.evidence
    lines = [
        f"{corpus.documents:,.0f} documents, {size(int(corpus.bytes))} of text in {files} of {size(plan.bytes)};",
        f"{of} on this machine, in {duration(plan.seconds)}: {plan.backend}, {threads} side by side",
        "",
        "stage              time",
        *(f"{name:<9}{duration(seconds):>14}" for name, seconds in likely.seconds.items()),
        f"{'all':<9}{duration(likely.all):>14}{_between(duration(least.all), duration(most.all))}",
        f"{'':<9}{duration(likely.processor):>14}  of processor time",
        "",
        f"memory at most {size(int(likely.memory)):>8}  of a budget of {size(plan.machine.memory)}",
        f"OUT at most    {size(int(out)):>8}  of which {size(int(plan.work))} are removed at the end",
        f"kept rows      {size(int(likely.data)):>8}",
    ]
    shares = [share(of.corpus.dropped, 1) for of in (likely, least, most)]
    lines.append(f"dropped        {shares[0]:>8}{_between(*shares[1:])}")
    if not plan.whole:
        lines += [
            "",
            "Least: all copies stand close together in the files, so that the sample has them.",
            "Most: they stand anywhere, each in a pair of its own.",
        ]
    return "\n".join(lines)


def _between(least: str, most: str) -> str:
    return f"  least {least}, most {most}" if least != most else ""
