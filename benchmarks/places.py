"""Where the benchmarks find the data sets, and where they write."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The project's folder."""
DATA = Path(os.environ.get("KERNELTRACK_DATA", ROOT.parent / "shared" / "data"))
"""The folder of the data sets."""
BUILD = ROOT / "build" / "benchmarks"
"""Tables, values and plots; made by whoever writes first."""
