"""Estimates what a job will take before it runs: `sample` for files on this machine, `formula` for any machines."""
