"""Command-line flags of the specs: one flag per field of trackers, learners and drift detectors.

Values come from the YAML file of `--spec`, in which `learner:` and `drift:` are sections of their
own, or from the snapshots that the job begins from; flags override them.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from kerneltrack.batch.landmark_spec import LandmarkSpec
from kerneltrack.errors import ConfigError, DataError
from kerneltrack.learners import AutoSpec, LearnerSpec
from kerneltrack.learners.common.usual import usual_inputs
from kerneltrack.monitor.condition import FIELD, Condition
from kerneltrack.monitor.drift import DriftSpec, parse_drift_spec
from kerneltrack.monitor.periods.spec import LENGTHS, PeriodsSpec
from kerneltrack.monitor.reference import LEARNINGS, ReferenceSpec
from kerneltrack.monitor.reference.spec import SPANS
from kerneltrack.paths import is_local
from kerneltrack.registry import LEARNERS, TRACKERS, parse_learner_spec, parse_spec
from kerneltrack.settings import Setting, settings_of
from kerneltrack.specs import Spec, spec_from_dict
from kerneltrack.trackers.common.spec import SubspaceSpec
from pipelines.cli.command_line import flags_named, path_name
from pipelines.cli.setting_flags import add_flag, help_of, with_flags

if TYPE_CHECKING:
    from transforms.read.columns import Columns

NONE = "none"
RULES = "rules"
"""Section of the YAML file with rules, and the flag of a file of them."""
FEEDBACK = "feedback"
"""The same of what people said of episodes."""


@dataclasses.dataclass(frozen=True)
class Role:
    """A kind of spec on the command line.

    Attributes:
        name: "tracker", "learner" or "drift": the flag that chooses one, the section of the YAML
            file.
        prefix: What the names of its other flags begin with.
        kinds: The specs' classes by name.
        without: Fields that the flag of the role's own name gives.
        plain: Fields whose flags have no prefix.
        files: What reads the file that a field's flag names.
        metavars: The form of the values of some flags, by field.
    """

    name: str
    prefix: str
    kinds: Mapping[str, type[Spec]]
    without: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()
    files: Mapping[str, Callable[[str], Any]] = dataclasses.field(default_factory=dict)
    metavars: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def fields(self) -> dict[str, dict[str, Setting]]:
        """The settings of each field, by the kinds that have it."""
        found: dict[str, dict[str, Setting]] = {}
        for name, kind in self.kinds.items():
            for field, setting in settings_of(kind).items():
                if field not in self.without:
                    found.setdefault(field, {})[name] = setting
        return found

    def flag(self, field: str) -> str:
        """Return the flag of a field."""
        if field in self.without:
            return f"--{self.name}"
        if field in self.plain:
            return f"--{field}".replace("_", "-")
        return f"--{self.prefix}{field}".replace("_", "-")

    def place(self, field: str) -> str:
        """Return the parsed flags' attribute of a field."""
        return f"{self.prefix}{field}".replace("-", "_")

    def add_flags(self, group: Any) -> None:
        """Add one flag per field to an argument group."""
        flags = {field: self.flag(field) for field in self.fields}
        for field, settings in self.fields.items():
            texts: dict[str, list[str]] = {}
            for name, setting in settings.items():
                texts.setdefault(with_flags(help_of(setting), flags), []).append(name)
            about = "\n".join(
                text if len(names) == len(self.kinds) else f"{', '.join(names)}: {text}"
                for text, names in texts.items()
            )
            if field in self.files:
                about = about.replace("%", "%%")
                dest = self.place(field)
                group.add_argument(self.flag(field), metavar="FILE", dest=dest, help=about)
                continue
            add_flag(
                group,
                next(iter(settings.values())),
                self.flag(field),
                about,
                dest=self.place(field),
                **({"metavar": self.metavars[field]} if field in self.metavars else {}),
            )

    def given(self, args: argparse.Namespace, chosen: str) -> dict[str, Any]:
        """Return the values that flags gave for the spec of the chosen kind.

        Raises:
            ConfigError: for a flag that the chosen kind does not have, or a bad value.
        """
        values: dict[str, Any] = {}
        for name, settings in self.fields.items():
            value = getattr(args, self.place(name))
            if value is None:
                continue
            if chosen not in settings:
                raise ConfigError(self.flag(name), value, f"left out for {chosen}")
            with self.named():
                read: Callable[[str], Any] = self.files.get(name, settings[chosen].read)
                values[name] = read(value)
        return values

    def named(self) -> AbstractContextManager[None]:
        """Name fields in errors by their flags: trackers and learners share names of fields."""
        return flags_named({name: self.flag(name) for name in self.fields})

    def first_given(self, args: argparse.Namespace) -> str | None:
        """Return the first flag of a field that was given."""
        given = [name for name in self.fields if getattr(args, self.place(name)) is not None]
        return self.flag(given[0]) if given else None


