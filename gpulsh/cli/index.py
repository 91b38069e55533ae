"""`gpulsh index`: builds an index of files, adds to it, queries it, and keeps it in shape."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

import click

from gpulsh.checks import plural
from gpulsh.cli import options as opt
from gpulsh.cli.dedup import enforced_memory
from gpulsh.cli.terminal import conclude, say
from gpulsh.errors import MemoryLimitError


@click.group(cls=opt.Group, short_help="Keep an index of documents and find their near-duplicates later.")
def index() -> None:
    """Find near-duplicates of earlier documents without their texts.

    PATH is the folder of the index. An index holds the shingles of kept documents, or with --evidence source only
    hashes, and the keys of dropped documents. It keeps and drops the same documents as gpulsh dedup over all files in
    order. A change is written completely or not at all.
    """


EVIDENCE = (
    "Where evidence comes from. index: the stored shingles of kept documents. source: texts read again from INPUT,"
    " with only hashes stored, about 360 bytes per kept document with the default bands."
)

KEYS = "Column of strings or integers that are the keys.  [default: FILE:ROW]"


def _files(ids: str) -> opt.Option:
    return opt.combine_options(
        click.argument("path", metavar="PATH"),
        click.argument("inputs", nargs=-1, required=True, metavar="INPUT..."),
        opt.text_options(ids=ids),
        opt.value("-o --output", "FILE", "File for the duplicates found, .parquet or .jsonl."),
        opt.flag("--overwrite", "Replace FILE, if gpulsh wrote it."),
        opt.value("--memory", "SIZE", "Memory for the work, such as 4GiB.  [default: no limit]"),
        opt.backends,
    )


@index.command(short_help="Make an index of files.")
@_files(KEYS)
@opt.method_options(*opt.DECISION)
@opt.choice("--evidence", "index", "source", help=EVIDENCE)
@opt.flag("--json as_json", "Print the counts as JSON.")
def build(path: str, inputs: tuple[str, ...], output: str | None, as_json: bool, **options: Any) -> None:
    """Make an index of the documents of INPUT in the new folder PATH. For duplicates, it stores only the keys."""
    from gpulsh.run.index.jobs import build_index

    _change_index(as_json, build_index, path, inputs, output=output, **options)


@index.command(short_help="Add files to an index.")
@_files(KEYS)
@opt.method_options(*opt.DECISION, otherwise="default: as in the index; other values are refused")
@click.option(
    "--evidence",
    type=click.Choice(["index", "source"]),
    help=f"{EVIDENCE}  [default: as in the index; other values are refused]",
)
@opt.flag("--json as_json", "Print the counts as JSON.")
def add(path: str, inputs: tuple[str, ...], output: str | None, as_json: bool, **options: Any) -> None:
    """Add the documents of INPUT to the index at PATH. For duplicates, it stores only the keys."""
    from gpulsh.run.index.jobs import add_to_index

    _change_index(as_json, add_to_index, path, inputs, output=output, **options)


@index.command(short_help="Find documents of files that duplicate documents of an index.")
@_files("Column of ids to write next to file and row.")
@opt.number("--top", "K", "List at most K duplicates of each document, the most similar first.  [default: 1]")
@opt.flag("--every", "List all duplicates of each document, not only K.")
@opt.number("--threshold", "J", "Minimum similarity, not below the index's.  [default: the index's]", kind=float)
def query(path: str, inputs: tuple[str, ...], output: str | None, **options: Any) -> None:
    """Print a JSON line for each document of INPUT that has a duplicate in the index at PATH.

    The line names the most similar duplicate. With --top or --every, each further duplicate has a line of its own.
    """
    from gpulsh.run.index.jobs import query_index

    with _limited_memory(options) as given:
        found = query_index(path, inputs, output=output, progress=True, **given)
    _print_listing(found, output, f"Listed {plural(len(found), 'duplicate')}")


@index.command(short_help="Find documents of an index that share passages with a text.")
@click.argument("path", metavar="PATH")
@click.argument("file", metavar="FILE", type=click.File("rb"))
@opt.number("--tokens", "N", "Minimum words or characters of a passage.  [default: one shingle]")
@opt.backends
def find(path: str, file: BinaryIO, tokens: int | None, **options: Any) -> None:
    """Print a JSON line for each passage that the text FILE shares with a document of the index at PATH.

    "start" and "stop" count bytes of FILE. An index does not store the order of shingles, so it does not know where the
    passage is in that document.
    """
    from gpulsh.index.index import Index

    opened = Index.open(path, **opt.given_options(options))
    for key, start, stop, length in opened.find(file.read(), tokens=tokens):
        say(json.dumps({"key": key, "start": start, "stop": stop, "tokens": length}, ensure_ascii=False))


@index.command(short_help="Show the contents and parameters of an index.")
@click.argument("path", metavar="PATH")
@opt.flag("--json as_json", "Print JSON.")
def info(path: str, as_json: bool) -> None:
    """Print the number of documents in the index at PATH, and its parameters."""
    from gpulsh.index.index import Index
    from gpulsh.report.wording import size

    facts = Index.open(path, backend="reference", check=False).collection.facts()
    if as_json:
        say(json.dumps(facts, indent=2))
        return
    counts = {name: value for name, value in facts.items() if name not in ("documents", "parameters")}
    lines = {"kept": facts["documents"], **counts, "bytes": size(facts["bytes"]), **facts["parameters"]}
    say("\n".join(f"{name.replace('_', ' '):<18} {_parameter(value)}" for name, value in lines.items()))


@index.command(short_help="Show how often each document of an index occurred.")
@click.argument("path", metavar="PATH")
@opt.value("-o --output", "FILE", "File for the counts, .parquet or .jsonl.")
@opt.flag("--overwrite", "Replace FILE, if gpulsh wrote it.")
def counts(path: str, output: str | None, overwrite: bool) -> None:
    """Print a JSON line for each kept document of the index at PATH: its key, copies and near-duplicates.

    "copies" counts the documents dropped as its exact copies, and "near" all others dropped for it. So a document
    represents 1 + copies + near documents of the files added so far.
    """
    from gpulsh.run.index.jobs import index_counts

    found = index_counts(path, output=output, overwrite=overwrite)
    _print_listing(found, output, f"The counts of {plural(len(found), 'document')} are")


@index.command(short_help="Remove documents from an index.")
@click.argument("path", metavar="PATH")
@click.argument("keys", nargs=-1, metavar="[KEY]...", type=opt.FileText())
@opt.value(
    "--from listed",
    "FILE",
    "File with more keys, one per line; - is standard input.",
    type=click.File(encoding="utf-8-sig", errors="surrogateescape"),
)
def remove(path: str, keys: tuple[str, ...], listed: Iterable[str] | None) -> None:
    """Remove the documents with the keys KEY from the index at PATH, all or none.

    This also removes the duplicates of these documents. All their keys may be added again.
    """
    from gpulsh.index.index import Index
    from gpulsh.index.keys import parsed_keys

    named = [*keys, *(line for line in map(str.strip, listed or ()) if line)]
    if not named:
        raise click.UsageError("no key is given; give KEY or --from FILE")
    with Index.open(path, backend="reference") as opened:
        opened.remove(parsed_keys(named, opened.collection.contents.kind))
        opened.save()
        conclude(f"{path} holds {plural(len(opened) - opened.dropped(), 'document')}.")


@index.command(short_help="Merge an index's segments, without removed documents.")
@click.argument("path", metavar="PATH")
def compact(path: str) -> None:
    """Merge all segments of the index at PATH into one, and delete unneeded files."""
    from gpulsh.index.index import Index

    with Index.open(path, backend="cpu") as opened:
        opened.compact()
        conclude(f"{path} holds {plural(len(opened) - opened.dropped(), 'document')}.")


def _parameter(value: object) -> str:
    """A parameter; one of several values as NAME=VALUE, without missing values.

    >>> _parameter({"unit": "word", "size": 5, "stop": None})
    'unit=word size=5'
    """
    if not isinstance(value, dict):
        return f"{value:,}" if type(value) in (int, float) else str(value)
    return " ".join(f"{name}={each}" for name, each in value.items() if each is not None) or "default"


def _print_listing(found: Any, output: str | None, what: str) -> None:
    """Print the rows, or the content of their file."""
    if output is not None:
        conclude(f"{what} in {output}.")
        return
    for line in found.lines():
        say(line)


@contextmanager
def _limited_memory(options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The options that are given. Let the kernel enforce `--memory`, if it is one of them."""
    given = opt.given_options(options)
    if "memory" not in given:
        yield given
        return
    from gpulsh.memory_limit import memory_error

    with enforced_memory({**options, "engine": "local"}):
        try:
            yield given
        except MemoryLimitError:
            raise
        except MemoryError as error:
            raise memory_error("index") from error


def _change_index(as_json: bool, function: Callable[..., Any], *places: object, **options: Any) -> None:
    with _limited_memory(options) as given:
        counts = function(*places, progress=True, **given)
    if as_json:
        conclude(json.dumps(counts, indent=2))
        return
    conclude(
        f"Kept {counts['kept']:,} of {plural(counts['documents'], 'document')} and dropped {counts['dropped']:,}."
        f" The index holds {counts['held']:,}."
    )
