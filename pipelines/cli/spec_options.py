"""Command-line flags of the specs: one flag per field of trackers, learners and drift detectors.

Values come from the YAML file of `--spec`, in which `learner:` and `drift:` are sections of their
own, or from the snapshots that the job begins from; flags override them.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import yaml

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.learners import LEARNERS, LearnerSpec, parse_learner_spec
from kerneltrack.monitor.drift import DriftSpec, parse_drift_spec
from kerneltrack.specs import AUTO, SubspaceSpec
from kerneltrack.trackers import DEFAULT_TRACKER, TRACKERS, parse_spec
from pipelines.cli.command_line import flags_named
from transforms.read.formats.base import one_line
from transforms.snapshots.files import read_whole

_METAVARS = {"int": "N", "str": "NAME"}
NONE = "none"
_MOST_BYTES = 64 << 10
"""Of a spec's file: all fields there are take two thousand."""
_MOST_FIELDS = 100


@dataclasses.dataclass(frozen=True)
class Role:
    """A kind of spec on the command line.

    Attributes:
        name: "tracker", "learner" or "drift": the flag that chooses one, the section of the YAML
            file.
        prefix: What the names of its other flags begin with.
        kinds: The specs' classes by name.
    """

    name: str
    prefix: str
    kinds: Mapping[str, type]

    def fields(self) -> dict[str, dict[str, str]]:
        """Return type and help of each field, the help and its default from the docstrings."""
        types: dict[str, str] = {}
        texts: dict[str, dict[str, list[str]]] = {}
        for name, kind in self.kinds.items():
            about: dict[str, str] = {}
            for base in reversed(kind.__mro__):
                about |= _attribute_docs(base)
            for field in dataclasses.fields(kind):
                types.setdefault(field.name, str(field.type))
                default = "none" if field.default is None else str(field.default)
                text = f"{about[field.name]} (default {default})"
                texts.setdefault(field.name, {}).setdefault(text, []).append(name)
        return {name: {"type": types[name], "help": self._joined(texts[name])} for name in types}

    def _joined(self, texts: Mapping[str, Sequence[str]]) -> str:
        """Join what is said of a field; what does not hold for every kind says for which."""
        return ". ".join(
            text if len(names) == len(self.kinds) else f"{', '.join(names)}: {text}"
            for text, names in texts.items()
        )

    def flag(self, field: str) -> str:
        """Return the flag of a field."""
        return f"--{self.prefix}{field}".replace("_", "-")

    def place(self, field: str) -> str:
        """Return the parsed flags' attribute of a field."""
        return f"{self.prefix}{field}".replace("-", "_")

    def add_flags(self, group: Any) -> None:
        """Add one flag per field to an argument group."""
        for field, texts in self.fields().items():
            about = texts["help"].replace("%", "%%")
            shared: dict[str, Any] = {"dest": self.place(field), "default": None, "help": about}
            if texts["type"] == "bool":
                group.add_argument(
                    self.flag(field), action=argparse.BooleanOptionalAction, **shared
                )
            else:
                group.add_argument(
                    self.flag(field), metavar=_METAVARS.get(texts["type"], "X"), **shared
                )

    def given(self, args: argparse.Namespace, chosen: str) -> dict[str, Any]:
        """Return the values that flags gave for the spec of the chosen kind.

        Raises:
            ConfigError: for a flag that the chosen kind does not have, or a bad value.
        """
        types = {field.name: str(field.type) for field in dataclasses.fields(self.kinds[chosen])}
        values: dict[str, Any] = {}
        for name in self.fields():
            value = getattr(args, self.place(name))
            if value is None:
                continue
            if name not in types:
                raise ConfigError(self.flag(name), value, f"left out for {chosen}")
            values[name] = _typed(self.flag(name), types[name], value)
        return values

    def named(self) -> AbstractContextManager[None]:
        """Name fields in errors by their flags: trackers and learners share names of fields."""
        return flags_named({name: self.flag(name) for name in self.fields()})

    def first_given(self, args: argparse.Namespace) -> str | None:
        """Return the first flag of a field that was given."""
        given = [name for name in self.fields() if getattr(args, self.place(name)) is not None]
        return self.flag(given[0]) if given else None


TRACKER = Role("tracker", "", {name: found.spec_type for name, found in TRACKERS.items()})
LEARNER = Role("learner", "learner-", {name: found.spec_type for name, found in LEARNERS.items()})
DRIFT = Role("drift", "drift-", {"drift": DriftSpec})


def add_spec_flags(parser: argparse.ArgumentParser) -> None:
    """Add `--spec`, and the flags of tracker, learner and drift detector."""
    group = parser.add_argument_group(
        "tracker", "Values come from --spec, and these flags override it."
    )
    group.add_argument("--spec", metavar="FILE", help="YAML file with the specs' fields")
    group.add_argument(
        "--tracker",
        choices=sorted(TRACKERS),
        default=None,
        help=f"which tracker (default {DEFAULT_TRACKER})",
    )
    TRACKER.add_flags(group)
    group = parser.add_argument_group(
        "learner", "A learner on the features, of the label: predicts, then learns."
    )
    group.add_argument(
        "--learner",
        choices=[*LEARNERS, NONE],
        default=None,
        help="which learner (default: none, or that of the snapshots that the job begins from)",
    )
    LEARNER.add_flags(group)
    group = parser.add_argument_group("drift", "Alerts when the fitting error changes regime.")
    group.add_argument(
        "--drift", action="store_true", help="watch for it (needs the extra kerneltrack[drift])"
    )
    DRIFT.add_flags(group)


