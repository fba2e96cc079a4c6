"""`kerneltrack list`: every tracker, learner, kernel and budget policy, with its paper.

All of it is read from the registries, the settings and the docstrings of modules, which are not
imported: the first paragraph says what a part is, the one that begins with "Reference" where it is
from, and a table names the choices there are.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import inspect
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

from kerneltrack.errors import ConfigError
from kerneltrack.registry import LEARNERS, TRACKERS, Registry
from kerneltrack.settings import settings_of
from pipelines.cli.setting_flags import help_of
from pipelines.cli.spec_options import ROLES, Role

WIDTH = 100
INDENT = "    "
CHOICES = (
    ("Kernels (--kernel; of the first two --learner-kernel)", "kerneltrack.kernels"),
    (
        "Kernels of random features (--kernel, trackers dskpca and dspair)",
        "kerneltrack.trackers.doubly.random_features",
    ),
    ("Budget policies of okfeb (--policy)", "kerneltrack.trackers.okfeb.spec"),
    ("Budget policies of bsgd (--learner-maintenance)", "kerneltrack.learners.kernel.bsgd"),
)
"""Where the docstring of a module has a table of choices."""
MONITORS = {
    "drift": "kerneltrack.monitor.drift",
    "reference": "kerneltrack.monitor.reference",
    "periods": "kerneltrack.monitor.periods",
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags to a parser."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="Show this tracker or learner, with its settings."
    )


def run(args: argparse.Namespace) -> int:
    """Print the list; the exit code is 0.

    Raises:
        ConfigError: for a name that nothing has.
    """
    sys.stdout.write((describe() if args.name is None else describe_part(args.name)) + "\n")
    return 0


def describe() -> str:
    """Return the list as text."""
    blocks = [
        _parts("Trackers (--tracker)", TRACKERS),
        _parts("Learners (--learner)", LEARNERS),
        *(_choices(title, module) for title, module in CHOICES),
    ]
    return "\n\n".join(blocks)


def describe_part(name: str) -> str:
    """Return what a tracker, a learner or the drift detector is, and each of its settings.

    Raises:
        ConfigError: for a name that nothing has.
    """
    role = next((role for role in ROLES if name in role.kinds), None)
    if role is None:
        known = [name for role in ROLES for name in role.kinds]
        raise ConfigError("NAME", name, f"one of {', '.join(known)}")
    lines = [*_part(name, _module(role, name)), ""]
    for field, setting in settings_of(role.kinds[name]).items():
        lines += [_wrapped(role.flag(field), 1), _wrapped(help_of(setting), 2)]
    return "\n".join(lines)


def paper_of(module: str) -> str:
    """Return what the docstring of a module says of its source, on one line."""
    found = re.search(r"^References?: (.*?)(?:\n\n|\Z)", _doc(module), re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""


def choices_of(module: str) -> dict[str, str]:
    """Return the first two columns of the table in a module's docstring, its heading first."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|", _doc(module), re.MULTILINE)
    return dict(rows)


def _module(role: Role, name: str) -> str:
    registries: dict[str, Registry[Any, Any]] = {"tracker": TRACKERS, "learner": LEARNERS}
    if role.name in registries:
        return registries[role.name].module(name)
    return MONITORS[role.name]


def _parts(title: str, parts: Registry[Any, Any]) -> str:
    return "\n".join([title, *(line for name in parts for line in _part(name, parts.module(name)))])


def _part(name: str, module: str) -> list[str]:
    about = " ".join(_doc(module).partition("\n\n")[0].split())
    return [_wrapped(f"{name}: {about}", 1), _wrapped(paper_of(module), 2)]


def _choices(title: str, module: str) -> str:
    (_, heading), *choices = choices_of(module).items()
    lines = [_wrapped(f"{name}: {about}", 1) for name, about in choices]
    return "\n".join([f"{title}: {heading}", *lines, _wrapped(paper_of(module), 2)])


def _doc(module: str) -> str:
    """Return a module's docstring, from its source: importing it would load a compiler."""
    found = importlib.util.find_spec(module)
    source = Path(str(found and found.origin)).read_text(encoding="utf-8")
    return inspect.cleandoc(ast.get_docstring(ast.parse(source)) or "")


def _wrapped(text: str, depth: int) -> str:
    indent = depth * INDENT
    return textwrap.fill(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
