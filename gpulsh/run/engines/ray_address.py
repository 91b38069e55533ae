"""Whether a Ray cluster answers at an address, asked before Ray is: it goes on trying for minutes where another service
listens, and hears no Ctrl-C meanwhile.

First by what any gRPC server says, which tells most other services at once; then by a client of Ray's in a process of
its own, which can be ended.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from gpulsh.errors import BackendError, ParameterError

REACH = 10.0  # seconds in which a server answers
ASKED = 30.0  # seconds in which a process begins and is answered by the cluster

# The client's connection preface, with empty settings; a server's first frame is its own (RFC 9113, section 3.4).
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
FRAME_HEAD = 9
SETTINGS = 4

UNKNOWN = 3  # a Ray without this client, which says nothing of the cluster
CLIENT = f"""
import sys
try:
    from ray._raylet import GcsClient
except ImportError:
    sys.exit({UNKNOWN})
GcsClient(address=sys.argv[1])
"""


def check_reachable(address: str) -> None:
    """BackendError where no Ray cluster answers at HOST:PORT; other addresses Ray finds out about itself."""
    if "://" in address:
        raise ParameterError(f"address is {address!r}; give HOST:PORT, or 'auto' on a machine of the cluster")
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=REACH) as connection:
            if os.environ.get("RAY_USE_TLS", "0").lower() in ("0", "", "false"):
                _check_grpc(address, connection)
    except (OSError, OverflowError) as error:
        raise BackendError(f"the Ray cluster at {address!r} could not be joined: {error}") from error
    _ask_cluster(address)


def _check_grpc(address: str, connection: socket.socket) -> None:
    try:
        connection.sendall(PREFACE)
        head = b""
        while len(head) < FRAME_HEAD and (more := connection.recv(FRAME_HEAD - len(head))):
            head += more
    except TimeoutError:
        raise _no_ray(address, f"says nothing in {REACH:.0f} seconds") from None
    except ConnectionError:
        head = b""
    if len(head) < FRAME_HEAD or head[3] != SETTINGS:
        raise _no_ray(address, "does not speak gRPC" if head else "hangs up")


def _ask_cluster(address: str) -> None:
    try:
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, address],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=ASKED,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _no_ray(address, f"does not answer as a Ray cluster in {ASKED:.0f} seconds") from None
    if done.returncode not in (0, UNKNOWN):
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise _no_ray(address, f"does not answer as a Ray cluster ({lines[-1] if lines else done.returncode})")


def _no_ray(address: str, told: str) -> BackendError:
    return BackendError(
        f"the Ray cluster at {address!r} could not be joined: what listens there {told}; give the address that"
        " `ray start --head` shows (its port is 6379 unless another was given)"
    )
