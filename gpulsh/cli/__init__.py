"""The command line. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import sys

try:
    from gpulsh.cli.commands import group, main
except KeyboardInterrupt:  # before a command could report it
    sys.stderr.write("gpulsh: interrupted\n")
    sys.exit(130)

__all__ = ["group", "main"]
