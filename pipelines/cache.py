"""Where the user's cache is."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the user's cache folder: KERNELTRACK_CACHE, or kerneltrack in XDG_CACHE_HOME."""
    given = os.environ.get("KERNELTRACK_CACHE")
    if given:
        return Path(given).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kerneltrack"
