"""`gpulsh info`: what works here, and why the rest does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from gpulsh.cli.terminal import say


@click.command(short_help="Show backends, devices and versions.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(as_json: bool) -> None:
    """Show backends and why one is not available, devices, where compiled kernels are kept, and the versions of the
    libraries.
    """
    from gpulsh.backends.kernel_cache import kernel_cache
    from gpulsh.backends.parallel import processors
    from gpulsh.backends.select import backend_status
    from gpulsh.report.machine import versions

    status, cache, gpus = backend_status(), kernel_cache(), list[str]()
    if status["cuda"] is None:
        from gpulsh.backends.cuda import devices

        gpus = devices()
    found: Mapping[str, Any] = {
        "backends": {name: {"available": reason is None, "reason": reason} for name, reason in status.items()},
        "devices": {"cpu": {"threads": processors()}, "cuda": gpus},
        "kernels": {"cache": cache.folder, "refused": list(cache.refused)},
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
    say("Kernels of the cpu, once compiled")
    say(f"  {'kept in':<12}{cache.folder or 'no folder: each run compiles them'}")
    for reason in cache.refused:
        say(f"  {'not in':<12}{reason}")
    say("Versions")
    for name, version in found["versions"].items():
        say(f"  {name:<12}{version or 'not installed'}")
