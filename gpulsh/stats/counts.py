"""The meanings of the numbers of a run: the counts of a funnel, and the columns of `duplicates.parquet`.

The funnel, the command's summary, report.json, the page and the README take names, meanings and sums from these tables.

    documents     = protected + dropped + kept
    dropped       = copies_of_kept + copies_of_dropped + near_duplicates
    exact_copies  = copies_of_kept + copies_of_dropped + copies_left
    empty         = nulls + wordless
    candidates    = similar + dissimilar
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CountRow:
    """A row of the table."""

    name: str  # as the funnel has it
    label: str  # as people read it
    meaning: str
    parts: tuple[str, ...] = ()  # the counts that it is the sum of
    of: str | None = None  # a count that it is a share of, where it is no part of a sum


def _table(*rows: CountRow) -> Mapping[str, CountRow]:
    return {row.name: row for row in rows}


COUNTS = _table(
    CountRow(
        "documents", "documents", "documents read, those of protected files too", ("protected", "dropped", "kept")
    ),
    CountRow("rejected", "rejected", "bad records, listed in rejected.parquet, no documents"),
    CountRow("protected", "protected", "only compared with: never dropped, not written"),
    CountRow("empty", "empty", "without a word, never duplicates", ("nulls", "wordless"), of="documents"),
    CountRow("nulls", "null", "null, or without the field", of="empty"),
    CountRow("wordless", "wordless", "with text, and no word in it", of="empty"),
    CountRow("bytes", "bytes", "UTF-8 bytes of text"),
    CountRow(
        "not_utf8",
        "not UTF-8",
        "with bytes that are not UTF-8, or not of --encoding; they are read as U+FFFD",
        of="documents",
    ),
    CountRow("stray_bytes", "stray bytes", "bytes that are not UTF-8, or not of --encoding"),
    CountRow("shingles", "shingles", "shingles, repeats counted"),
    CountRow(
        "exact_copies",
        "exact copies",
        "same words in the same order as a document before them",
        ("copies_of_kept", "copies_of_dropped", "copies_left"),
        of="documents",
    ),
    CountRow("copies_of_kept", "copies of kept", "exact copies of a kept document, dropped for it"),
    CountRow(
        "copies_of_dropped",
        "copies of dropped",
        "exact copies of a dropped document, dropped for one with other words",
    ),
    CountRow("copies_left", "copies left", "exact copies that stay, as --within or --across asks"),
    CountRow("crowded", "crowded", "in buckets of more than 256, compared with kept ones only", of="documents"),
    CountRow(
        "candidates",
        "candidates",
        "pairs that share a bucket, of copies only the first counted, with --within or --across of each INPUT",
        ("similar", "dissimilar"),
    ),
    CountRow("similar", "similar", "candidate pairs that are duplicates"),
    CountRow(
        "dissimilar",
        "others",
        "candidate pairs that are none: not similar enough, or ruled out by --within, --across, --protect or --and",
    ),
    CountRow(
        "verified",
        "verified",
        "pairs of duplicates: candidates, and each dropped copy that was none with the first",
    ),
    CountRow(
        "dropped",
        "dropped",
        "duplicates, each with its kept, protected or earlier document in duplicates.parquet",
        ("copies_of_kept", "copies_of_dropped", "near_duplicates"),
    ),
    CountRow("near_duplicates", "near-duplicates", "dropped for a similar document, exact copies aside"),
    CountRow("earlier", "earlier", "dropped for documents of earlier runs", of="dropped"),
    CountRow("kept", "kept", "what stays of the INPUTs"),
)

# What a report over files has beside its funnel: counts by similarity, whose sum this is.
SAMPLED = CountRow(
    "sampled",
    "sampled",
    "candidate pairs drawn at random, none of larger buckets than 256, measured even where a bound rules them out",
    of="candidates",
)

# What is counted group by group.
TALLIED = (
    *("exact_copies", "copies_of_kept", "copies_of_dropped", "copies_left", "crowded", "candidates", "similar"),
    *("verified", "dropped", "near_duplicates"),
)


CONTAINMENT_MEANINGS = {
    "candidates": "pairs of which the first may contain the second, of copies only the first counted"
}


def definitions(measure: str = "jaccard") -> dict[str, Mapping[str, Any]]:
    """The table as report.json has it."""
    otherwise = CONTAINMENT_MEANINGS if measure == "containment" else {}
    return {
        row.name: {
            "meaning": otherwise.get(row.name, row.meaning),
            **({"sum_of": list(row.parts)} if row.parts else {}),
            **({"share_of": row.of} if row.of else {}),
        }
        for row in (*COUNTS.values(), SAMPLED)
    }


OWN = "as in INPUT"  # the type of ids


@dataclass(frozen=True)
class ColumnRow:
    """A row of the table."""

    name: str
    type: str  # as Arrow names it, or OWN
    meaning: str


DUPLICATES = (
    ColumnRow(
        "file", "string", "file of the dropped document: INPUT as on the command line, joined with the path in it"
    ),
    ColumnRow("row", "int64", "its row in that file, from 0"),
    ColumnRow("id", OWN, "its id; JSON text if no single type holds all ids, null if no column has ids"),
    ColumnRow("duplicate_of_file", "string", "file of its kept duplicate; null if an index knows only the key"),
    ColumnRow("duplicate_of_row", "int64", "row of the kept duplicate; null in the same case"),
    ColumnRow(
        "duplicate_of_id", OWN, "id of the kept duplicate; for a document of an earlier run, its key in the index"
    ),
    ColumnRow("similarity", "float32", "similarity of the two by --measure; exact with the default --verify"),
    ColumnRow(
        "cluster", "int64", "position, over all files, of the first document in the same component of duplicates"
    ),
)
