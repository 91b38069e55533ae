"""The oracle: plain Python and NumPy, written to be read, against which the other backends are judged."""

from __future__ import annotations

from gpulsh.backends.reference.backend import ReferenceBackend

__all__ = ["ReferenceBackend"]
