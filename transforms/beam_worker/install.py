"""Prepare this process's Beam worker for our steps."""

from __future__ import annotations

import logging
import threading

import apache_beam as beam

from transforms.beam_worker import sampling, state_cache, state_writes

PARTS = (
    (state_writes.check_writes, state_writes.VERSIONS, state_writes.WITHOUT),
    (state_cache.measure_entries, state_cache.VERSIONS, state_cache.WITHOUT),
    (sampling.sample_often, sampling.VERSIONS, sampling.WITHOUT),
)
"""What changes a worker, the versions of Beam it was checked with, what happens without."""

_LOGGER = logging.getLogger(__name__)
_LOCK = threading.Lock()
_INSTALLED: list[str] = []
"""The version of Beam that was prepared, once it was."""


def install() -> None:
    """Let this process's Beam worker do what our steps want; once a process is enough.

    With a version of Beam that a part was not checked with, Beam's own way stays, and the log says
    what that costs. Results are the same.
    """
    with _LOCK:
        if _INSTALLED:
            return
        _INSTALLED.append(beam.__version__)
        for change, versions, without in PARTS:
            if _minor(beam.__version__) in versions:
                change()
            else:
                known = ", ".join(versions)
                _LOGGER.warning(
                    "Beam %s is not of the versions checked (%s): %s",
                    beam.__version__,
                    known,
                    without,
                )


def _minor(version: str) -> str:
    """Return a version without its patches: 2.77 of 2.77.1."""
    return ".".join(version.split(".")[:2])
