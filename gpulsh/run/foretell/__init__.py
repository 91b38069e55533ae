"""Foretells what a run will take from runs of samples of its files on this machine."""
