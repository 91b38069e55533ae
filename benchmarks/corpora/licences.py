"""Some 37,000 real licence texts and notices, read from the installed package licensedcode-data (CC-BY-4.0)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from benchmarks.corpora.parquet import write_texts


def licence_texts() -> Iterator[str]:
    """The texts after the front matter, which is between two lines of three hyphens, in byte order of the names."""
    data = Path(str(distribution("licensedcode-data").locate_file("licensedcode/data")))
    for kind in ("licenses", "rules"):
        for path in sorted((data / kind).iterdir(), key=lambda p: p.name.encode()):
            if path.suffix not in (".LICENSE", ".RULE"):
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            # A few files are front matter alone: the text after it is empty.
            yield f"{text}\n".split("\n---\n", 1)[1].rstrip("\n") if text.startswith("---\n") else text


def make(path: Path) -> Path:
    return write_texts(path, licence_texts())
