"""Benchmarks of gpulsh beside its rivals: see benchmarks/README.md."""
