"""`gpulsh report`: makes the page of an earlier run again."""

from __future__ import annotations

import click

from gpulsh.cli.terminal import conclude


@click.command(short_help="Make report.html of an earlier run again.")
@click.argument("output", metavar="OUT")
def report(output: str) -> None:
    """Write OUT/report.html anew from OUT/report.json, as when jinja2 was missing at the time of the run."""
    from gpulsh.run.output.finished import Finished

    conclude(Finished.of(output).remake_page())
