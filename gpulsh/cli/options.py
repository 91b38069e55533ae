"""Options that several commands share, and the layout of help."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import click

from gpulsh.errors import BackendError, ParameterError

Function = Callable[..., Any]
Option = Callable[[Function], Function]
METHOD = ("threshold", "shingle", "normalize", "sketch", "num-perm", "bands", "rows", "seed")
DECISION = (*METHOD, "measure")
MIN_WIDTH = 30  # columns of help
MARGIN = 2  # columns that help leaves free on the right
OTHER = "Other"  # heading for the options that show help
ALL = "gpulsh.help_all"  # whether to show every option


def combine_options(*options: Option) -> Option:
    """Several options as one, in this order."""

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def method_options(*names: str, otherwise: str | None = None) -> Option:
    """The parameters `names` of a method, all by default, for `given_options`; `otherwise` describes other defaults."""

    def own(meaning: str, default: object, **how: Any) -> Mapping[str, Any]:
        return {**how, "help": f"{meaning}.  [{otherwise or f'default: {default}'}]"}

    shingle = (
        "Unit of comparison: runs of SIZE words (word:SIZE) or characters (char:SIZE). +symbols makes each symbol"
        " a token, +labels counts every occurrence of a shingle"
    )
    sketch = "Sketch that finds candidates: minhash, fast, one-permutation, c-minhash, simhash[:BITS][:DISTANCE]"
    measure = (
        "Similarity measure: shared shingles, or the share of one document that is in the other, found without a sketch"
    )
    divided = "--num-perm divided by {}, or chosen for the threshold"
    known = {
        "threshold": own("Minimum Jaccard similarity of duplicates", 0.8, type=float, metavar="J"),
        "shingle": own(shingle, "word:5", metavar="UNIT:SIZE"),
        "normalize": own("Unicode normal form for comparison", "none", type=click.Choice(["NFC", "NFKC"])),
        "sketch": own(sketch, "minhash", metavar="NAME[:K]"),
        "num-perm": own("Number of values in a signature", 128, type=int, metavar="K"),
        "bands": own("Number of bands", divided.format("--rows"), type=int, metavar="B"),
        "rows": own("Number of rows in a band", divided.format("--bands"), type=int, metavar="R"),
        "seed": own("Seed of the hash functions", 1, type=int, metavar="N"),
        "measure": own(measure, "jaccard", type=click.Choice(["jaccard", "containment"])),
    }
    return combine_options(*(click.option(f"--{name}", **known[name]) for name in names or METHOD))


def choice(name: str, *values: str, help: str) -> Option:
    """An option with one of `values`; the first is the default."""
    return click.option(name, type=click.Choice(values), default=values[0], show_default=True, help=help)


class FileText(click.types.StringParamType):
    """The name of a column, an id or a key: UTF-8, as in files, in any locale."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Decode the bytes of UTF-8 that Python read as lone surrogates."""
        if value.startswith("source:"):  # INPUTs, which are paths
            return value
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def value(names: str, metavar: str, help: str, **how: Any) -> Option:
    """An option with a value. `names` are its spellings, and its name in Python if that differs."""
    if metavar.endswith("COLUMN") or metavar.startswith("NAME[") or metavar == "ID":
        how["type"] = FileText()
    return click.option(*names.split(), metavar=metavar, help=help, **how)


def number(name: str, metavar: str, help: str, *, default: float | None = None, kind: type = int) -> Option:
    """An option with an integer, or a number of another kind."""
    return value(name, metavar, help, type=kind, default=default, show_default=default is not None)


def flag(names: str, help: str) -> Option:
    """An option without a value, with names as `value` has them."""
    return click.option(*names.split(), is_flag=True, help=help)


on_error = choice(
    "--on-error", "fail", "skip", help="Stop at a bad record, or list it in rejected.parquet and continue."
)