def tracker_from_flags(args: argparse.Namespace, before: SubspaceSpec | None) -> SubspaceSpec:
    """Build the tracker's spec.

    Args:
        args: The parsed flags.
        before: Spec of the snapshots that the job begins from, if it does.

    Raises:
        ConfigError: for a bad value, or a flag that the chosen tracker does not have.
        DataError: if the file cannot be read.
    """
    values = _values(args, TRACKER, before)
    chosen = parse_spec(_name(values, TRACKER)).tracker
    return parse_spec({**values, "tracker": chosen, **TRACKER.given(args, chosen)})


def learner_from_flags(args: argparse.Namespace, before: LearnerSpec | None) -> LearnerSpec | None:
    """Build the learner's spec, None without one; see `tracker_from_flags`."""
    values = _values(args, LEARNER, before)
    if not values or values.get(LEARNER.name) == NONE:
        stray = LEARNER.first_given(args)
        if stray is not None:
            raise ConfigError("--learner", NONE, f"one of {', '.join(LEARNERS)}: {stray} is given")
        return None
    chosen = parse_learner_spec(_name(values, LEARNER)).learner
    with LEARNER.named():
        return parse_learner_spec({**values, **LEARNER.given(args, chosen)})


def drift_from_flags(args: argparse.Namespace) -> DriftSpec | None:
    """Build the drift detector's spec, None without one; see `tracker_from_flags`."""
    values = _section(args, DRIFT)
    given = DRIFT.given(args, "drift")
    if not (args.drift or given or values):
        return None
    with DRIFT.named():
        return parse_drift_spec({**values, **given})


def _values(
    args: argparse.Namespace, role: Role, before: SubspaceSpec | LearnerSpec | None
) -> dict[str, Any]:
    """Return what the flags of fields override: the file's values, else those of the snapshots."""
    values, chosen = _section(args, role), getattr(args, role.name)
    if not values and before is not None:
        values = before.to_dict()
        if chosen not in (None, values[role.name]):
            # Another kind has other fields; that it is not the snapshots' is said in its place.
            values = {}
    return values if chosen is None else {**values, role.name: chosen}


def _name(values: dict[str, Any], role: Role) -> dict[str, Any]:
    """Return the one value that says which kind it is, if it is there."""
    return {name: value for name, value in values.items() if name == role.name}


def _section(args: argparse.Namespace, role: Role) -> dict[str, Any]:
    """Return a role's values from the YAML file."""
    if not args.spec:
        return {}
    values = _read_yaml(args.spec)
    parts = {name: values.pop(name) for name in (LEARNER.name, DRIFT.name) if name in values}
    if role is TRACKER:
        return values
    if role.name not in parts:
        return {}
    part = parts[role.name]
    if isinstance(part, str):
        return {role.name: part}
    if not isinstance(part, dict) or not part:
        raise DataError(args.spec, f"{role.name} must hold fields and values, or be a name")
    return part


class _Loader(yaml.SafeLoader):
    """YAML's plain types; a mapping holds a bounded number of fields.

    What is named once and used many times is not copied, except by the merge key: a few lines
    could make billions of fields.
    """

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge the mappings of "<<" into this one."""
        super().flatten_mapping(node)
        if len(node.value) > _MOST_FIELDS:
            raise yaml.YAMLError(f"over {_MOST_FIELDS} fields in one place")


def _read_yaml(path: str) -> dict[str, Any]:
    data = read_whole(path, _MOST_BYTES)
    try:
        values = yaml.load(data, _Loader)
    # What makes values of texts raises whatever it meets: ValueError for the 31st of June,
    # KeyError for a truth value that is none, RecursionError for what is nested too deeply.
    except Exception as error:
        raise DataError(path, f"not YAML: {one_line(error)}") from error
    if not isinstance(values, dict):
        raise DataError(path, "must hold fields and values (rank: 10)")
    return values


def _attribute_docs(kind: type) -> dict[str, str]:
    """Read the "Attributes:" of a Google docstring: name to text."""
    text = inspect.getdoc(kind) or ""
    block = text.partition("Attributes:\n")[2].partition("\n\n")[0]
    docs: dict[str, str] = {}
    name = ""
    for line in block.splitlines():
        start = re.match(r"^    (\w+): (.*)", line)
        if start:
            name = start[1]
            docs[name] = start[2]
        elif name:
            docs[name] += " " + line.strip()
    return {name: about.rstrip(".") for name, about in docs.items()}


def _typed(flag: str, kind: str, text: Any) -> Any:
    """Turn a flag's text into the field's type, as far as it can be."""
    if not isinstance(text, str):
        return text
    if "None" in kind and text.lower() in {"none", "null"}:
        return None
    readers: dict[str, tuple[Callable[[str], Any], str]] = {
        "int": (int, "an integer"),
        "float": (float, "a number"),
    }
    for name, (read, allowed) in readers.items():
        if kind.startswith(name):
            try:
                return read(text)
            except ValueError:
                if "str" in kind or text == AUTO:
                    return text  # the spec says whether the word will do
                raise ConfigError(flag, text, allowed) from None
    return text
