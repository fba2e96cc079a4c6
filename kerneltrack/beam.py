"""Beam transforms: `from kerneltrack.beam import RowsToChunks, TrackSubspace`.

The names are those of the package `transforms` in the same installation, imported when they are
asked for: this is the one module of kerneltrack that reaches it. A file `transforms.py` in the
folder of your own program does not hide them.

Raises:
    ImportError: for a name that is asked for, if your program has imported another module
        `transforms` before.
    ModuleNotFoundError: if Beam is not installed (`pip install '.[beam]'` in a clone).
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from typing import Any

_PACKAGE = "transforms"
_FOLDER = Path(__file__).resolve().parents[1]
_ELSEWHERE = {
    "ReferenceDetector": "transforms.anomaly",
    "SnapshotHandler": "transforms.inference",
    "SummarisePeriods": "transforms.periods",
    "measure_mismatch": "transforms.beam_yaml",
    "track_subspace": "transforms.beam_yaml",
    "train_linear": "transforms.beam_yaml",
}
"""Names that the package itself does not offer, by their modules."""


def __getattr__(name: str) -> Any:
    """Return one of the transforms."""
    if name.startswith("_"):
        raise AttributeError(name)
    package = _transforms()
    if name == "__all__":
        return [*package.__all__, *_ELSEWHERE]
    place = importlib.import_module(_ELSEWHERE[name]) if name in _ELSEWHERE else package
    if place is package and name not in package.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(place, name)


def __dir__() -> list[str]:
    """Return the names of all transforms."""
    return sorted([*_transforms().__all__, *_ELSEWHERE])


def _transforms() -> Any:
    """Return the package next to kerneltrack, whatever else has its name on the path."""
    known = sys.modules.get(_PACKAGE)
    if known is None:
        spec = importlib.machinery.PathFinder.find_spec(_PACKAGE, [str(_FOLDER)])
        if spec is None or spec.loader is None:
            return importlib.import_module(_PACKAGE)
        known = importlib.util.module_from_spec(spec)
        sys.modules[_PACKAGE] = known
        spec.loader.exec_module(known)
    if _FOLDER not in Path(known.__file__ or "").resolve().parents:
        raise ImportError(
            f"{known.__file__} is imported as `transforms`, the name of a package of kerneltrack: "
            "rename that file, or import kerneltrack.beam before it"
        )
    return known
