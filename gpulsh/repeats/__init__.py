"""Passages that repeat inside documents: windows, marks, spans of the original text, cuts."""
