"""Pages of the manual that are made of the program: its options, its Python names, and the tutorial.

mkdocs calls `on_files` (mkdocs.yml names this file); tests/test_manual.py asks for the pages themselves.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import gpulsh
from gpulsh.cli import group
from gpulsh.cli.options import SectionedCommand

TUTORIAL = Path(__file__).parents[1] / "examples/tutorial.ipynb"
PLAIN = re.compile(r"^(\s{2,}\S|\S.*\S {2,}\S|[=-]{3,})", re.MULTILINE)  # a table or a list of fields
ESCAPED = re.compile(r"[<>&*_\[\]`|\\]")
MARKS = re.compile(r"(?:[\[<_]|^>)(?=[^`]*(?:`[^`]*`[^`]*)*\Z)", re.MULTILINE)  # of Markdown, outside of `code`


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to the pages of docs/."""
    from mkdocs.structure.files import File

    for name, page in (("options.md", options_page), ("api.md", api_page), ("tutorial.md", tutorial_page)):
        files.append(File.generated(config, name, content=page()))
    return files


def options_page() -> str:
    """Every option of every command, as help shows it."""
    intro = "`gpulsh COMMAND --help` prints them, too; for dedup it is `gpulsh dedup --help-all`."
    return "\n".join(["# Options", "", intro, *_commands(group, "gpulsh")]) + "\n"


def _commands(of: click.Group, path: str) -> Iterator[str]:
    context = click.Context(of, info_name=path, **group.context_settings)
    for name in of.list_commands(context):
        command = of.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")
            continue
        own = click.Context(command, context, f"{path} {name}", **command.context_settings)
        yield f"\n## {path} {name}\n\n`{' '.join([path, name, *command.collect_usage_pieces(own)])}`\n"
        yield _prose(command)
        sectioned = isinstance(command, SectionedCommand)
        options = (option for option in command.get_params(own) if isinstance(option, click.Option))
        records = [option.get_help_record(own) for option in options]
        sections = command.options_by_section(own) if sectioned else {"Options": [row for row in records if row]}
        for heading, rows in sections.items():
            yield f"\n**{heading}**\n"
            for option, meaning in rows:
                yield f"`{option}`\n:   {ESCAPED.sub(_escape, meaning)}\n"
        if sectioned:
            examples = "\n".join(f"# {meaning}\n{line}" for line, meaning in command.examples.items())
            yield f"**Examples**\n\n```bash\n{examples}\n```"


def _escape(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};"


def api_page() -> str:
    """Every public name, its signature and its docstring, and the public methods of a class."""
    parts = ["# Python API", (gpulsh.__doc__ or "").strip()]
    for name in gpulsh.__all__:
        value = getattr(gpulsh, name)
        if isinstance(value, str):
            parts.append(f"## `{name}`\n\nThe version, {value!r}.")
            continue
        parts.append(f"## `{name}`\n\n{_called(name, value)}{_prose(value)}")
        for method, found in _members(value) if inspect.isclass(value) else ():
            kind, call = ("", _called(method, found)) if callable(found) else (" (property)", "")
            parts.append(f"### `{name}.{method}`{kind}\n\n{call}{_prose(found)}")
    return "\n\n".join(parts) + "\n"


def _called(name: str, found: Any) -> str:
    return f"```python\n{name}{_signature(found)}\n```\n\n"


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties with a docstring; those inherited from a class that the page has are only there."""
    own = [base for base in kind.__mro__ if base is kind or base.__name__ not in gpulsh.__all__]
    for name in sorted({name for base in own if base.__module__.startswith("gpulsh") for name in vars(base)}):
        found = inspect.getattr_static(kind, name)
        found = found.__func__ if isinstance(found, classmethod | staticmethod) else found
        if (
            not name.startswith("_")
            and getattr(found, "__doc__", None)
            and (inspect.isfunction(found) or isinstance(found, property))
        ):
            yield name, found


def _signature(value: Any) -> str:
    try:
        told = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    told = re.sub(r"(: |-> )'([^']*)'", r"\1\2", told).replace("(self, ", "(").replace("(self)", "()")
    return told if len(told) < 100 else re.sub(r", (?=\*?\w+[:=,)])", ",\n    ", told)


def _prose(value: Any) -> str:
    """A docstring as Markdown: examples and columns unchanged, the rest as paragraphs."""
    parts = []
    text = inspect.cleandoc(value.help or "") if isinstance(value, click.Command) else inspect.getdoc(value)
    for part in re.split(r"\n{2,}", text or ""):
        if part.startswith(">>>"):
            parts.append(f"```pycon\n{part}\n```")
        elif PLAIN.search(part):
            parts.append(f"```text\n{part}\n```")
        else:
            parts.append(MARKS.sub(r"\\\g<0>", part))
    return "\n\n".join(parts)


def tutorial_page() -> str:
    """The notebook's cells, one below another, each with its output."""
    cells = json.loads(TUTORIAL.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join(part for cell in cells for part in _cell(cell)) + "\n"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    text = "".join(cell["source"])
    yield f"```python\n{text}\n```" if cell["cell_type"] == "code" else text
    for output in cell.get("outputs", ()):
        yield f"```text\n{''.join(output.get('text') or output['data']['text/plain']).rstrip()}\n```"
