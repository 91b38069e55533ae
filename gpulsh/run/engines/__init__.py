"""Who runs the tasks: this process, or workers on a Ray cluster."""
