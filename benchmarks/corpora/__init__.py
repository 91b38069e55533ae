"""Corpora made on the spot from real text: one file each, seeded, the same bytes on every machine."""
