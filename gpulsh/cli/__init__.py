"""The command line. Nothing heavy is imported before a command runs."""

from __future__ import annotations

from gpulsh.cli.main import main

__all__ = ["main"]
