"""Runnable jobs, their options, the command line and the report."""

from __future__ import annotations

import logging


def _is_of_use(record: logging.LogRecord) -> bool:
    """Check that a record is not Beam's remark, on import, that Google's clients are missing."""
    return not str(record.msg).startswith("apitools not found")


logging.getLogger().addFilter(_is_of_use)
