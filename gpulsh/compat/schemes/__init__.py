"""A file a library: its parameters, how it hashes, and what it draws; the arithmetic is the backends'."""
