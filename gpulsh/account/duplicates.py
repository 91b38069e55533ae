"""The table of columns: what stands in `duplicates.parquet`, a row a dropped document, in input order.

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
    ColumnRow("file", "string", "file of the dropped document: INPUT as given, joined with the path in it"),
    ColumnRow("row", "int64", "its row in that file, from 0"),
    ColumnRow("id", OWN, "its id, as JSON text where no one type holds all of them; null where no column has ids"),
    ColumnRow(
        "duplicate_of_file", "string", "file of the document it is dropped for; null where that has its key alone"
    ),
    ColumnRow("duplicate_of_row", "int64", "row of that document, likewise"),
    ColumnRow("duplicate_of_id", OWN, "id of that document; of one of an earlier run its key in the index"),
    ColumnRow("similarity", "float32", "how similar both are by --measure, exactly unless --verify says otherwise"),
    ColumnRow("cluster", "int64", "position over all files of the first document that duplicate pairs connect it with"),
)
