"""What a job will take, before it is run: the planner and the rates that it goes by."""
