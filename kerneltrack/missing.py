"""Which values of other libraries stand for none."""

from __future__ import annotations


def is_missing(value: object) -> bool:
    """Check for no value: None, NaN of any type, pandas' NA and NaT, NumPy's NaT.

    Example:
        >>> is_missing(None), is_missing(float("nan")), is_missing(""), is_missing(0)
        (True, True, False, False)
    """
    if value is None or type(value).__name__ == "NAType":
        return True
    try:
        return bool(value != value)  # noqa: PLR0124
    except Exception:  # a foreign value decides how it compares
        return False
