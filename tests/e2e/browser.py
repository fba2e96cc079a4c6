"""One browser for all pages that tests look at: to start it takes as long as to show three."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Iterable, Iterator
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

MEASURED = """
  window.measured = null;
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    window.measured = [scrollWidth, clientWidth, innerWidth];
  }, 50)));
"""
"""What a page needs and has in width, once it has been drawn: its charts follow a frame later."""

END = b"\0"
PATIENCE = 120.0

CONSOLE = {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}
"""What Chromium would print as a line of its console."""


class Seen(NamedTuple):
    """What came of a page: its HTML at the end, what stands in the console, and its widths.

    Of each further width of the window how wide the page is then, and for how much there is room.
    """

    html: str
    console: list[str]
    widths: dict[int, tuple[int, int]]


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

    def look(self, address: str, size: str, dark: bool, widths: Iterable[int] = ()) -> Seen:
        """Show a page that nothing else has been shown beside, then in windows of other widths.

        It is looked at when its budget is used up, and its body says no more that it `waits`.
        """
        context = self._ask("Target.createBrowserContext")["browserContextId"]
        made = self._ask("Target.createTarget", url="about:blank", browserContextId=context)
        at = {"targetId": made["targetId"]}
        session = self._ask("Target.attachToTarget", **at, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable", session)
        width, height = map(int, size.split(","))
        window = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._ask("Emulation.setDeviceMetricsOverride", session, **window)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", session, features=[scheme])
        self._told.clear()
        # No time passes before there is a page.
        self._ask("Emulation.setVirtualTimePolicy", session, policy="pause")
        self._ask("Page.navigate", session, url=address)
        self._pass(session)
        while self._value(session, "'waits' in document.body.dataset"):
            self._pass(session)
        html = self._value(session, "document.documentElement.outerHTML")
        measured = {}
        for width in widths:
            self._ask("Emulation.setDeviceMetricsOverride", session, **window | {"width": width})
            self._value(session, MEASURED)
            while (found := self._value(session, "window.measured")) is None:
                self._pass(session)
            needed, given, inner = found
            assert inner == width
            measured[width] = (needed, given)
        console = [json.dumps(told) for told in self._told if told["method"] in CONSOLE]
        self._ask("Target.disposeBrowserContext", browserContextId=context)
        return Seen(html, console, measured)

    def _pass(self, session: str) -> None:
        """Let the page's time pass."""
        passes = {"policy": "pauseIfNetworkFetchesPending", "budget": BUDGET}
        self._ask("Emulation.setVirtualTimePolicy", session, **passes)
        while self._take().get("method") != "Emulation.virtualTimeBudgetExpired":
            pass

    def _value(self, session: str, expression: str) -> Any:
        what = {"expression": expression, "returnByValue": True}
        return self._ask("Runtime.evaluate", session, **what)["result"]["value"]

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
