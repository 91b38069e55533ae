"""The meanings of the numbers of a run: the counts of a funnel, and the columns of its results.

The funnel, the command's summary, report.json, the page and the README take names, meanings and sums from these tables.

    documents     = protected + contaminated + dropped + few_sources + kept
    dropped       = key_copies + copies_of_kept + copies_of_dropped + near_duplicates
    exact_copies  = copies_of_kept + copies_of_dropped + copies_left
    empty         = nulls + wordless
    candidates    = similar + dissimilar
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CountRow:
    """A row of the table."""

    name: str  # in the funnel
    label: str  # for people
    meaning: str
    parts: tuple[str, ...] = ()  # it is the sum of these counts
    of: str | None = None  # it is a share of this count, if no sum includes it

    def counted(self, count: int) -> str:
        """A count with its label.

        >>> COUNTS["near_duplicates"].counted(1), COUNTS["copies_of_kept"].counted(2500)
        ('1 near-duplicate', '2,500 copies of kept')
        """
        one = self.label.replace("copies", "copy").replace("duplicates", "duplicate").replace("others", "other")
        return f"{count:,} {one if count == 1 else self.label}"


_COPIES = ("copies_of_kept", "copies_of_dropped", "copies_left")
_SUMS = {
    "documents": ("protected", "contaminated", "dropped", "few_sources", "kept"),
    "empty": ("nulls", "wordless"),
    "exact_copies": _COPIES,
    "candidates": ("similar", "dissimilar"),
    "dropped": ("key_copies", "copies_of_kept", "copies_of_dropped", "near_duplicates"),
}
_SHARES = {
    **dict.fromkeys(("empty", "not_utf8", "exact_copies", "crowded"), "documents"),
    "nulls": "empty",
    "wordless": "empty",
    "earlier": "dropped",
}
_MEANINGS = {  # name -> label, meaning
    "documents": ("documents", "documents read, including protected ones"),
    "rejected": ("rejected", "bad records, listed in rejected.parquet; they are not documents"),
    "protected": ("protected", "compared with others, but never dropped and not written"),
    "contaminated": (
        "contaminated",
        "dropped by --passages because they quote protected items, listed in contamination.parquet; not compared",
    ),
    "empty": ("empty", "without a word; not compared"),
    "nulls": ("null", "with a null text, or without the field"),
    "wordless": ("wordless", "with a text that has no word"),
    "bytes": ("bytes", "UTF-8 bytes of text"),
    "not_utf8": ("not UTF-8", "with bytes that are not valid in their encoding, read as U+FFFD"),
    "stray_bytes": ("stray bytes", "bytes that are not UTF-8, or not of --encoding"),
    "shingles": ("shingles", "shingles, including repeated ones"),
    "exact_copies": ("exact copies", "same words in the same order as an earlier document"),
    "copies_of_kept": ("copies of kept", "exact copies of a kept document, dropped for it"),
    "copies_of_dropped": ("copies of dropped", "exact copies of a document that was itself dropped"),
    "copies_left": (
        "copies left",
        "exact copies that --within, --across, --min-cluster, --max-copies or --min-sources did not drop",
    ),
    "key_copies": ("copies by key", "with the --key of an earlier document, dropped before texts are compared"),
    "crowded": ("in large buckets", "in buckets of more than 256 documents; compared with kept ones only"),
    "candidates": (
        "candidates",
        "pairs that share a bucket; only the first of exact copies counts, with --within or --across in each INPUT",
    ),
    "similar": ("similar", "candidate pairs that are duplicates"),
    "dissimilar": (
        "others",
        "other candidate pairs: below the threshold, or ruled out by --within, --across, --protect or --and",
    ),
    "verified": ("verified", "pairs of duplicates: similar candidates, and exact copies with their first document"),
    "dropped": ("dropped", "duplicates, each with its kept, protected or earlier document in duplicates.parquet"),
    "near_duplicates": ("near-duplicates", "dropped for a similar document, not as exact copies"),
    "earlier": ("earlier", "dropped for documents of earlier runs"),
    "few_sources": ("few sources", "left out by --min-sources, including their duplicates"),
    "kept": ("kept", "documents of INPUT that are neither dropped nor left out"),
}
COUNTS = {name: CountRow(name, *words, _SUMS.get(name, ()), _SHARES.get(name)) for name, words in _MEANINGS.items()}

# In a report over files, next to the funnel: the sum of its counts by similarity.
SAMPLED = CountRow(
    "sampled",
    "sampled",
    "random candidate pairs from buckets of at most 256 that no option rules out, measured even if a bound does",
    of="candidates",
)

# Counts that are added up group by group.
SUMMED_COUNTS = ("exact_copies", *_COPIES, "crowded", "candidates", "similar", "verified", "dropped", "near_duplicates")

# The meaning of some counts with the measure containment.
CONTAINED = {
    "crowded": "that share rare shingles with many others; compared with kept ones only",
    "candidates": "pairs whose first document may contain the second; only the first of exact copies counts",
}


def definitions(measure: str) -> dict[str, Mapping[str, Any]]:
    """The table in the form of report.json."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in (*COUNTS.values(), SAMPLED):
        found[row.name] = {
            "meaning": CONTAINED.get(row.name, row.meaning) if measure == "containment" else row.meaning,
            **({"sum_of": list(row.parts)} if row.parts else {}),
            **({"share_of": row.of} if row.of else {}),
        }
    return found


