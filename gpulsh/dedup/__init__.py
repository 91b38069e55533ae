"""The main job as pure functions: a plan, its stages, and the decision they lead to."""
