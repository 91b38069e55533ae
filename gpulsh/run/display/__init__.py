"""What a run shows while it goes."""
