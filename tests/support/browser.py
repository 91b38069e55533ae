"""Headless Chromium, driven over a pipe by its own protocol: only the browser is needed."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE = 60  # seconds for an answer
_QUIET = ("no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking")
_FLAGS = ("headless", *_QUIET, "disable-component-update", "disable-sync", "disable-dev-shm-usage")
# The browser reads from 3 and writes to 4.
_BEGIN = """
import os, sys
for number, wanted in zip([os.dup(int(given)) for given in sys.argv[1:3]], (3, 4)):
    os.dup2(number, wanted)
    os.set_inheritable(wanted, True)  # also where it was its number already
os.execv(sys.argv[3], sys.argv[3:])
"""


class Tab:
    """A page in the browser; `errors` collects its errors, and `requests` its requests."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write, self._rest, self._number = read, write, b"", 0
        self._session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> Any:
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        request = json.dumps({"id": self._number, "method": method, "params": params, **session})
        os.write(self._write, request.encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, path: Path) -> None:
        self.send("Page.navigate", url=path.as_uri())
        while self.run("document.readyState") != "complete" or self.run("location.href") != path.as_uri():
            time.sleep(0.02)

    def close(self) -> None:
        self._session = None
        self.send("Browser.close")

    def run(self, script: str) -> Any:
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def key(self, name: str, code: int, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            letter = {"text": text} if text and kind == "keyDown" else {}
            self.send("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, **letter)

    def picture(self, path: Path, width: int, *, dark: bool = False) -> None:
        """A PNG of the whole page."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=scheme)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        found = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._read], [], [], PATIENCE)[0], "the browser does not answer"
            more = os.read(self._read, 1 << 20)
            assert more, "the browser ended"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        kind, details = event.get("method"), event.get("params", {})
        if kind == "Runtime.exceptionThrown" or kind == "Page.javascriptDialogOpening":
            self.errors.append(json.dumps(details))
        elif kind == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            self.errors.append(details["entry"]["text"])
        elif kind == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(details["args"]))
        elif kind == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])


@contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """A tab of a browser that keeps its files in `folder`."""
    assert CHROMIUM is not None
    (their_read, write), (read, their_write) = os.pipe(), os.pipe()
    command = [CHROMIUM, *(f"--{flag}" for flag in _FLAGS), "--remote-debugging-pipe", f"--user-data-dir={folder}"]
    with subprocess.Popen(
        [sys.executable, "-c", _BEGIN, str(their_read), str(their_write), *command],
        pass_fds=(their_read, their_write),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(their_read)
        os.close(their_write)
        try:
            tab = Tab(read, write)
            yield tab
            tab.close()
        finally:
            os.close(read)
            os.close(write)
            if process.poll() is None:
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
