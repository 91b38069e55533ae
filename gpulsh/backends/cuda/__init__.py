"""The operations on CUDA: CuPy arrays, and the kernels of `kernels/`. Importing this does not import cupy."""

from __future__ import annotations

from gpulsh.backends.cuda.backend import CudaBackend, Shared
from gpulsh.backends.cuda.device import devices, why_unavailable

__all__ = ["CudaBackend", "Shared", "devices", "why_unavailable"]