def _read_costs(path: str) -> Any:
    """Return the costs in a file; see `read_costs`, which needs NumPy, as no help does."""
    from pipelines.cli.costs_file import read_costs  # noqa: PLC0415

    return read_costs(path)


TRACKER = Role("tracker", "", {name: TRACKERS.spec_type(name) for name in TRACKERS})
LEARNER = Role(
    "learner",
    "learner-",
    {name: LEARNERS.spec_type(name) for name in LEARNERS},
    plain=("inputs", "intervals", "class_weight", "costs"),
    files={"costs": _read_costs},
)
DRIFT = Role("drift", "drift-", {"drift": DriftSpec})
REFERENCE = Role(
    "reference",
    "reference-",
    {"reference": ReferenceSpec},
    ("learning",),
    ("causes", "mode", "only_while"),
    metavars={
        **dict.fromkeys(("memory", "per"), "ROWS|DURATION"),
        **{
            "until": "TIME",
            "zone": "ZONE",
            "causes": "CHANNEL",
            "mode": "COLUMN",
            "only_while": "CONDITION",
            "gap": "DURATION|none",
            **dict.fromkeys(SPANS, "DURATION|none"),
        },
    },
)
PERIODS = Role("periods", "periods-", {"periods": PeriodsSpec}, ("length",))
LANDMARKS = Role("landmarks", "", {"landmarks": LandmarkSpec})
ROLES = (TRACKER, LEARNER, DRIFT, REFERENCE, PERIODS)


def add_spec_flags(parser: argparse.ArgumentParser) -> None:
    """Add `--spec`, and the flags of tracker, learner and drift detector."""
    group = parser.add_argument_group(
        "reference", "Which device is off, since when, in which channels?"
    )
    group.add_argument(
        "--reference",
        metavar="{first,gated,auto,FILE,none}",
        help="Find devices that are off, by this reference. Rows are compared with what is normal. "
        '"first": its first rows. "gated": its first rows, updated with later rows that are not '
        'odd. "auto": its last days, for weeks on a site with shifts, weather and ageing. FILE: '
        "the references of another run: its folder snapshots/, or a file in it. "
        "[default none]",
    )
    REFERENCE.add_flags(group)
    group = parser.add_argument_group(
        "tracker", "The algorithm that keeps each device's subspace. Flags override --spec."
    )
    group.add_argument("--spec", metavar="FILE", help="Read settings from this YAML file.")
    group.add_argument(
        "--tracker",
        choices=sorted(TRACKERS),
        help=f"Choose the tracker. [default {TRACKERS.default}]",
    )
    TRACKER.add_flags(group)
    group = parser.add_argument_group("learner", "Predicts each row's label, then learns it.")
    group.add_argument(
        "--learner",
        nargs="?",
        choices=[*LEARNERS, NONE],
        const=LEARNERS.default,
        help=f"Choose the learner; {LEARNERS.default} without a name. [default: the learner of "
        f"--warm-start; {LEARNERS.default} with delayed labels; otherwise none]",
    )
    LEARNER.add_flags(group)
    group = parser.add_argument_group(
        "drift", "Alerts when the level of the fitting error changes."
    )
    group.add_argument(
        "--drift",
        action="store_true",
        help="Alert when a model's fit to its rows changes.",
    )
    DRIFT.add_flags(group)


def add_period_flags(parser: argparse.ArgumentParser, about: str) -> Any:
    """Add the flags of periods to a parser, and return their group; `about`: what they do."""
    group = parser.add_argument_group(
        "periods",
        "Which devices differ, by day, from their own past and from the fleet?",
    )
    group.add_argument("--periods", choices=(*LENGTHS, NONE), help=f"{about} [default none]")
    PERIODS.add_flags(group)
    return group


