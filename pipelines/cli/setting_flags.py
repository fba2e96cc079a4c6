"""Flags made of settings: type, range and help are those of the field's annotation."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, TypeVar

from kerneltrack.settings import OneOf, Setting, Settings, settings_of

_S = TypeVar("_S", bound=Settings)
_METAVARS = {int: "N", float: "X", str: "NAME", tuple: "NAME"}


def help_of(setting: Setting) -> str:
    """Return what help says of a setting: what it is, its values, its default unless it is none."""
    default = setting.default
    if setting.kind is tuple and default:
        default = " ".join(map(repr, default))
    named = [setting.values] if setting.values else []
    if default not in (None, (), ""):
        named.append(f"default {default}")
    return f"{setting.about} ({'; '.join(named)})" if named else setting.about


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
        shared.pop("metavar", None)
        group.add_argument(flag, action=argparse.BooleanOptionalAction, **shared)
        return
    if setting.kind is tuple:
        shared["nargs"] = "*" if setting.default else "+"
    if "metavar" not in shared and isinstance(setting.limits, OneOf):
        names = ",".join(setting.limits.names)
        shared["metavar"] = f"{{{names}}}" if len(names) < 40 else "NAME"
    shared.setdefault("metavar", _METAVARS[setting.kind])
    group.add_argument(flag, **shared)


def add_flags_of(
    group: Any, kind: type[Settings], metavars: Mapping[str, str], abouts: Mapping[str, str]
) -> None:
    """Add the flags of all settings of a class.

    Args:
        group: Argument group or parser.
        kind: The class.
        metavars: What stands for the value of some, by field.
        abouts: The help of those that mean something else here, by field.
    """
    for name, setting in settings_of(kind).items():
        options = {"metavar": metavars[name]} if name in metavars else {}
        about = abouts.get(name) or help_of(setting)
        add_flag(group, setting, f"--{name}".replace("_", "-"), about, **options)


def from_flags(kind: type[_S], args: argparse.Namespace, **others: Any) -> _S:
    """Build settings from the flags that were given.

    Args:
        kind: The settings' class.
        args: The parsed flags; those of fields that are not there have their defaults.
        others: Fields that do not come from flags, or have other defaults.

    Raises:
        ConfigError: for a bad value.
    """
    given = dict(others)
    for name, setting in settings_of(kind).items():
        value = getattr(args, name, None)
        if value is not None:
            given[name] = tuple(value) if isinstance(value, list) else setting.read(value)
    return kind(**given)
