"""Numba kernels without the GIL, run by a pool of threads over chunks of equal bytes."""

from __future__ import annotations

from gpulsh.backends.cpu.backend import CpuBackend

__all__ = ["CpuBackend"]
