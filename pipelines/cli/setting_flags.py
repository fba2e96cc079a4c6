"""Flags made of settings: type, range and help are those of the field's annotation."""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from kerneltrack.settings import OneOf, Setting, Settings, settings_of
from pipelines.cli.command_line import flags_named

_S = TypeVar("_S", bound=Settings)
_METAVARS = {int: "N", float: "X", str: "NAME", tuple: "NAME"}


def help_of(setting: Setting) -> str:
    """Return the help of a setting: its sentences, then values and default in brackets."""
    default = setting.default
    if setting.kind is tuple and default:
        default = " ".join(map(repr, default))
    named = [setting.values] if setting.values else []
    if default not in (None, (), ""):
        named.append(f"default {default}")
    # What Python calls None is typed as the word none.
    about = re.sub(r"\bNone\b", "none", setting.about)
    return f"{about}. [{'; '.join(named)}]" if named else f"{about}."


def with_flags(about: str, flags: Mapping[str, str]) -> str:
    """Return a help text whose settings in backquotes are called by their flags."""
    return re.sub(r"`(\w+)`", lambda found: flags.get(found[1], found[0]), about)


def add_flag(group: Any, setting: Setting, flag: str, about: str, **options: Any) -> None:
    """Add a setting's flag; its value stays a text, None where it was not given.

    Args:
        group: Argument group or parser.
        setting: The setting.
        flag: As `--max-jump`.
        about: Its help.
        options: More of argparse's, as `metavar`.
    """
    shared: dict[str, Any] = {"default": None, "help": about.replace("%", "%%"), **options}
    if setting.kind is bool:
        if setting.words:
            shared |= {"nargs": "?", "metavar": f"{{{','.join(setting.words)}}}"}
            group.add_argument(flag, action=_SwitchOrWord, **shared)
            return
        shared.pop("metavar", None)
        group.add_argument(flag, action=argparse.BooleanOptionalAction, **shared)
        return
    if setting.kind is tuple:
        # Given twice, none of its values is lost.
        shared |= {"nargs": "*" if setting.default else "+", "action": "extend"}
    if "metavar" not in shared and isinstance(setting.limits, OneOf):
        names = ",".join(setting.limits.names)
        shared["metavar"] = f"{{{names}}}" if len(names) < 40 else "NAME"
    shared.setdefault("metavar", "|".join([_METAVARS[setting.kind], *setting.words]))
    group.add_argument(flag, **shared)


class _SwitchOrWord(argparse.BooleanOptionalAction):
    """A switch that may take a word: `--flag`, `--flag WORD` and `--no-flag`."""

    def __init__(self, nargs: str, **options: Any) -> None:
        super().__init__(**options)
        self.nargs = nargs

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Keep the word that was given, else what the switch says."""
        negative = option_string is not None and option_string.startswith("--no-")
        if values is not None and negative:
            parser.error(f"argument {option_string}: takes no value")
        setattr(namespace, self.dest, values if values is not None else not negative)


@dataclasses.dataclass(frozen=True)
class FlagsOf(Generic[_S]):
    """The flags of a class of settings.

    Attributes:
        kind: The class.
        names: Flags of fields that are not called after them, by field.
        metavars: What stands for the value of some, by field.
    """

    kind: type[_S]
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    metavars: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def flag(self, field: str) -> str:
        """Return the flag of a field."""
        return self.names.get(field) or f"--{field}".replace("_", "-")

    def place(self, field: str) -> str:
        """Return the parsed flags' attribute of a field."""
        return self.flag(field).removeprefix("--").replace("-", "_")

    def add(self, group: Any, abouts: Mapping[str, str] | None = None, *without: str) -> None:
        """Add the flags.

        Args:
            group: Argument group or parser.
            abouts: The help of those that mean something else here, by field.
            without: Fields that have no flag here.
        """
        flags = {name: self.flag(name) for name in settings_of(self.kind)}
        for name, setting in settings_of(self.kind).items():
            if name not in without:
                options = {"metavar": self.metavars[name]} if name in self.metavars else {}
                about = " ".join(((abouts or {}).get(name) or help_of(setting)).split())
                about = with_flags(about, flags)
                add_flag(group, setting, self.flag(name), about, dest=self.place(name), **options)

    def read(self, args: argparse.Namespace, **others: Any) -> _S:
        """Build the settings from the flags that were given.

        Args:
            args: The parsed flags; fields whose flags are not there have their defaults.
            others: Fields that do not come from flags, or have other defaults.

        Raises:
            ConfigError: for a bad value, naming the flag.
        """
        given = dict(others)
        with flags_named(self.names):
            for name, setting in settings_of(self.kind).items():
                value = getattr(args, self.place(name), None)
                if value is not None:
                    given[name] = tuple(value) if isinstance(value, list) else setting.read(value)
            return self.kind(**given)