ID_TYPE = "as in INPUT"  # the type of ids


@dataclass(frozen=True)
class ColumnRow:
    """A column of a file of results, or that is added to rows."""

    name: str
    type: str  # Arrow's name, or OWN
    meaning: str
    counted: bool = False  # whether it is one of the counts


def _counts(*rows: tuple[str, str, str]) -> Iterator[ColumnRow]:
    return (ColumnRow(*row, counted=True) for row in rows)


DUPLICATES = (
    ColumnRow(
        "file", "string", "file of the dropped document: INPUT as on the command line, joined with the path in it"
    ),
    ColumnRow("row", "int64", "its row in that file, from 0"),
    ColumnRow("id", ID_TYPE, "its id; text, or JSON text, if no single type holds all ids; null if no column has ids"),
    ColumnRow(
        "duplicate_of_file", "string", "file of its kept duplicate; null for one of an earlier run with --id-column"
    ),
    ColumnRow("duplicate_of_row", "int64", "row of the kept duplicate; null in the same case"),
    ColumnRow(
        "duplicate_of_id", ID_TYPE, "id of the kept duplicate; null for one of an earlier run without --id-column"
    ),
    ColumnRow("similarity", "float32", "similarity of the two by --measure; exact with the default --verify"),
    ColumnRow(
        "cluster", "int64", "position, over all files, of the first document in the same component of duplicates"
    ),
)
REASON = ColumnRow(
    "reason", "string", "only with --key: key, exact (the same words in the same order as the kept duplicate) or near"
)

# Columns of contamination.parquet: a row for each document and item in it, in input order.
CONTAMINATION = (
    ColumnRow("benchmark", "string", "protected file of the item"),
    ColumnRow("item", "int64", "its row in that file, from 0"),
    ColumnRow("item_id", ID_TYPE, "its id, as in duplicates.parquet; null without --id-column"),
    ColumnRow("split", "string", "name of that file without folders, endings and shard number, such as test"),
    ColumnRow("coverage", "float64", "share of the item's words in windows that the document contains"),
    ColumnRow("file", "string", "file of the dropped document, as in duplicates.parquet"),
    ColumnRow("row", "int64", "its row in that file, from 0"),
    ColumnRow("id", ID_TYPE, "its id; null without --id-column"),
    ColumnRow("start", "int64", "byte of its text at which the first of these windows begins"),
    ColumnRow("stop", "int64", "byte after the last of them; a window counts at its first place in the text"),
)
CLUSTER = DUPLICATES[-1]
NAMES, INSTANT = "list<string>", "timestamp[us, UTC]"  # types that Arrow has no alias for
CLUSTERS = (
    ColumnRow("file", "string", "file of the kept document, as in duplicates.parquet"),
    ColumnRow("row", "int64", "its row in that file, from 0"),
    ColumnRow("id", ID_TYPE, "its id, as in duplicates.parquet"),
    CLUSTER,
    *_counts(
        ("copies", "int64", "documents dropped for it as exact copies, or with --key for the same key"),
        ("near", "int64", "other documents dropped for it: near-duplicates, and copies of these"),
        ("component", "int64", "documents in its connected component of duplicates, itself included"),
        ("sources", "int64", "different INPUTs, or values of --source-column, of it and those dropped for it"),
        ("source_names", NAMES, "these sources, ascending"),
        ("first_seen", INSTANT, "the earliest --date-column of it and those dropped for it, or null"),
        ("last_seen", INSTANT, "the latest one"),
    ),
)
MARKS = (
    ColumnRow("kept", "bool", "whether the row is one of `data/` without --write marked"),
    *(row for row in DUPLICATES if row.name.startswith("duplicate_of_")),
    DUPLICATES[-2],
    CLUSTER,
)
WEIGHT = ColumnRow("weight", "double", "the sampling weight by --weights; 0 in a dropped row", counted=True)
