"""The counts and times of a run, their meanings, and hints that follow from them."""
