"""Imported by the server that processes are forked from: what tasks need, and no word of it."""

from __future__ import annotations

import importlib
import logging

# Beam says on import which of its optional parts are not there.
logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(message)s")
importlib.import_module("transforms.partition.tasks")
