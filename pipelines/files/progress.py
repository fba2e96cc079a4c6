"""The status line of a job that runs in this process."""

from __future__ import annotations

import threading
import time
from typing import TextIO

from transforms.metrics import TALLY

INTERVAL = 0.5


class StatusLine:
    """Show rows done, of rows known, and rows per second on a terminal while a job runs.

    Args:
        stream: Where to; nothing is shown unless it is a terminal or `show`.
        rows: Rows of the input if known, else None: then what has been read so far counts.
        show: False: never; True: without a terminal too, one line a time.
    """

    def __init__(self, stream: TextIO, rows: int | None, show: bool | None = None) -> None:
        self._stream = stream
        self._rows = rows
        self._terminal = stream.isatty()
        self._shown = self._terminal if show is None else show
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    def __enter__(self) -> StatusLine:
        """Start to show."""
        TALLY.clear()
        self._begin = time.monotonic()
        if self._shown:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Show the last figures and end the line."""
        self._stop.set()
        if self._shown:
            self._thread.join()
            self._show()
            if self._terminal:
                self._stream.write("\n")
            self._stream.flush()

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL):
            self._show()

    def _show(self) -> None:
        line = self.text(time.monotonic() - self._begin)
        self._stream.write(f"\r\x1b[K{line}" if self._terminal else f"{line}\n")
        self._stream.flush()

    def text(self, seconds: float) -> str:
        """Return the line after this many seconds."""
        read = TALLY["rows_read"]
        failed = TALLY["rows_failed"] + TALLY["rows_late"]
        done = TALLY["rows_tracked"] + failed
        known = max(self._rows or read, read)
        share = f" ({100 * done / known:.0f} %)" if known else ""
        rate = done / seconds if seconds > 0 else 0.0
        return (
            f"{read:,} rows read, {done:,} of {known:,} done{share}, "
            f"{failed:,} failed, {rate:,.0f} rows/s"
        )
