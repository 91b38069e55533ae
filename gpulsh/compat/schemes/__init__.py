"""One file per library: its parameters, hashes and random numbers. The backends do the arithmetic."""
