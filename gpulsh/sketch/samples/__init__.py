"""Broder's samples of sets."""
