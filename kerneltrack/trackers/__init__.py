"""Trackers, one a file, and their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kerneltrack.errors import ConfigError
from kerneltrack.specs import SubspaceSpec, spec_from_dict
from kerneltrack.trackers.common.base import Features, IntArray, Tracker
from kerneltrack.trackers.covariance.tracker import CovarianceSpec, CovarianceTracker
from kerneltrack.trackers.doubly.kpca import DSKPCA, DSKPCASpec
from kerneltrack.trackers.doubly.pair import DSPair, DSPairSpec
from kerneltrack.trackers.oana.tracker import OANA, OANASpec
from kerneltrack.trackers.okfeb.okfe import OKFE, OKFESpec
from kerneltrack.trackers.okfeb.okfeb import OKFEB, OKFEBSpec
from kerneltrack.trackers.rows import Rows, RowsSpec

__all__ = [
    "DSKPCA",
    "OANA",
    "OKFE",
    "OKFEB",
    "TRACKERS",
    "CovarianceSpec",
    "CovarianceTracker",
    "DSKPCASpec",
    "DSPair",
    "DSPairSpec",
    "Features",
    "OANASpec",
    "OKFEBSpec",
    "OKFESpec",
    "Rows",
    "RowsSpec",
    "Tracker",
    "get_tracker",
    "parse_spec",
    "run_all",
]

TRACKERS: dict[str, Tracker] = {
    tracker.name: tracker
    for tracker in (OKFEB(), OKFE(), CovarianceTracker(), OANA(), DSKPCA(), DSPair(), Rows())
}
DEFAULT_TRACKER = "okfeb"


def get_tracker(name: str) -> Tracker:
    """Return the tracker of this name.

    Raises:
        ConfigError: for an unknown name.
    """
    if name not in TRACKERS:
        raise ConfigError("tracker", name, f"one of {', '.join(TRACKERS)}")
    return TRACKERS[name]


def parse_spec(values: Mapping[str, Any]) -> SubspaceSpec:
    """Build a spec from plain values; "tracker" names its kind (default OK-FEB).

    Raises:
        ConfigError: for an unknown tracker or field, or a value out of range.

    Example:
        >>> parse_spec({"tracker": "okfeb", "rank": 5, "budget": 10}).rank
        5
    """
    name = values.get("tracker", DEFAULT_TRACKER)
    if not isinstance(name, str):
        raise ConfigError("tracker", name, f"one of {', '.join(TRACKERS)}")
    tracker = get_tracker(name)
    return spec_from_dict(tracker.spec_type, values)


def run_all(
    spec: SubspaceSpec, rows: Any, extras: tuple[str, ...] = (), times: IntArray | None = None
) -> tuple[Any, Features]:
    """Track a whole array in memory: `init` with the first rows, then `update` with all.

    Args:
        spec: The spec; it names the tracker.
        rows: Shape (n, D), n >= 1, finite in the first `spec.rows_to_start` rows.
        extras: "q" and "s" ask for those features too.
        times: (n,) event time of each row, ns, if the spec needs them.

    Returns:
        The last state and the features of all rows.

    Example:
        >>> import numpy as np
        >>> rows = np.random.default_rng(0).normal(size=(100, 3))
        >>> _, features = run_all(OKFEBSpec(rank=2, budget=3, warmup=50), rows)
        >>> bool(features.valid.all())
        True
    """
    tracker = get_tracker(spec.tracker)
    state = tracker.init(spec, rows[: spec.rows_to_start])
    return tracker.update(spec, state, rows, extras, times)
