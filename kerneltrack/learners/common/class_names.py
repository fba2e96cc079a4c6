"""The name of a label's class: the same for equal labels, whatever type they come in."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from kerneltrack.missing import is_missing


def class_of(label: object) -> str | None:
    """Return the name of a label's class; None if the label is missing.

    Texts name themselves; an empty one is no label. True and False are the classes 1 and 0, and
    whole numbers the same class in every type, as in the files of a job.

    Raises:
        ValueError: for a label that is neither a text nor a finite number.

    Example:
        >>> [class_of(label) for label in ("on", True, np.bool_(False), 3.0, np.int8(3), 0.5, None)]
        ['on', '1', '0', '3', '3', '0.5', None]
    """
    if isinstance(label, str):
        # Subtypes, such as NumPy's, become plain texts.
        return str.__str__(label) or None
    if is_missing(label):
        return None
    if isinstance(label, bool | np.bool_):
        return str(int(label))
    if isinstance(label, np.timedelta64):
        raise ValueError("not a text or a number")
    if isinstance(label, int | np.integer):
        # More digits than Python writes are a ValueError.
        return str(int(label))
    if isinstance(label, float | np.floating | Decimal):
        number = float(label)
        if not math.isfinite(number):
            raise ValueError("not finite")
        return str(int(number)) if number.is_integer() else repr(number)
    raise ValueError("not a text or a number")
