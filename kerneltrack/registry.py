"""Trackers and learners by name. What is named is imported when it is asked for.

To add one: its folder or file, its spec, and a line here.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kerneltrack.errors import ConfigError
from kerneltrack.specs import Spec, spec_from_dict

if TYPE_CHECKING:  # They need NumPy; who asks for names and specs alone does not wait for it.
    from kerneltrack.learners.common.base import Learner
    from kerneltrack.learners.common.spec import LearnerSpec
    from kerneltrack.trackers.common.base import KernelTracker
    from kerneltrack.trackers.common.spec import SubspaceSpec


_T = TypeVar("_T")
_S = TypeVar("_S", bound=Spec)


class Registry(Mapping[str, _T], Generic[_T, _S]):
    """Parts of one role by name, the default first.

    Args:
        role: "tracker" or "learner".
        package: Where they are.
        parts: By name, module and class of the spec, then of what it is the spec of.
    """

    def __init__(self, role: str, package: str, parts: Mapping[str, tuple[str, str]]) -> None:
        self.role = role
        self.default = next(iter(parts))
        self._package = package
        self._parts = parts
        self._made: dict[str, _T] = {}

    def __iter__(self) -> Iterator[str]:
        """Return the names."""
        return iter(self._parts)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._parts)

    def __contains__(self, name: object) -> bool:
        """Check whether a part has this name; nothing is imported."""
        return name in self._parts

    def __getitem__(self, name: str) -> _T:
        """Return the part of this name."""
        if name not in self._made:
            self._made[name] = self._load(self._parts[name][1])()
        return self._made[name]

    def get_part(self, name: Any) -> _T:
        """Return the part of this name.

        Raises:
            ConfigError: for an unknown name.
        """
        return self[self._known(name)]

    def spec_type(self, name: Any) -> type[_S]:
        """Return the class of a part's spec.

        Raises:
            ConfigError: for an unknown name.
        """
        found: type[_S] = self._load(self._parts[self._known(name)][0])
        return found

    def module(self, name: str) -> str:
        """Return the name of the module that a part is in."""
        return f"{self._package}.{self._parts[name][1].partition(':')[0]}"

    def parse(self, values: Mapping[str, Any]) -> _S:
        """Build a spec from plain values; the role's names its kind, see `spec_from_dict`."""
        return spec_from_dict(self.spec_type(values.get(self.role, self.default)), values)

    def _known(self, name: Any) -> str:
        if not isinstance(name, str) or name not in self._parts:
            raise ConfigError(self.role, name, f"one of {', '.join(self._parts)}")
        return name

    def _load(self, place: str) -> Any:
        module, _, name = place.partition(":")
        return getattr(importlib.import_module(f"{self._package}.{module}"), name)


TRACKERS: Registry[KernelTracker[Any, Any], SubspaceSpec] = Registry(
    "tracker",
    "kerneltrack.trackers",
    {
        "okfeb": ("okfeb.spec:OKFEBSpec", "okfeb.okfeb:OKFEB"),
        "okfe": ("okfeb.spec:OKFESpec", "okfeb.okfe:OKFE"),
        "covariance": ("covariance.spec:CovarianceSpec", "covariance.tracker:CovarianceTracker"),
        "oana": ("oana.spec:OANASpec", "oana.tracker:OANA"),
        "dskpca": ("doubly.spec:DSKPCASpec", "doubly.kpca:DSKPCA"),
        "dspair": ("doubly.spec:DSPairSpec", "doubly.pair:DSPair"),
        "rows": ("rows.spec:RowsSpec", "rows.tracker:Rows"),
    },
)
LEARNERS: Registry[Learner, LearnerSpec] = Registry(
    "learner",
    "kerneltrack.learners",
    {
        "auto": ("auto.spec:AutoSpec", "auto.learner:Auto"),
        "ridge": ("linear.spec:RidgeSpec", "linear.ridge:Ridge"),
        "logistic": ("linear.spec:LogisticSpec", "linear.logistic:Logistic"),
        "hinge": ("linear.spec:HingeSpec", "linear.hinge:Hinge"),
        "pegasos": ("linear.spec:PegasosSpec", "linear.pegasos:Pegasos"),
        "lms": ("linear.spec:LMSSpec", "linear.lms:LMS"),
        "pa": ("linear.spec:PASpec", "linear.pa:PA"),
        "polk": ("kernel.spec:POLKSpec", "kernel.polk:POLK"),
        "bsgd": ("kernel.spec:BSGDSpec", "kernel.bsgd:BSGD"),
        "nolana": ("kernel.spec:NOLANASpec", "kernel.nolana:NOLANA"),
        "fogd": ("kernel.spec:FOGDSpec", "kernel.fogd:FOGD"),
    },
)


def get_tracker(name: str) -> KernelTracker[Any, Any]:
    """Return the tracker of this name.

    Raises:
        ConfigError: for an unknown name.
    """
    return TRACKERS.get_part(name)


def get_learner(name: str) -> Learner:
    """Return the learner of this name.

    Raises:
        ConfigError: for an unknown name.
    """
    return LEARNERS.get_part(name)


def parse_spec(values: Mapping[str, Any]) -> SubspaceSpec:
    """Build a tracker's spec from plain values; "tracker" names its kind (default OK-FEB).

    Args:
        values: Field names to values (a YAML file, a snapshot's header).

    Returns:
        The spec, fields that are not named at their defaults.

    Raises:
        ConfigError: for an unknown tracker or field, or a value out of range.

    Example:
        >>> parse_spec({"rank": 3, "ridge": "1e-2"}).ridge
        0.01
    """
    return TRACKERS.parse(values)


def parse_learner_spec(values: Mapping[str, Any]) -> LearnerSpec:
    """Build a learner's spec from plain values; "learner" names its kind (default ridge).

    Arguments, result and errors as of `parse_spec`.

    Example:
        >>> parse_learner_spec({"learner": "ridge", "ridge": "1e-2"}).ridge
        0.01
    """
    return LEARNERS.parse(values)
