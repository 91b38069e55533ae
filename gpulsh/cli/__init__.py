"""The command line. Nothing heavy is imported before a command runs."""

from __future__ import annotations

from gpulsh.cli.commands import group, main

__all__ = ["group", "main"]
