"""The race: every library from the same Parquet files to the rows that stay, each run measured from outside."""
