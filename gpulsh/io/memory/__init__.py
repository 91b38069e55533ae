"""Texts in memory, of every library and on every device."""
