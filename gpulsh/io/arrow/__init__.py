"""Arrow arrays: rows of text, their types, choices among them, and whether they are sound."""
