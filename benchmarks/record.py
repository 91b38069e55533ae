"""Writes what a run found: one JSON with every round of every job, one Markdown page to read."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks import machine

FOLDER = Path(__file__).with_name("record")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if isinstance(value, int) and abs(value) >= 10_000:
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return str(value).replace("|", "\\|")


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown; columns in order of first appearance, nested values left to the JSON."""
    names = list(dict.fromkeys(name for r in rows for name, value in r.items() if not isinstance(value, (dict, list))))
    out = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    out += ["| " + " | ".join(_cell(r.get(name)) for name in names) + " |" for r in rows]
    return "\n".join(out)


def arguments(description: str | None) -> argparse.ArgumentParser:
    """The arguments of a benchmark of its own that takes a corpus and a folder."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("folder", type=Path)
    return parser


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A new folder at this place, as an absolute path, until the context ends."""
    folder.mkdir()
    try:
        yield folder.resolve()
    finally:
        shutil.rmtree(folder)


def write_page(name: str, title: str, command: str, found: dict[str, Any], text: str) -> None:
    """Write record/<device>/<date>/`name`.json, with what was `found`, and .md, with `text` behind the machine."""
    described, today = machine.describe(), date.today().isoformat()
    path = FOLDER / machine.device_name() / today / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"date": today, "machine": described, **found}, indent=1) + "\n")
    head = f"# {described['cpu']}, {described['cores']} cores, {today}: {title}"
    path.with_suffix(".md").write_text(f"{head}\n\n{_ran(command, described)}\n{text}\n")


def _ran(command: str, described: dict[str, Any]) -> str:
    versions = ", ".join(f"{package} {version}" for package, version in described["versions"].items())
    where = f"commit {described['commit']}, Python {described['python']}, {versions}"
    return f"`{command}`, {where}. Load before: {described['load_before']}."


def write(
    folder: Path,
    name: str,
    header: dict[str, Any],
    cases: dict[str, dict[str, Any]],
    notes: dict[str, str],
    made: Path,
) -> Path:
    """made is the folder of the corpora made on the spot; any other is only "given"."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = {
        case: {**{k: v for k, v in found.items() if k != "raw"},
               "raw": [{"job": _job(job, made), "rounds": outcomes} for job, outcomes in found["raw"]]}
        for case, found in cases.items()
    }  # fmt: skip
    (folder / f"{name}.json").write_text(json.dumps({**header, "cases": plain}, indent=1) + "\n")
    described = header["machine"]
    page = [
        f"# {described['cpu']}, {described['cores']} cores, {header['date']}",
        "",
        f"{_ran(header['command'], described)} Seconds are medians (and minima) of {header['rounds']} paired rounds,"
        " each job in a fresh interpreter; peak MiB is above interpreter, imports and loaded texts. Corpus: "
        f"{header['corpus']['documents']:,} documents, {header['corpus']['MB']:.1f} MB of text, its file's SHA-256 "
        f"begins {header['corpus']['sha256']}.",
        "",
    ]
    lines = [r for found in cases.values() for r in found["lines"]]
    if lines:
        page += ["## Acceptance lines", "", table(lines), ""]
    for found in cases.values():
        page += [f"## {found['title']}", ""]
        if found["checks"]:
            page += ["Checked before the clock ran:", "", table(found["checks"]), ""]
        if found["rows"]:
            page += [table(found["rows"]), ""]
    page += ["## Engines", "", *(f"- {engine}: {note}" for engine, note in notes.items()), ""]
    path = folder / f"{name}.md"
    path.write_text("\n".join(page))
    return path


def _job(job: Any, made: Path) -> dict[str, Any]:
    """Paths are the measurer's own."""
    corpus = Path(job.corpus)
    named = corpus.stem if corpus.parent == made else "given"
    return {**{k: v for k, v in asdict(job).items() if k != "answer"}, "corpus": named}
