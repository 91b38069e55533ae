"""Sketches of weighted sets and of vectors."""
