"""What a run counts and times, what the numbers mean, and what they suggest."""