def protect_options(protect: str, passages: str) -> Option:
    """The options of a test set, with the help of the first two."""
    return combine_options(
        value("--protect", "PATH", protect, multiple=True),
        number("--passages", "N", passages),
        number(
            "--coverage",
            "SHARE",
            "Minimum share of a protected document's words in such windows, with --passages.",
            default=0.8,
            kind=float,
        ),
        number(
            "--ignore-common",
            "K",
            "With --passages: ignore windows of more than K protected documents, such as instructions.",
        ),
    )


def text_options(*, ids: str | None = None) -> Option:
    """The place of texts in files, and of their ids, if `ids` describes their use."""
    options = [
        value(
            "--text-column",
            "NAME[.FIELD][,NAME...]",
            "Column or nested field of the text. Several are joined by line ends; nulls are left out."
            " Write column:NAME if a name has a dot or comma.",
            default="text",
            show_default=True,
        ),
        flag("--lines", "Treat each line of a text file as a document, not the whole file."),
        value(
            "--as-text",
            "PATTERN",
            "Treat each file with a name like '*.py' as a document; in folders, read only these. May be repeated.",
            multiple=True,
        ),
        value(
            "--delimiter",
            "CHARACTER",
            "Separator of CSV and TSV values, such as ';' or tab.  [default: comma, or tab in TSV]",
        ),
        value("--encoding", "NAME", "Encoding of CSV, TSV and text files, such as latin-1.  [default: UTF-8]"),
    ]
    if ids:
        options.append(value("--id-column", "NAME[.FIELD]", ids))
    return combine_options(*options)


threads = number("--threads", "N", "Threads of the CPU backend.  [default: all processors]")
backend = choice("--backend", "auto", "cpu", "cuda", "reference", help="Backend; auto uses CUDA if it works.")
backends = combine_options(backend, threads)
engine = combine_options(
    value(
        "--memory", "SIZE", "Memory for the run, such as 4GiB.  [default: 8GiB, or half of the memory if that is less]"
    ),
    choice(
        "--engine",
        "local",
        "ray",
        help="Run on this machine or on a Ray cluster. On Ray, each worker has its own --memory and --threads, by"
        " default 4GiB and 4, or less on smaller nodes.",
    ),
    value(
        "--address",
        "HOST:PORT",
        "With --engine ray: the cluster to join, or auto.  [default: RAY_ADDRESS, or a new one on this machine]",
    ),
)
overwrite_and_resume = combine_options(
    flag("--resume", "Continue an unfinished run of the same job in OUT."),
    flag("--overwrite", "Replace the results of an earlier run in OUT, and nothing else."),
)
report = flag(
    "--json as_json",
    "Print the report as JSON, and progress as JSON lines on standard error. Warnings and errors stay plain lines.",
)


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The given options as keywords in Python; a missing option has no keyword."""
    given = {name: value for name, value in options.items() if value is not None}
    if "shingle" in given:
        given["shingling"] = given.pop("shingle")
    if "normalize" in given:
        from gpulsh.params import Folding

        given["folding"] = Folding(form=given.pop("normalize"))
    return given


def suggestion(name: str, names: Iterable[str], least: float = 0.6) -> str:
    """A question with the most similar of `names`; empty if none has at least this likeness."""
    bare = {known.lstrip("-"): known for known in names}  # else all options look alike
    found = get_close_matches(name, bare, 1, least)
    return f" Did you mean {bare[found[0]]}?" if found else ""


class Group(click.Group):
    """A group of commands. The error of an unknown one names the most similar command, or the help."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            nearest = suggestion(name, known)
            ctx.fail(f"No such command {name!r}{'.' + nearest if nearest else f'; see `{ctx.command_path} --help`'}")
        return super().resolve_command(ctx, args)


# --- help ---


