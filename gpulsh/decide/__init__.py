"""Who stays: copies folded, documents that met compared, duplicates resolved."""
