"""A command with many options: its help has them under headings, and examples at the end."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from typing import Any

import click

LEAST = 30  # columns
OTHER = "Other"  # heading of what click adds: --help


class Formatter(click.HelpFormatter):
    """Help whose second column has room for whole words in a narrow terminal, too."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.width = min(self.width, max(shutil.get_terminal_size().columns - 2, LEAST))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write rows of two columns."""
        super().write_dl(rows, min(col_max, self.width // 3), col_spacing)


class Context(click.Context):
    """One with such help."""

    formatter_class = Formatter


class SectionedCommand(click.Command):
    """A command whose options stand under headings, in the order in which they are declared.

    `sections` maps the name of a section's first option to its heading, so that an option which is added later has one;
    `examples` maps a command line to what it does.
    """

    def __init__(self, *args: Any, sections: Mapping[str, str], examples: Mapping[str, str], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.sections, self.examples = sections, examples

    def options_by_section(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """The options below each heading: how each is written, and what it does."""
        rows: dict[str, list[tuple[str, str]]] = {}
        heading = OTHER
        for option in self.get_params(ctx):
            heading = OTHER if option not in self.params else self.sections.get(option.name or "", heading)
            row = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            if row is not None:
                rows.setdefault(heading, []).append(row)
        return rows

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section under its heading."""
        for heading, rows in self.options_by_section(ctx).items():
            with formatter.section(heading):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, each below what it does; a command line is never wrapped."""
        with formatter.section("Examples"):
            for line, meaning in self.examples.items():
                indent = " " * formatter.current_indent
                formatter.write(f"{indent}# {meaning}\n{indent}{line}\n")
