"""AsyncMinHashLSH, whose tables lie on servers: datasketch's own, where it is installed."""

from __future__ import annotations

from gpulsh.compat.datasketch.theirs import theirs

_NAMES = ("AsyncMinHashLSH",)


def __getattr__(name: str) -> object:
    if name not in _NAMES:  # tools ask modules for names of theirs
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return theirs("aio", name)
