"""The main job: over texts in memory, over files in partitions, and with an index of earlier documents."""
