"""`gpulsh sign`: signatures and band digests of files, for SQL."""

from __future__ import annotations

from typing import Any

import click

from gpulsh.cli.ending import ended_cleanly
from gpulsh.cli.options import backend_options, method_options, parsed, text_options
from gpulsh.cli.terminal import conclude


@click.command(short_help="Write signatures and band digests of files, for SQL engines.")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("-o", "--output", required=True, metavar="FILE", help="Parquet file, made here.")
@click.option("--overwrite", is_flag=True, help="Replace FILE where gpulsh wrote it, and no other.")
@text_options(ids="Column of ids to write beside file and row.")
@method_options()
@backend_options
def sign(inputs: tuple[str, ...], output: str, **options: Any) -> None:
    """Write a row for each document of INPUT: document, file, row, the signature's values v0, v1, ... and the band
    digests band0, band1, ... Documents that share a value of one band column are candidates. Of simhash the values are
    words of 64 bits, of which near documents differ in at most DISTANCE bits.
    """
    from gpulsh.run.signatures import sign_files

    with ended_cleanly():
        documents = sign_files(inputs, output, progress=True, **parsed(options))
    conclude(f"{documents} documents are signed in {output}")
