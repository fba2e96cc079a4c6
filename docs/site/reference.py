"""Pages of the site that are made from the code: flags, settings, schemas of files."""

from __future__ import annotations

import argparse
import html
import re
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from kerneltrack.learners.linear.spec import RidgeSpec
from kerneltrack.registry import LEARNERS, TRACKERS, Registry
from kerneltrack.settings import Setting, settings_of
from kerneltrack.trackers.okfeb.spec import OKFEBSpec
from pipelines.cli.list_parts import MONITORS, paper_of
from pipelines.cli.main import COMMANDS, parser_of
from pipelines.cli.spec_options import LANDMARKS, ROLES
from transforms.failures import FAILURE_SCHEMA
from transforms.outputs import FAILURES, OUTPUTS, Asked, Output
from transforms.track.order import Order

_TITLES = {"positional arguments": "", "options": ""}


def flags() -> str:
    """Return the page of all commands and their flags."""
    lines = [
        "# Commands and flags",
        "",
        "Made from the commands themselves: `kerneltrack COMMAND --help-all` says the same.",
    ]
    for name, command in COMMANDS.items():
        lines += ["", f"## kerneltrack {name}", "", _cell(command.about), ""]
        parser = _commands_of(parser_of(name))[name]
        lines += _flags_of(parser)
        for inner, its in _commands_of(parser).items():
            lines += ["", f"### kerneltrack {name} {inner}", ""]
            lines += [_cell(its.description or ""), "", *_flags_of(its)]
    return "\n".join(lines) + "\n"


def _commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of a parser's commands by their names."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def _flags_of(parser: argparse.ArgumentParser) -> list[str]:
    """Return how a command is called, and its flags by groups."""
    lines = ["```text", parser.usage, "```", ""] if parser.usage else []
    for group in parser._action_groups:
        shown = [each for each in group._group_actions if _is_shown(each)]
        if not shown:
            continue
        title = _TITLES.get(str(group.title), group.title)
        if title:
            lines += ["", f"**{_cell(str(title))}**", ""]
        if group.description:
            lines += [_cell(group.description), ""]
        head = "flag" if shown[0].option_strings else "argument"
        lines += [f"| {head} | |", "|---|---|", *(_flag(parser, each) for each in shown), ""]
    return lines


def _is_shown(action: argparse.Action) -> bool:
    hidden = action.help == argparse.SUPPRESS or action.dest in ("help", "help_all")
    return not hidden and not isinstance(action, argparse._SubParsersAction)


def _flag(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Return a flag's line."""
    formatter = parser.formatter_class(prog=parser.prog)
    value = formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
    if isinstance(action.metavar, str) and not action.option_strings:
        value = action.metavar
    shown = ", ".join(action.option_strings)
    shown = " ".join(part for part in (shown, value) if part)
    about = (action.help or "") % {"default": action.default, "prog": parser.prog}
    lines = "<br>".join(_cell(line) for line in about.split("\n"))
    return f"| {_code(shown)} | {lines} |"


def settings() -> str:
    """Return the page of all settings of trackers, learners and the rest."""
    lines = [
        "# Settings",
        "",
        "Fields of specs, in Python (`kt.OKFEBSpec(rank=10)`), in the file of `--spec`, and as "
        "flags. Made from the code: `kerneltrack list NAME` says the same.",
    ]
    for role in (*ROLES, LANDMARKS):
        lines += ["", f"## {role.name.capitalize()}", ""]
        for name, kind in role.kinds.items():
            lines += [f"### {name}", "", f"`{kind.__name__}`. {_paper(role.name, name)}", ""]
            lines += _settings_table(settings_of(kind).values(), role.flag)
    lines += ["", "## Order", "", "`Order`: how a model's rows are put in order.", ""]
    lines += _settings_table(settings_of(Order).values())
    return "\n".join(lines) + "\n"


def _paper(role: str, name: str) -> str:
    modules: dict[str, Registry[Any, Any]] = {"tracker": TRACKERS, "learner": LEARNERS}
    module = modules[role].module(name) if role in modules else MONITORS.get(role)
    return _cell(paper_of(module)) if module else ""


def _settings_table(
    found: Iterable[Setting], flag: Callable[[str], str] | None = None
) -> list[str]:
    lines = ["| field | default | values | |", "|---|---|---|---|"]
    for setting in found:
        name = _code(setting.name)
        if flag is not None:
            name += f"<br>{_code(flag(setting.name))}"
        lines.append(
            f"| {name} | {_code(str(setting.default))} | {_cell(setting.allowed)} | "
            f"{_cell(setting.about)} |"
        )
    return [*lines, ""]


_NOTES = {
    "features": "`ref_loss`, `ref_distance`, `ref_score`, `ref_settled` and `p` with "
    "`--reference`, `label` where rows have one, `q` and `s` with `--extras`.",
    "predictions": "Of classes; of targets `prediction`, `label` and `error`, all numbers.",
    "scored": "Of classes; of targets as in `predictions`.",
    "metrics": "Of classes; of targets `rmse`, `mae`, `running_rmse`.",
    "episodes": "`shares` and `deviations` have a number a channel, here six.",
    "devices": "`shares` and `deviations` have a number a channel, here six.",
    "failures": "`source` is the file's path in what jobs write. The topic has the messages "
    "themselves, with the reason as a header.",
}


def schemas() -> str:
    """Return the page of the columns of all files and messages that jobs write."""
    asked = Asked(OKFEBSpec(), True, 6, pa.string(), reference=True, learner=RidgeSpec())
    lines = [
        "# Columns of the outputs",
        "",
        "Parquet files of `kerneltrack track` and `kerneltrack score`, a folder for each output, "
        "and messages of `kerneltrack stream`, which have the message's place instead of `source` "
        "and `row`. `time` and its like are left out where rows have none. Made from the code.",
    ]
    for output in OUTPUTS:
        if output.columns is not None:
            lines += _output(output, output.columns(asked))
        elif output.name == FAILURES:
            lines += _output(output, FAILURE_SCHEMA)
    return "\n".join(lines) + "\n"


def _output(output: Output, schema: pa.Schema) -> list[str]:
    """Return what the page has of an output."""
    places = [f"folder `{output.name}/`"] if output.folder else []
    places += [f"topic `OUTPUT-{output.topic}`"] if output.has_named_topic else []
    about = f"{output.about[0].upper()}{output.about[1:]} ({', '.join(places) or 'a topic'})."
    lines = ["", f"## {output.name}", "", f"{about} {_NOTES.get(output.name, '')}".strip(), ""]
    lines += ["| column | type |", "|---|---|"]
    return lines + [f"| {_code(field.name)} | {_code(str(field.type))} |" for field in schema]


def _code(text: str) -> str:
    """Return a text as code in a table's cell."""
    shown = html.escape(re.sub(r"\s+", " ", text), quote=False).replace("|", "&#124;")
    return f"<code>{shown}</code>"


def _cell(text: str) -> str:
    """Return a text for a table's cell as it reads: only what stands in backticks is code."""
    parts = re.sub(r"\s+", " ", text).strip().split("`")
    if len(parts) % 2 == 0:
        parts = ["\\`".join(parts)]
    for place in range(0, len(parts), 2):
        for mark, instead in _ESCAPED.items():
            parts[place] = parts[place].replace(mark, instead)
    return "`".join(parts).replace("|", "\\|")


_ESCAPED = {
    "<": "&lt;",
    ">": "&gt;",
    **{mark: f"\\{mark}" for mark in "*_[]"},
}
