"""Values separated by commas (CSV) or tabs (TSV)."""
