"""`gpulsh info`: what works here, and why not what does not."""

from __future__ import annotations

import json
from typing import Any

import click

from gpulsh.cli.terminal import say


@click.command(short_help="Show backends, devices and versions.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(as_json: bool) -> None:
    """Show backends and why one is not available, devices, and the versions of the libraries."""
    from gpulsh.backends.processors import processors
    from gpulsh.backends.select import backend_status
    from gpulsh.report.versions import versions

    status = backend_status()
    found: dict[str, Any] = {
        "backends": {name: {"available": reason is None, "reason": reason} for name, reason in status.items()},
        "devices": {"cpu": {"threads": processors()}, "cuda": _gpus() if status["cuda"] is None else []},
        "versions": versions(),
    }
    if as_json:
        say(json.dumps(found, indent=2))
        return
    say("Backends")
    for name, reason in status.items():
        say(f"  {name:<12}{'works' if reason is None else 'not available: ' + reason}")
    say("Devices")
    say(f"  {'cpu':<12}{found['devices']['cpu']['threads']} threads")
    for place, gpu in enumerate(found["devices"]["cuda"]):
        say(f"  {f'cuda:{place}':<12}{gpu}")
    say("Versions")
    for name, version in found["versions"].items():
        say(f"  {name:<12}{version or 'not installed'}")


def _gpus() -> list[str]:
    from gpulsh.backends.cuda import devices

    return devices()
