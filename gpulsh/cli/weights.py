"""`gpulsh weights` writes the rows of a finished run again, with sampling weights."""

from __future__ import annotations

import click

from gpulsh.cli.options import choice
from gpulsh.cli.terminal import clean_end, conclude


@click.command(short_help="Add sampling weights to the rows of a run.")
@click.argument("run", metavar="OUT")
@click.option("-o", "--output", required=True, metavar="FOLDER", help="New folder for the rows.")
@click.option(
    "--weights",
    required=True,
    metavar="FILE.json|txt360|log|cap:N",
    help="Weights by the number of documents that a kept one stands for. FILE.json has least sizes and weights, as"
    ' {"1": 1, "2": 3}; FILE.json:LANGUAGE is one of several.',
)
@choice("--weight-by", "verified", "component", help="That number: 1 + copies + near, or the size of the component.")
def weights(run: str, output: str, weights: str, weight_by: str) -> None:
    """Write the rows of OUT/data to FOLDER, with a column weight. OUT is a finished run of `gpulsh dedup`.

    The counts come from OUT/clusters.parquet, so INPUT is not read. A row that is marked as not kept has the weight 0.
    """
    from gpulsh.run.output.weights import weigh_run

    with clean_end():
        rows = weigh_run(run, output, weights, weight_by=weight_by)  # type: ignore[arg-type]
    conclude(f"Wrote {rows:,} rows with weights to {output}.")
