"""`gpulsh report`: makes the page of an earlier run again."""

from __future__ import annotations

import click

from gpulsh.cli.terminal import conclude


@click.command(short_help="Make report.html of an earlier run again.")
@click.argument("output", metavar="OUT")
@click.option(
    "--by", multiple=True, metavar="COLUMN", help="With what was dropped of each value of a column of INPUT, as lang."
)
def report(output: str, by: tuple[str, ...]) -> None:
    """Write OUT/report.html anew from OUT/report.json, as when jinja2 was missing at the time of the run.

    With --by a column is read again from INPUT, where that is as it was, and report.json has the counts, too.
    """
    from gpulsh.run.output.finished import Finished

    conclude(Finished.of(output).remake_page(by))
