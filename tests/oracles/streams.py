"""Streams of rows and small tools that several tests share."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from kerneltrack.trackers import OKFEBSpec

Array = npt.NDArray[np.float64]

IMU = ("ax", "ay", "az", "wx", "wy", "wz")


def small_spec(**fields: Any) -> OKFEBSpec:
    """A spec whose budget a few rows fill, with these fields."""
    sizes: dict[str, Any] = {"rank": 3, "budget": 6, "gamma": 4.0, "standardise": False}
    return OKFEBSpec(**(sizes | fields))


def walk(seed: int, count: int, width: int) -> Array:
    """A random walk on a torus: neighbours are alike, as in sensor data, and it comes back."""
    moves = np.random.default_rng(seed).normal(scale=0.3, size=(count, width))
    return np.asarray(3 * np.sin(np.cumsum(moves, axis=0)))


def spheroid(rng: np.random.Generator, count: int, axis: int) -> Array:
    """Rows uniform by area on the unit sphere stretched threefold along one axis."""
    kept = np.empty((0, 3))
    while len(kept) < count:
        unit = rng.normal(size=(2 * count, 3))
        unit /= np.linalg.norm(unit, axis=1)[:, None]
        # The area of a patch at u grows by 3‖(u_a/3, u_b, u_c)‖ <= 3: rejection sampling.
        squeezed = unit.copy()
        squeezed[:, axis] /= 3
        fits = rng.random(len(unit)) < np.linalg.norm(squeezed, axis=1)
        unit[:, axis] *= 3
        kept = np.vstack([kept, unit[fits]])
    return np.asarray(kept[:count])


def imu(path: Path, count: int, first: int = 0) -> Array:
    """Rows of a recording's six IMU channels."""
    table = pq.read_table(path, columns=list(IMU)).slice(first, count)
    return np.column_stack([table[name].to_numpy().astype(np.float64) for name in IMU])


def raw(value: Any) -> Any:
    """Arrays as bytes, so that == means equal bit for bit (NaN and -0.0 too)."""
    if value is None:
        return None
    return value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes()


def state_bytes(state: Any) -> dict[str, Any]:
    """Every array of a state, as bytes."""
    return {name: raw(array) for name, array in state._asdict().items()}


def feature_bytes(features: Any, rows: Any = slice(None)) -> dict[str, Any]:
    """Every array of some rows' features, as bytes."""
    values = {f.name: getattr(features, f.name) for f in dataclasses.fields(features)}
    return {name: None if v is None else raw(v[rows]) for name, v in values.items()}


def joined_bytes(parts: list[Any]) -> dict[str, Any]:
    """The features of consecutive calls as one."""
    result = {}
    for field in dataclasses.fields(parts[0]):
        arrays = [getattr(part, field.name) for part in parts]
        result[field.name] = None if arrays[0] is None else raw(np.concatenate(arrays))
    return result
