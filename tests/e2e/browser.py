"""One browser for all pages that tests look at: to start it takes as long as to show three."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--remote-debugging-pipe",
)
BUDGET = 4000
"""Milliseconds of a page's own time, which passes as fast as it has something to do."""

END = b"\0"
PATIENCE = 120.0
NARROWEST = 500
"""As a window of the browser; what is to be narrower stands in a frame."""

CONSOLE = {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}
"""What Chromium would print as a line of its console."""


class Seen(NamedTuple):
    """What came of a page: its HTML at the end, and what stands in the console."""

    html: str
    console: list[str]


class Browser:
    """A running browser, spoken to in its own protocol, through two pipes.

    Args:
        to, of: What it reads, and what it writes.
    """

    def __init__(self, to: int, of: int) -> None:
        self._to, self._of = to, of
        self._rest = b""
        self._number = 0
        self._told: list[dict[str, Any]] = []

    def look(self, address: str, size: str, dark: bool) -> Seen:
        """Show a page that nothing else has been shown beside."""
        context = self._ask("Target.createBrowserContext")["browserContextId"]
        made = self._ask("Target.createTarget", url="about:blank", browserContextId=context)
        at = {"targetId": made["targetId"]}
        session = self._ask("Target.attachToTarget", **at, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable", session)
        width, height = map(int, size.split(","))
        window = {
            "width": max(width, NARROWEST),
            "height": height,
            "deviceScaleFactor": 1,
            "mobile": False,
        }
        self._ask("Emulation.setDeviceMetricsOverride", session, **window)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", session, features=[scheme])
        self._told.clear()
        # No time passes before there is a page.
        self._ask("Emulation.setVirtualTimePolicy", session, policy="pause")
        self._ask("Page.navigate", session, url=address)
        passes = {"policy": "pauseIfNetworkFetchesPending", "budget": BUDGET}
        self._ask("Emulation.setVirtualTimePolicy", session, **passes)
        while self._take().get("method") != "Emulation.virtualTimeBudgetExpired":
            pass
        what = {"expression": "document.documentElement.outerHTML", "returnByValue": True}
        html = self._ask("Runtime.evaluate", session, **what)["result"]["value"]
        console = [json.dumps(told) for told in self._told if told["method"] in CONSOLE]
        self._ask("Target.disposeBrowserContext", browserContextId=context)
        return Seen(html, console)

    def _ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session is not None:
            asked["sessionId"] = session
        os.write(self._to, json.dumps(asked).encode() + END)
        while (answer := self._take()).get("id") != self._number:
            pass
        assert "error" not in answer, (method, answer)
        return dict(answer["result"])

    def _take(self) -> dict[str, Any]:
        """Return what comes next; what the browser tells by itself is kept."""
        while END not in self._rest:
            readable, _, _ = select.select([self._of], [], [], PATIENCE)
            part = os.read(self._of, 1 << 20) if readable else b""
            assert part, "the browser has ended, or says no more"
            self._rest += part
        line, _, self._rest = self._rest.partition(END)
        found: dict[str, Any] = json.loads(line)
        if "method" in found:
            self._told.append(found)
        return found


@contextmanager
def started(program: str, profile: Path) -> Iterator[Browser]:
    """Start a browser, with a profile of its own."""
    (read, to), (of, write) = os.pipe(), os.pipe()
    # It reads from 3 and writes to 4; other shells know no numbers of two digits.
    shell = f'exec "$0" "$@" 3<&{read} 4>&{write}'
    command = ["bash", "-c", shell, program, *FLAGS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        command, pass_fds=(read, write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(read)
    os.close(write)
    try:
        yield Browser(to, of)
    finally:
        os.close(to)
        os.close(of)
        process.terminate()
        process.wait(60)