def add_fleet_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the fleet to a parser: of periods and what only jobs on files have."""
    group = add_period_flags(
        parser,
        "Compare each day of a device with its own past, and with the same day of the fleet.",
    )
    group.add_argument(
        "--group",
        metavar="COLUMN",
        help="Compare devices only within the same site or kind, given by this column, and look "
        "for incidents in each, too. [default: all devices are one fleet]",
    )
    group = parser.add_argument_group("fleet", "Which of the devices that are off are surely so?")
    group.add_argument(
        "--fleet-false-share",
        type=float,
        metavar="SHARE",
        help="List devices that were off so that at most this share of the list is false on "
        "average, as far as each device keeps the stated rate of false alarms "
        "(--reference-false-alarms). The share is above 0 and below 1. [default: no list]",
    )
    add_rule_flags(parser)
    others = parser.add_argument_group("quiet times and silent devices")
    add_quiet_flag(others)
    add_silent_flag(
        others, "Find devices without a row for longer than this, within the input and at its end."
    )


def add_silent_flag(group: Any, about: str) -> None:
    """Add the flag of silent devices to a group; `about`: what it does, as a sentence."""
    group.add_argument(
        "--silent-after",
        metavar="DURATION|auto",
        help=f'{about} "auto": twice the third longest gap between a device\'s rows, but at '
        "least twenty usual gaps. [default: none]",
    )


def add_rule_flags(parser: argparse.ArgumentParser, devices: str = "device or group") -> None:
    """Add the flags of rules to a parser; `devices`: what the file's lines may name."""
    group = parser.add_argument_group(
        "rules and feedback",
        "Which episodes count? Others are muted: written, but their devices are not off.",
    )
    group.add_argument(
        "--direction",
        nargs="+",
        action="extend",
        metavar="CHANNEL=up|down",
        help="Let this channel count only while it is above what is usual (up), or below (down). "
        "An episode is muted while channels that do not count explain more than half of it.",
    )
    group.add_argument(
        "--least-deviation",
        nargs="+",
        action="extend",
        metavar="CHANNEL=VALUE",
        help="Let this channel count only from this distance from what is usual on, in its own "
        "unit.",
    )
    group.add_argument(
        "--rules",
        type=path_name,
        metavar="FILE",
        help=f"Take such rules from a file, CSV or YAML with {devices} (neither: all devices), "
        "channel, direction and least_deviation. A device's own rule for a channel comes before "
        "others.",
    )
    group.add_argument(
        "--feedback",
        type=path_name,
        metavar="FILE",
        help="Mute episodes that are like one that is marked as false in this file, from a moment "
        "of event time on. `kerneltrack feedback` writes it.",
    )


def add_quiet_flag(group: Any) -> None:
    """Add the flag of quiet times to a group."""
    group.add_argument(
        "--quiet",
        type=path_name,
        metavar="FILE",
        help="Do not judge rows of the times in this file, such as maintenance: CSV or YAML with "
        "device (* for all) or group, from, to and why. They are tracked, but not compared with "
        "the reference, nor learned by it.",
    )


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


def learner_from_flags(
    args: argparse.Namespace,
    before: LearnerSpec | None,
    tracker: SubspaceSpec,
    delayed: bool = False,
) -> LearnerSpec | None:
    """Build the learner's spec, None without one; see `tracker_from_flags`.

    Args:
        args: The parsed flags.
        before: Spec of the snapshots that the job begins from, if it does.
        tracker: The job's.
        delayed: Whether labels come delayed: they ask for a learner, and the last one is old.
    """
    values = _values(args, LEARNER, before)
    if not values and delayed:
        values = {LEARNER.name: LEARNERS.default}
    if not values or values.get(LEARNER.name) == NONE:
        stray = LEARNER.first_given(args)
        if stray is not None:
            raise ConfigError("--learner", NONE, f"one of {', '.join(LEARNERS)}: {stray} is given")
        return None
    chosen = parse_learner_spec(_name(values, LEARNER)).learner
    with LEARNER.named():
        given = {**values, LEARNER.name: chosen, **LEARNER.given(args, chosen)}
        return parse_learner_spec({**_by_the_job(chosen, tracker, delayed, before), **given})


def _by_the_job(
    learner: str, tracker: SubspaceSpec, delayed: bool, before: LearnerSpec | None
) -> dict[str, Any]:
    """Return settings of a learner that follow from the job, where nothing says them."""
    kind = LEARNERS.spec_type(learner)
    if before is not None and before.learner == learner:
        kept = before.to_dict()
        return {name: kept[name] for name in ("inputs", "last_label") if name in kept}
    more = {"last_label": False} if delayed and issubclass(kind, AutoSpec) else {}
    return {"inputs": usual_inputs(kind, tracker), **more}


def drift_from_flags(args: argparse.Namespace) -> DriftSpec | None:
    """Build the drift detector's spec, None without one; see `tracker_from_flags`."""
    values = _section(args, DRIFT)
    given = DRIFT.given(args, "drift")
    if not (args.drift or given or values):
        return None
    with DRIFT.named():
        return parse_drift_spec({**values, **given})


