"""Plain text, a document a file: any bytes, and names that are awkward."""

import os
from pathlib import Path

from tests.fuzz.case import Case, options
from tests.fuzz.damage import damaged
from tests.fuzz.documents import documents

NAMES = ["a.txt", "b.txt", "c/a.txt", "c/d/e.txt", "é.txt", "a b.txt", "\x1b[31m.txt", "\u202etxt.txt", "n\nl.txt"]
NAMES += [".TXT.txt", "-o.txt", "*.txt", "[a].txt", "s3:.txt", "x" * 240 + ".txt", "_work.txt", "~.txt"]
NAMES += ["duplicates.parquet.txt"]


def make(case: Case, folder: Path) -> None:
    """A folder of files."""
    source = case.source()
    names = source.sample(NAMES, source.randint(1, 8))
    texts = documents(source, 30)
    for name in names:
        content = (source.choice(texts or [""]) or "").encode("utf-8", "surrogatepass")
        if source.random() < 0.4:
            content = case.noted(damaged(source, content))
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if source.random() < 0.02:  # a hole, which takes no disk
            size = source.choice([100 << 20, 600 << 20, 5 << 30])
            os.truncate(path, size)
            case.damage.append(f"{name!a}: {size} zeros")
            case.large = True
    whole = ["in"] if source.random() < 0.7 else [f"in/{name}" for name in names]
    case.arguments = ["dedup", "-o", "out", *options(source, [], [], case.large), "--", *whole]
