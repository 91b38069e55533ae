"""Who runs the plan: over files on this machine, telling of its progress."""
