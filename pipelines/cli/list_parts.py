"""`kerneltrack list`: every tracker, learner, kernel and budget policy, with its paper.

All of it is read from the registries and from the docstrings of their modules: the first paragraph
says what a part is, the one that begins with "Reference" where it is from, and a table names the
choices there are.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import textwrap
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from kerneltrack import kernels
from kerneltrack.learners import LEARNERS
from kerneltrack.learners.kernel import bsgd
from kerneltrack.trackers import TRACKERS
from kerneltrack.trackers.doubly import random_features
from kerneltrack.trackers.okfeb import budget

WIDTH = 100
INDENT = "    "
CHOICES: tuple[tuple[str, ModuleType], ...] = (
    ("Kernels (--kernel; of the first two --learner-kernel)", kernels),
    ("Kernels of random features (--kernel, trackers dskpca and dspair)", random_features),
    ("Budget policies of okfeb (--policy)", budget),
    ("Budget policies of bsgd (--learner-maintenance)", bsgd),
)
"""Where the docstring of a module has a table of choices."""


def run(args: argparse.Namespace) -> int:
    """Print the list; the exit code is 0."""
    sys.stdout.write(describe() + "\n")
    return 0


def describe() -> str:
    """Return the list as text."""
    blocks = [
        _parts("Trackers (--tracker)", TRACKERS),
        _parts("Learners (--learner)", LEARNERS),
        *(_choices(title, module) for title, module in CHOICES),
    ]
    return "\n\n".join(blocks)


def paper_of(module: ModuleType) -> str:
    """Return what the docstring of a module says of its source, on one line."""
    found = re.search(r"^References?: (.*?)(?:\n\n|\Z)", _doc(module), re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""


def choices_of(module: ModuleType) -> dict[str, str]:
    """Return the first two columns of the table in a module's docstring, its heading first."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|", _doc(module), re.MULTILINE)
    return dict(rows)


def _parts(title: str, parts: Mapping[str, Any]) -> str:
    lines = [title]
    for name, part in parts.items():
        module = sys.modules[type(part).__module__]
        about = " ".join(_doc(module).partition("\n\n")[0].split())
        lines += [_wrapped(f"{name}: {about}", 1), _wrapped(paper_of(module), 2)]
    return "\n".join(lines)


def _choices(title: str, module: ModuleType) -> str:
    (_, heading), *choices = choices_of(module).items()
    lines = [_wrapped(f"{name}: {about}", 1) for name, about in choices]
    return "\n".join([f"{title}: {heading}", *lines, _wrapped(paper_of(module), 2)])


def _doc(module: ModuleType) -> str:
    return inspect.getdoc(module) or ""


def _wrapped(text: str, depth: int) -> str:
    indent = depth * INDENT
    return textwrap.fill(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
