"""Imported by the server that processes are forked from: what tasks need, and no word of it."""

from __future__ import annotations

import logging
import signal

from kerneltrack.imports import OF_OTHERS, import_arrow, import_to_stay

# Ctrl-C is for who started the server: it ends once that one has.
signal.signal(signal.SIGINT, signal.SIG_IGN)
# Beam says on import which of its optional parts are not there.
logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(message)s")
import_to_stay("transforms.partition.tasks", OF_OTHERS)
import_arrow()
