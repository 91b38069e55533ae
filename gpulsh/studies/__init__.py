"""Studies of methods on samples of the user's own text, judged by brute force: before a run, not a part of one."""