def periods_from_flags(args: argparse.Namespace) -> PeriodsSpec | None:
    """Build the spec of the verdict by period, None without one; see `tracker_from_flags`."""
    if not hasattr(args, PERIODS.name):
        return None
    values = _section(args, PERIODS)
    length = args.periods or values.pop(PERIODS.name, None) or values.get("length")
    if length in (None, NONE):
        stray = PERIODS.first_given(args)
        group = getattr(args, "group", None)
        if group is not None and args.quiet is None and not _has_reference(args):
            allowed = "left out without --periods, --quiet or --reference"
            raise ConfigError("--group", group, allowed)
        if stray is not None:
            raise ConfigError("--periods", length, f"one of {', '.join(LENGTHS)}: {stray} is given")
        return None
    with PERIODS.named():
        given = {**values, "length": length, **PERIODS.given(args, PERIODS.name)}
        return spec_from_dict(PeriodsSpec, given)


def reference_place(args: argparse.Namespace) -> str | None:
    """Return where the references are that rows are held against, None if models make their own.

    Raises:
        ConfigError: for what is neither a way to make one nor there.
    """
    place = _reference_word(args)
    if place is None or place in (*LEARNINGS, NONE):
        return None
    if is_local(place) and not os.path.exists(place):
        allowed = f"one of {', '.join((*LEARNINGS, NONE))}, or snapshots that are there"
        raise ConfigError("--reference", place, allowed)
    return place


def mode_from_flags(args: argparse.Namespace) -> str | None:
    """Return the column that says modes, None where none does."""
    given = getattr(args, REFERENCE.place("mode"), None)
    if given is None and getattr(args, "spec", None) is not None:
        given = _section(args, REFERENCE).get("mode")
    return given if isinstance(given, str) else None


def condition_from_flags(args: argparse.Namespace) -> Condition | None:
    """Return the condition while which rows are judged, None without one.

    Raises:
        ConfigError: with the place of what is wrong.
    """
    given = getattr(args, REFERENCE.place(FIELD), None)
    if given is None and getattr(args, "spec", None) is not None:
        given = _section(args, REFERENCE).get(FIELD)
    with REFERENCE.named():
        return None if given is None else Condition(given)


def _has_reference(args: argparse.Namespace) -> bool:
    chosen = _reference_word(args)
    return chosen != NONE and bool(chosen or _section(args, REFERENCE))


def reference_from_flags(
    args: argparse.Namespace, before: ReferenceSpec | None, columns: Columns
) -> ReferenceSpec | None:
    """Build the reference's spec, None without one; see `tracker_from_flags`.

    `before` is that of the references at `reference_place`, if they are given; `columns` has the
    channels that it names, and the zone of times that name none.
    """
    values, given = _section(args, REFERENCE), REFERENCE.given(args, "reference")
    chosen = _reference_word(args)
    if chosen == NONE or not (chosen or given or values):
        stray = REFERENCE.first_given(args)
        if stray is not None:
            allowed = f"one of {', '.join(LEARNINGS)}: {stray} is given"
            raise ConfigError("--reference", NONE, allowed)
        return None
    if before is not None:
        values = {**before.to_dict(), **values}
    elif chosen is not None:
        values = {**values, "learning": chosen}
    with REFERENCE.named():
        spec = spec_from_dict(ReferenceSpec, {**values, **given})
        spec = spec.placed(columns.channels, columns.words, columns.unseen)
        if before is not None or not spec.moves or "zone" in values or "zone" in given:
            return spec
        return dataclasses.replace(spec, zone=columns.options.time_zone)


def says_what_is_judged(args: argparse.Namespace) -> bool:
    """Check whether flags or the file say by which rows a reference judges."""
    section = _section(args, REFERENCE)
    return any(getattr(args, REFERENCE.place(n)) is not None or n in section for n in SPANS)


def _reference_word(args: argparse.Namespace) -> str | None:
    """Return what `--reference` says, or the file's `reference:`, None if neither says anything."""
    word = args.reference or _section(args, REFERENCE).get(REFERENCE.name)
    if word is not None and not isinstance(word, str):
        raise ConfigError("--reference", word, "a text")
    return word


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
    # Reading YAML takes a tenth of what a command without takes.
    from pipelines.cli.spec_file import read_spec_file  # noqa: PLC0415

    values = read_spec_file(args.spec)
    sections = [LEARNER.name, DRIFT.name, REFERENCE.name]
    # A job that has no such flag refuses the section.
    sections += [name for name in (PERIODS.name, RULES, FEEDBACK) if hasattr(args, name)]
    parts = {name: values.pop(name) for name in sections if name in values}
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
