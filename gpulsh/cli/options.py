"""Options that several commands take, each written once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

Command = Callable[..., Any]
Option = Callable[[Command], Command]
METHOD = ("threshold", "shingle", "normalize", "sketch", "num-perm", "bands", "rows", "seed")
DECISION = (*METHOD, "measure")


def together(*options: Option) -> Option:
    """Several as one, shown in this order."""

    def taken(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return taken


def method_options(*names: str, otherwise: str | None = None) -> Option:
    """The parameters `names` of a method, all where none is named; `parsed` makes keywords of what is given.

    `otherwise` says what holds where one is left open, if that is not its default.
    """

    def help_of(meaning: str, default: object) -> str:
        return f"{meaning}.  [default: {default}]" if otherwise is None else f"{meaning}; {otherwise}."

    known: Mapping[str, Mapping[str, Any]] = {
        "threshold": {"type": float, "metavar": "J", "help": help_of("Jaccard similarity of duplicates", 0.8)},
        "shingle": {
            "metavar": "UNIT:SIZE",
            "help": help_of(
                "What is compared: runs of SIZE words, or char:SIZE; +symbols: signs, too; +labels: all occurrences",
                "word:5",
            ),
        },
        "normalize": {
            "type": click.Choice(["NFC", "NFKC"]),
            "help": f"Unicode normalization of the text; {otherwise or 'none where not given'}.",
        },
        "sketch": {
            "metavar": "NAME[:K]",
            "help": help_of(
                "Finds candidates: minhash, fast, one-permutation, c-minhash, simhash[:BITS][:DISTANCE]", "minhash"
            ),
        },
        "num-perm": {"type": int, "metavar": "K", "help": help_of("Values of a signature", 128)},
        "bands": {
            "type": int,
            "metavar": "B",
            "help": "Bands; "
            f"{otherwise or 'where not given --num-perm divided by --rows, or chosen for the threshold'}.",
        },
        "rows": {
            "type": int,
            "metavar": "R",
            "help": f"Rows of a band; {otherwise or 'where not given --num-perm divided by --bands, or chosen'}.",
        },
        "seed": {"type": int, "metavar": "N", "help": help_of("Of the hash functions", 1)},
        "measure": {
            "type": click.Choice(["jaccard", "containment"]),
            "help": help_of(
                "What of two documents is compared: all that either has, or how much of one a kept one contains",
                "jaccard",
            ),
        },
    }
    return together(*(click.option(f"--{name}", **known[name]) for name in names or METHOD))


def choice(name: str, *values: str, help: str) -> Option:
    """An option that takes one of `values`, the first where it is not given."""
    return click.option(name, type=click.Choice(values), default=values[0], show_default=True, help=help)


def text_options(*, ids: str | None = None) -> Option:
    """Where the texts of files are, and their ids, where `ids` says the use of them."""
    where = (
        click.option(
            "--text-column",
            default="text",
            show_default=True,
            metavar="NAME[.FIELD][,NAME...]",
            help="Column of the text, or a field of its objects; several are joined by a line end, nulls left out."
            " column:NAME for a name with a dot or comma.",
        ),
        click.option(
            "--lines", is_flag=True, help="Each line of a text file (.txt, .txt.gz, ...) is a document, not the file."
        ),
        click.option(
            "--as-text",
            multiple=True,
            metavar="PATTERN",
            help="Files of such names, as '*.py', are one text each; in folders no others count. May be repeated.",
        ),
        click.option("--delimiter", metavar="CHARACTER", help="Between the values of CSV and TSV, as ';' or tab."),
        click.option("--encoding", metavar="NAME", help="Of CSV, TSV and text files, as latin-1.  [default: UTF-8]"),
    )
    return together(*where, *([click.option("--id-column", metavar="NAME[.FIELD]", help=ids)] if ids else []))


sample_option = click.option(
    "--sample", type=int, default=10_000, show_default=True, metavar="N", help="Documents to draw; all where fewer."
)
backend_options = together(
    choice("--backend", "auto", "cpu", "cuda", "reference", help="auto takes CUDA where it works."),
    click.option(
        "--threads", type=int, metavar="N", help="Threads of the CPU backend; all processors where not given."
    ),
)


def form_of(options: dict[str, Any]) -> dict[str, Any]:
    """How files are read where their names do not say it, which is taken out of the options."""
    return {name: options.pop(name) for name in ("lines", "as_text", "delimiter", "encoding")}


def parsed(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given, as Python's keywords; a parameter that is left open is left out."""
    given = {name: value for name, value in options.items() if value is not None}
    seed = given.get("seed")  # of all sketches
    if "shingle" in given:
        from gpulsh.params import Shingling

        given["shingling"] = Shingling.parse(given.pop("shingle"))
    if "normalize" in given:
        from gpulsh.params import Folding

        given["folding"] = Folding(form=given.pop("normalize"))
    if "sketch" in given:
        from gpulsh.sketch.named import parse_bits, parse_sketch

        if given["sketch"].split(":")[0] == "simhash":
            given["sketch"], distance = parse_bits(given["sketch"], seed)
            given |= {} if distance is None else {"distance": distance}
            given.pop("seed", None)
        else:
            given["sketch"] = parse_sketch(given["sketch"], given.pop("num_perm", None), given.pop("seed", None))
    if "also" in given:
        from gpulsh.sketch.named import parse_bits

        given["also"], distance = parse_bits(given["also"], seed)
        if distance is not None and given.setdefault("distance", distance) != distance:
            raise click.BadParameter(f"--sketch and --and give distances {given['distance']} and {distance}; give one")
    return given
