"""Plain text: a document a file, or a document a line."""
