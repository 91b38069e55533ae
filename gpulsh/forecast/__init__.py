"""Estimates the cost of a job before it runs: `sample` for files on this machine, `formula` for any machines."""
