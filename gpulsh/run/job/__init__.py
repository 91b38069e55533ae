"""What a run is given: what to do with which files, who is kept, and what a task is."""
