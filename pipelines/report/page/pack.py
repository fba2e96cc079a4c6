"""Numbers and texts in the form in which the page's data block carries them."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping

import numpy as np

from pipelines.report.data.totals import Floats


def number(value: float) -> float | None:
    """Return the value to six digits, None if it is not a number JSON knows."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def numbers(values: Iterable[float]) -> list[float | None]:
    """Return `number` of each."""
    return [number(value) for value in values]


def packed(values: Floats) -> str:
    """Return the values as base64 of little-endian float32."""
    most = float(np.finfo(np.float32).max)
    return base64.b64encode(np.clip(values, -most, most).astype("<f4").tobytes()).decode()


def packed_curve(curve: Mapping[str, Floats]) -> dict[str, str]:
    """Return `packed` of each array."""
    return {name: packed(values) for name, values in curve.items()}


def json_block(data: object) -> str:
    """Return JSON that can't end the script element it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
