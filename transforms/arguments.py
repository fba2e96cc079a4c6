"""What transforms are given in Python: errors for what is something else, when it is given."""

from __future__ import annotations

from typing import Any

from apache_beam import pvalue

from kerneltrack.errors import ConfigError


def check_kind(field: str, value: Any, kind: type, example: str) -> None:
    """Refuse an argument of another kind, such as a tracker's name in place of its spec.

    Args:
        field: Name of the argument.
        value: What was given; None is left to the caller.
        kind: What it must be.
        example: How one is made, as `OKFEBSpec(rank=10)`.

    Raises:
        ConfigError: if it is something else.
    """
    if value is not None and not isinstance(value, kind):
        raise ConfigError(field, value, f"a {kind.__name__}, such as {example}")


def check_collection(name: str, value: Any) -> None:
    """Refuse the outputs of a transform in the place of one of them.

    Args:
        name: What the collection holds.
        value: What the transform is applied to.

    Raises:
        ConfigError: if it is not one PCollection.
    """
    if isinstance(value, pvalue.PCollection):
        return
    given = ", ".join(map(str, value)) if isinstance(value, dict) else type(value).__name__
    raise ConfigError(
        name, given, f"one PCollection: choose an output by its name, as in outputs[{name!r}]"
    )
