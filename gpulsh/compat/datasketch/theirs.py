"""What gpulsh does not make: datasketch's own, where it is installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def theirs(module: str, name: str) -> Any:
    """What datasketch has by a name. ImportError where it is not installed."""
    try:
        return getattr(import_module(f"datasketch.{module}"), name)
    except ImportError:
        raise ImportError(f"{name} is datasketch's own, which is not installed: pip install datasketch") from None
