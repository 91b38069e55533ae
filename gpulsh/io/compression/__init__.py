"""Compressed streams, read within bounds of memory, and written at a chosen level."""
