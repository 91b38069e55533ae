"""Kept rows in another format than that of their file."""