class Formatter(click.HelpFormatter):
    """Help with a second column of whole words, also in a narrow terminal."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.width = min(self.width, max(shutil.get_terminal_size().columns - MARGIN, MIN_WIDTH))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write rows of two columns; the choices of an option that does not fit go on below it."""
        indent = " " * self.current_indent
        fitting = [(self._fitted(first, indent), second) for first, second in rows]
        super().write_dl(fitting, min(col_max, self.width // 3), col_spacing)

    def _fitted(self, option: str, indent: str) -> str:
        cut = option.rfind("|", 0, self.width) + 1
        if cut == 0 or len(indent + option) <= self.width + MARGIN:
            return option
        return f"{option[:cut]}\n{indent}    {option[cut:]}"


class Context(click.Context):
    """The context of every command; `obj` is whether --verbose was given."""

    formatter_class = Formatter

    def invoke(self, *given: Any, **keywords: Any) -> Any:
        """Call the command; its errors then name options instead of their keywords."""
        try:
            return super().invoke(*given, **keywords)
        except (ParameterError, BackendError) as error:
            options = [option for option in self.command.params if isinstance(option, click.Option)]
            known = {option.name: option.opts[-1] for option in options}
            known |= {opt[2:].replace("-", "_"): opt for opt in list(known.values()) if opt != "--and"}  # it is a word
            keyword = rf"(?<![^\s(])(?<!the )({'|'.join(map(str, known))})(?= is | are | has | names | needs | '|=)"
            raise type(error)(re.sub(keyword, lambda found: known[found[1]], error.message)) from error


def _show_all(ctx: click.Context, option: click.Parameter, given: bool) -> None:
    if given and not ctx.resilient_parsing:
        ctx.meta[ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class SectionedCommand(click.Command):
    """A command with examples, and headings for its options in the order of their declaration.

    `sections` maps the first option of each section to its heading, and `examples` a command line to its purpose. With
    `common`, --help shows these options and three examples, and --help-all shows everything.
    """

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, str],
        examples: Mapping[str, str],
        common: Sequence[str] = (),
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **attributes)
        self.sections, self.examples, self.common = sections, examples, common
        if common:
            flags: Any = {"is_flag": True, "is_eager": True, "expose_value": False}
            everything = click.Option(
                ["--help-all"], **flags, callback=_show_all, help="Show every option, and more examples."
            )
            self.params.append(everything)

    def options_by_section(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """The options below each heading: how each is written, and its meaning."""
        rows: dict[str, list[tuple[str, str]]] = {}
        heading = OTHER
        for option in self.get_params(ctx):
            own = option in self.params and option.name != "help_all"
            heading = self.sections.get(option.name or "", heading) if own else OTHER
            row = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            if row is not None:
                rows.setdefault(heading, []).append(row)
        return rows

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usage, the examples, the description and the options."""
        if not self.common or ctx.meta.get(ALL):
            super().format_help(ctx, formatter)
            self._write_examples(formatter, self.examples)
            return
        self.format_usage(ctx, formatter)
        self._write_examples(formatter, dict(list(self.examples.items())[:3]))
        formatter.write_paragraph()
        formatter.write_text(self.get_short_help_str(limit=200))
        options = {option.name: option for option in self.params}
        shown = [*(options[name] for name in (*self.common, "help_all")), self.get_help_option(ctx)]
        rows = [option.get_help_record(ctx) for option in shown if option is not None]
        with formatter.section("Common options"):
            formatter.write_dl([row for row in rows if row is not None])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section below its heading."""
        for heading, rows in self.options_by_section(ctx).items():
            with formatter.section(heading):
                formatter.write_dl(rows)

    def _write_examples(self, formatter: click.HelpFormatter, examples: Mapping[str, str]) -> None:
        """Write each example below its purpose; a command that does not fit goes on after a backslash."""
        with formatter.section("Examples"):
            for line, meaning in examples.items():
                indent = " " * formatter.current_indent
                formatter.write(click.wrap_text(meaning, formatter.width, f"{indent}# ", f"{indent}# ") + "\n")
                if len(indent + line) > formatter.width + MARGIN:
                    parts = textwrap.wrap(line, formatter.width - 6, break_on_hyphens=False, break_long_words=False)
                    line = f" \\\n{indent}    ".join(parts)
                formatter.write(f"{indent}{line}\n")
