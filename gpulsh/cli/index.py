"""`gpulsh index`: an index of files, built, added to, asked, told about and compacted."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from gpulsh.cli.ending import ended_cleanly
from gpulsh.cli.options import DECISION, backend_options, method_options, parsed, text_options, together
from gpulsh.cli.terminal import conclude, say

if TYPE_CHECKING:  # pyarrow is loaded only when a command runs
    from gpulsh.run.indexing import Indexed


@click.group(short_help="Keep an index of documents and find their near-duplicates later.")
def index() -> None:
    """Find near-duplicates of documents that came earlier, when their texts are gone.

    PATH is the folder of the index. An index holds the shingles of kept documents and knows the dropped ones: what is
    added is decided as gpulsh dedup would decide over everything in order. A commit is whole or not at all.
    """


_files = together(
    click.argument("path", metavar="PATH"),
    click.argument("inputs", nargs=-1, required=True, metavar="INPUT..."),
    text_options(ids="Column of strings or integers to name documents by, else FILE:ROW."),
    click.option("-o", "--output", metavar="FILE", help="Write the duplicates found to FILE: .parquet or .jsonl."),
    click.option("--overwrite", is_flag=True, help="Replace FILE where gpulsh wrote it, and no other."),
    backend_options,
)


@index.command(short_help="Make an index of files.")
@_files
@method_options(*DECISION)
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
def build(path: str, inputs: tuple[str, ...], output: str | None, as_json: bool, **options: Any) -> None:
    """Make an index in the new folder PATH of the documents of INPUT, near-duplicates dropped."""
    from gpulsh.run.indexing import build_index

    with ended_cleanly():
        built = build_index(path, inputs, output=output, progress=True, **parsed(options))
    _told(built, as_json)


@index.command(short_help="Add files to an index.")
@_files
@method_options(*DECISION, otherwise="the index's own, or an error")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
def add(path: str, inputs: tuple[str, ...], output: str | None, as_json: bool, **options: Any) -> None:
    """Add the documents of INPUT that duplicate none of the index at PATH or of INPUT, and know the others."""
    from gpulsh.run.indexing import add_to_index

    with ended_cleanly():
        added = add_to_index(path, inputs, output=output, progress=True, **parsed(options))
    _told(added, as_json)


@index.command(short_help="Find what files duplicate in an index.")
@_files
@click.option(
    "--top", type=int, default=1, metavar="K", show_default=True, help="The K most similar documents of the index."
)
@click.option("--every", is_flag=True, help="All documents of the index that are similar enough, not K of them.")
@click.option("--threshold", type=float, metavar="J", help="Least similarity; the index's own, or above it.")
def query(path: str, inputs: tuple[str, ...], output: str | None, **options: Any) -> None:
    """Print, for each document of INPUT that duplicates one of the index at PATH, which: a JSON line each."""
    from gpulsh.run.indexing import query_index

    with ended_cleanly():
        found = query_index(path, inputs, output=output, progress=True, **parsed(options))
    if output is not None:
        conclude(f"{len(found)} duplicates are in {output}")
        return
    for line in found.lines():
        say(line)


@index.command(short_help="Tell what an index holds, and how it was made.")
@click.argument("path", metavar="PATH")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def info(path: str, as_json: bool) -> None:
    """Print what the index at PATH holds and the parameters that it was made with."""
    from gpulsh.index.index import Index
    from gpulsh.report.wording import size

    facts = Index.open(path, backend="reference", check=False).catalogue.facts()
    if as_json:
        say(json.dumps(facts, indent=2))
        return
    counts = {name: value for name, value in facts.items() if name != "parameters"}
    lines = {**counts, "bytes": size(facts["bytes"]), **facts["parameters"]}
    say("\n".join(f"{name:<10} {_told_parameter(value)}" for name, value in lines.items()))


@index.command(short_help="Forget documents of an index.")
@click.argument("path", metavar="PATH")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option(
    "--from",
    "listed",
    type=click.File(encoding="utf-8", errors="surrogateescape"),
    metavar="FILE",
    help="The keys in FILE, too, one a line; - is standard input.",
)
def remove(path: str, keys: tuple[str, ...], listed: Iterable[str] | None) -> None:
    """Forget the documents of the index at PATH with the keys KEY, held or dropped, all or none.

    With a held one those go that were dropped for it. Their keys are free again.
    """
    from gpulsh.index.index import Index
    from gpulsh.index.keys import parsed_keys

    named = [*keys, *(line for line in map(str.strip, listed or ()) if line)]
    if not named:
        raise click.UsageError("no key is given; give KEY or --from FILE")
    with Index.open(path, backend="reference") as opened:
        opened.remove(parsed_keys(named, opened.catalogue.key_kind()))
        opened.save()
        conclude(f"{len(opened) - opened.dropped()} documents are held in {path}")


@index.command(short_help="Merge an index's segments and forget removed documents.")
@click.argument("path", metavar="PATH")
def compact(path: str) -> None:
    """Merge all segments of the index at PATH into one, and remove files that are not needed any more."""
    from gpulsh.index.index import Index

    with Index.open(path, backend="cpu") as opened:
        opened.compact()
        conclude(f"{len(opened) - opened.dropped()} documents are held in {path}")


def _told_parameter(value: object) -> str:
    """A parameter in a word; one of several values as NAME=VALUE, those left open left out.

    >>> _told_parameter({"unit": "word", "size": 5, "stop": None})
    'unit=word size=5'
    """
    if not isinstance(value, dict):
        return str(value)
    return " ".join(f"{name}={each}" for name, each in value.items() if each is not None)


def _told(indexed: Indexed, as_json: bool) -> None:
    counts = indexed.counts()
    if as_json:
        conclude(json.dumps(counts, indent=2))
        return
    conclude(
        f"{counts['documents']} documents, {counts['kept']} kept, {counts['dropped']} dropped;"
        f" the index holds {counts['held']}"
    )
