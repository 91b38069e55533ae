"""Arrow arrays: rows of text, their types, choices among them, and their validation."""
