"""The size of a tracker's state, held against what a job can carry for each model."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from kerneltrack.errors import ConfigError
from kerneltrack.registry import get_tracker
from kerneltrack.trackers.common.spec import SubspaceSpec

MOST_STATE = 1 << 29
"""Most bytes of a model's state in a job (512 MiB): it is copied, kept and written as one value."""
_SIZES = ("max_rows", "budget", "rank")


def state_bytes(spec: SubspaceSpec, width: int) -> int:
    """Return the bytes of the arrays of a state for rows of D = `width` channels.

    Example:
        >>> from kerneltrack.trackers import OKFEBSpec
        >>> 10**6 < state_bytes(OKFEBSpec(rank=10, budget=500), 3) < 10**7
        True
    """
    likes = get_tracker(spec.tracker).layout(spec, width).values()
    return sum(math.prod(like.shape) * np.dtype(like.dtype).itemsize for like in likes)


def check_state_size(spec: SubspaceSpec, width: int) -> None:
    """Check that a state for rows of D = `width` channels is no larger than `MOST_STATE`.

    Raises:
        ConfigError: naming the setting that makes it so large, and how large that may be.
    """
    size = state_bytes(spec, width)
    if size <= MOST_STATE:
        return
    given: Any = spec
    name = next(name for name in _SIZES if hasattr(spec, name))
    value = int(getattr(given, name))
    most = _largest(spec, name, value, width)
    allowed = f"at most {most}" if most else "smaller, and other sizes too"
    taken = f"a model's state would take {size / 2**20:,.0f} MiB, of {MOST_STATE >> 20} at most"
    raise ConfigError(name, value, f"{allowed}: {taken}")


def _largest(spec: SubspaceSpec, name: str, value: int, width: int) -> int:
    """Return the largest value of a setting, below a given one, whose states fit; 0 if none."""
    fits, over = 0, value
    while over - fits > 1:
        middle = (fits + over) // 2
        other = _with(spec, name, middle)
        # One that is too small for the other settings says nothing of larger ones.
        small = other is None or state_bytes(other, width) <= MOST_STATE
        fits, over = (middle, over) if small else (fits, middle)
    return 0 if _with(spec, name, fits) is None else fits


def _with(spec: Any, name: str, value: int) -> SubspaceSpec | None:
    """Return a spec with another value; None if that does not go with its other settings."""
    try:
        other: SubspaceSpec = dataclasses.replace(spec, **{name: value})
    except ConfigError:
        return None
    return other
