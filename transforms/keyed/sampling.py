"""How often Beam's worker notes which step is at work."""

from __future__ import annotations

from typing import Any

from apache_beam.runners.worker import statesampler

PERIOD = 5
"""Milliseconds."""


def sample_often() -> None:
    """Let the bundles of this process's Beam worker not wait for their sampling to end.

    Beam joins the thread that samples at the end of each bundle, and that sleeps for up to a sixth
    of the bundle's time, 200 ms at most: a twelfth of what a worker under load does is waiting for
    it. A look at the clock each few milliseconds costs next to nothing.
    """
    sampler: Any = statesampler.StateSampler
    sampler.__init__.__defaults__ = (PERIOD,)
