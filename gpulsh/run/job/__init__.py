"""What a run is told: what to do to which files, who is kept, and what a task of it is."""
