"""The columns of `duplicates.parquet`: one row for each dropped document, in input order.

The stage that writes it, `Decision.duplicates`, the page and the README take names, types and meanings from here.
"""

from __future__ import annotations

from dataclasses import dataclass

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
