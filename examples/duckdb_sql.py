"""DuckDB: removes near-duplicates from a table, and uses gpulsh's functions in SQL joins.

    python examples/duckdb_sql.py INPUT... OUT

INPUT are Parquet files with columns "id" and "text". OUT is a Parquet file of the kept rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import gpulsh

BANDING = gpulsh.Banding(bands=21, rows=6)


def band_digests(texts: pa.ChunkedArray) -> pa.Array:
    """A list of a digest a band, of each text."""
    digests = np.asarray(BANDING(gpulsh.MinHash(num_perm=128).from_texts(texts)))
    return pa.ListArray.from_arrays(np.arange(0, digests.size + 1, BANDING.bands, np.int32), digests.ravel())


def similarity(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.Array:
    """The exact Jaccard similarity of the shingles of two texts."""
    rows = np.arange(len(first))
    fingerprints = gpulsh.shingle(pa.chunked_array([*first.chunks, *second.chunks]), backend="cpu")
    return pa.array(gpulsh.jaccard(fingerprints, np.column_stack([rows, rows + len(first)]), backend="cpu"))


def main(inputs: list[str], out: str) -> None:
    database = duckdb.connect()
    database.read_parquet(inputs).create("texts")

    # A decision over the whole table comes back as a table, by id: each dropped document and its kept one.
    texts = database.table("texts").to_arrow_table()
    duplicates = gpulsh.deduplicate(texts["text"], threshold=0.8).duplicates(ids=texts["id"])
    database.register("duplicates", duplicates)
    kept = database.sql("SELECT * FROM texts ANTI JOIN duplicates USING (id)")
    kept.write_parquet(out)
    print(f"{len(kept):,} of {len(texts):,} kept")

    # Or all pairs by a join in SQL. A text without a shingle has a digest of 2^64 - 1 in each band.
    database.create_function("band_digests", band_digests, ["VARCHAR"], "UBIGINT[]", type="arrow")
    database.create_function("similarity", similarity, ["VARCHAR", "VARCHAR"], "DOUBLE", type="arrow")
    pairs = database.sql("""
        WITH digests AS (
            SELECT id, unnest(digests) AS digest, generate_subscripts(digests, 1) AS band
            FROM (SELECT id, band_digests(text) AS digests FROM texts)
        ), candidates AS (
            SELECT DISTINCT a.id AS first, b.id AS second
            FROM digests a JOIN digests b ON a.band = b.band AND a.digest = b.digest AND a.id < b.id
            WHERE a.digest < 18446744073709551615
        )
        SELECT first, second, similarity(a.text, b.text) AS similarity
        FROM candidates JOIN texts a ON a.id = first JOIN texts b ON b.id = second
    """)
    print(f"{len(pairs.filter('similarity >= 0.8')):,} of {len(pairs):,} candidate pairs are similar")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python examples/duckdb_sql.py INPUT... OUT")
    if Path(sys.argv[-1]).exists():
        sys.exit(f"{sys.argv[-1]} exists already; give another OUT")
    main(sys.argv[1:-1], sys.argv[-1])
