"""Specs: settings that a model's results depend on, and their way from and to plain values.

A spec says everything that a model's results depend on beside its rows. Two jobs with equal
specs and equal rows give equal bytes.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from kerneltrack.errors import ConfigError
from kerneltrack.settings import Settings, as_declared, settings_of

_S = TypeVar("_S", bound="Spec")

AUTO = "auto"
"""What may stand for a setting that a spec resolves by itself."""
KERNELS = ("gaussian", "laplacian", "polynomial", "linear")
NEEDS_BANDWIDTH = frozenset({"gaussian", "laplacian"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spec(Settings):
    """Base of all specs. `role` names the attribute of the class that holds its kind."""

    @property
    def kind(self) -> str:
        """Name of the tracker, learner or detector that the spec is of."""
        return str(getattr(self, self.role))

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as plain values, the name of its kind first."""
        return dict(self._plain)

    @functools.cached_property
    def _plain(self) -> dict[str, Any]:
        """What `to_dict` returns: it is part of every state that is written."""
        kind = {self.role: self.kind} if self.role else {}
        values = dataclasses.asdict(self).items()
        return {**kind, **{name: _listed(value) for name, value in values}}

    def digest(self) -> str:
        """Return a short hash that tells specs apart."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _listed(value: Any) -> Any:
    return [_listed(part) for part in value] if isinstance(value, tuple) else value


def check_names(kind: type[Spec], values: Mapping[str, Any], field: str | None = None) -> None:
    """Check that names are of settings of a kind, where people give them one by one.

    Args:
        kind: The spec's class.
        values: Names to values.
        field: What the values are given as; None: each under its own name.

    Raises:
        ConfigError: naming the first that is none, with the nearest that is one.
    """
    for name, value in values.items():
        if name not in settings_of(kind):
            found = _kind_and_nearest(kind, name)
            if field is None:
                raise ConfigError(str(name), value, f"left out: it is no setting of {found}")
            raise ConfigError(field, name, f"settings of {found}")


def _kind_and_nearest(kind: type[Spec], name: object) -> str:
    """Return a kind's name, and which of its settings may have been meant."""
    near = difflib.get_close_matches(str(name), settings_of(kind), n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{getattr(kind, kind.role)}{hint}"


def spec_from_dict(kind: type[_S], values: Mapping[str, Any]) -> _S:
    """Build a spec of this kind from plain values (a YAML file, a snapshot's header).

    Args:
        kind: The spec's class.
        values: Field names to values; the role may be among them.

    Returns:
        The spec, fields that are not named at their defaults.

    Raises:
        ConfigError: for an unknown field (with the nearest known one) or a bad value.
    """
    settings = settings_of(kind)
    given: dict[str, Any] = {}
    for name, value in values.items():
        if name == kind.role:
            continue
        if name not in settings:
            raise ConfigError("spec", name, f"a field of {_kind_and_nearest(kind, name)}")
        given[name] = as_declared(kind, name, value)
    return kind(**given)
