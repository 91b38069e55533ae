"""Fingerprints to sketches."""
