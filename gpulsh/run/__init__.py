"""The main job: over texts in memory, over files in partitions, and beside an index of earlier documents."""
