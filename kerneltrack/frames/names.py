"""Names of a frame's columns: texts, each of which stands once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kerneltrack.errors import ConfigError


def name_of(field: str, name: Any) -> str:
    """Return a column's name as a text; the levels of several are joined by dots.

    Raises:
        ConfigError: for what names no column, under the name of the field.

    Example:
        >>> name_of("time", 7), name_of("time", ("flow", "mean")), name_of("time", ("t", ""))
        ('7', 'flow.mean', 't')
    """
    if isinstance(name, tuple) and name:
        return ".".join(str(part) for part in name if part != "")
    if isinstance(name, bool | list | dict | set | bytes) or name is None:
        raise ConfigError(field, name, "the name of a column")
    return str(name)


def check_once(names: Sequence[str]) -> None:
    """Check that no name stands twice.

    Raises:
        ConfigError: naming one that does.
    """
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError("columns of the frame", twice, "named once each")
