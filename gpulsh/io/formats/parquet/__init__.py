"""Parquet."""
