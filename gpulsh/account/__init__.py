"""How a run accounts for itself: its stages, its counts, its progress."""
