"""How often Beam's worker notes which step is at work.

Beam joins the thread that samples at the end of each bundle, and that sleeps for up to a sixth of
the bundle's time, 200 ms at most: a twelfth of what a worker under load does is waiting for it. A
look at the clock each few milliseconds costs next to nothing.

Changes: the default period of `statesampler.StateSampler`, 200 ms.
Needless once: Beam does not wait for its sampler. No issue asks for it; apache/beam#5466 made the
period grow slowly from 2 ms to its maximum for the same reason.
"""

from __future__ import annotations

from typing import Any

from apache_beam.runners.worker import statesampler

VERSIONS = ("2.76", "2.77")
WITHOUT = "bundles wait for Beam's sampling, up to a twelfth of a busy worker's time"

PERIOD = 5
"""Milliseconds."""


def sample_often() -> None:
    """Let the bundles of this process's Beam worker not wait for their sampling to end."""
    sampler: Any = statesampler.StateSampler
    sampler.__init__.__defaults__ = (PERIOD,)
