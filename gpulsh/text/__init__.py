"""Texts to fingerprints."""
