"""Verified pairs to decisions: which documents stay, and which kept document speaks for each that goes."""
