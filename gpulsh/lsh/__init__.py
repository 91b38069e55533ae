"""Sketches to pairs: bands, collisions, and how similar the documents of a pair are."""
