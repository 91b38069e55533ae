"""Show a few dropped documents beside the kept one that each duplicates, the differing words marked.

Usage: show_dropped.py TEXTS.parquet DUPLICATES.parquet
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

import pyarrow.parquet as pq

LENGTHS = range(25, 90)  # in words, of a document that is worth looking at here
SIMILARITIES = (0.80, 0.85, 0.90, 0.95)  # one document close above each
CONTEXT = 6  # equal words shown on either side of a difference
WIDTH = 100

IN_COLOUR = sys.stdout.isatty()
DROPPED = ("\x1b[31;9m", "\x1b[0m") if IN_COLOUR else ("[-", "-]")
KEPT = ("\x1b[32m", "\x1b[0m") if IN_COLOUR else ("{+", "+}")


def choose(duplicates: list[dict[str, Any]], texts: list[str]) -> Iterator[dict[str, Any]]:
    """For each similarity, the nearest dropped document above it, no two of one cluster."""
    fitting = [row for row in duplicates if len(texts[row["row"]].split()) in LENGTHS and row["similarity"] < 1]
    fitting.sort(key=lambda row: row["similarity"])
    seen: set[int] = set()
    for similarity in SIMILARITIES:
        for row in fitting:
            if row["similarity"] >= similarity and row["cluster"] not in seen:
                seen.add(row["cluster"])
                yield row
                break


def words(text: str) -> list[str]:
    """The words as they are written; what has no letter or digit, such as a comment's mark, is none."""
    return [word for word in text.split() if any(map(str.isalnum, word))]


def folded(word: str) -> str:
    return "".join(filter(str.isalnum, word)).casefold()


def compare(dropped: list[str], kept: list[str]) -> Iterator[tuple[str, int]]:
    """Words to print, each with the columns it takes: those that only one has in marks, long equal runs cut short."""
    matcher = SequenceMatcher(None, list(map(folded, dropped)), list(map(folded, kept)), autojunk=False)
    changes = matcher.get_opcodes()
    for place, (change, start, stop, kept_start, kept_stop) in enumerate(changes):
        if change == "equal":
            head = CONTEXT if place else 0
            tail = CONTEXT if place < len(changes) - 1 else 0
            equal = dropped[start:stop]
            if len(equal) > head + tail + 1:
                equal = [*equal[:head], "...", *equal[len(equal) - tail :]]
            yield from ((word, len(word)) for word in equal)
        else:
            yield from marked(dropped[start:stop], *DROPPED)
            yield from marked(kept[kept_start:kept_stop], *KEPT)


def marked(run: list[str], begin: str, end: str) -> Iterator[tuple[str, int]]:
    """Colours for each word, since a line may break between any two; brackets around the whole run."""
    last = len(run) - 1
    for place, word in enumerate(run):
        if IN_COLOUR:
            yield begin + word + end, len(word)
        else:
            shown = (begin if place == 0 else "") + word + (end if place == last else "")
            yield shown, len(shown)


def wrapped(parts: Iterator[tuple[str, int]]) -> Iterator[str]:
    line: list[str] = []
    used = 0
    for word, columns in parts:
        if line and used + 1 + columns > WIDTH - 4:
            yield " ".join(line)
            line, used = [], 0
        line.append(word)
        used += columns + 1
    if line:
        yield " ".join(line)


def main(texts_path: str, duplicates_path: str) -> None:
    texts = pq.read_table(texts_path, columns=["text"]).column("text").to_pylist()
    duplicates = pq.read_table(duplicates_path).to_pylist()
    begin, end = DROPPED
    kept_begin, kept_end = KEPT
    print("Some of the dropped texts beside the kept one that each duplicates:")
    print(f"{begin}only in the dropped{end} {kept_begin}only in the kept{kept_end}")
    for row in choose(duplicates, texts):
        print(f"\n{row['id']}  has similarity {row['similarity']:.3f} with  {row['duplicate_of_id']}")
        for line in wrapped(compare(words(texts[row["row"]]), words(texts[row["duplicate_of_row"]]))):
            print(f"    {line}")


if __name__ == "__main__":
    main(*sys.argv[1:])
