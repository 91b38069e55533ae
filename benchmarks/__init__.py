"""Benchmarks of gpulsh against its rivals: see benchmarks/README.md."""
