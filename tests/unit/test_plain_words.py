"""Texts that users meet keep to plain words: words and openings that must not come back."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import kerneltrack
import transforms
from docs.site import api
from pipelines.cli.main import COMMANDS, GROUPS, parser_of

ROOT = Path(__file__).resolve().parents[2]
CODE = [
    path
    for name in ("kerneltrack", "transforms", "pipelines")
    for path in ROOT.glob(f"{name}/**/*.py")
]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("deploy/**/*.md"),
]
BANNED = re.compile(
    r"\b(told|said|beside|wild clocks?|as ever|at hand|likelier|made anew|that which|it may take"
    r"|unless told|goes on telling|says of|tells of|anew|held against|reckon(?:s|ed)?|at the least"
    r"|cannot be looked at|were looked at)\b",
    re.I,
)
"""Words with a plain equivalent: reported or printed, next to, wrong clock, available, rebuilt."""
OPENING = re.compile(r"(?:^|[.;:] )(?:[Oo]f|That which|What is|What are) [^.?:]*?[.;]")
"""A sentence that opens with "Of ..." or with a clause as its subject."""


def problems(text: str) -> list[str]:
    """Return what a text has of banned words and openings."""
    return [found[0].strip() for found in (*BANNED.finditer(text), *OPENING.finditer(text))]


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


def options_of(command: str) -> list[tuple[str, argparse.Action]]:
    """A command's flags and arguments, with the text that its full help shows for each."""
    found = []
    top = next(a for a in parser_of(command)._actions if isinstance(a, argparse._SubParsersAction))
    for parser in parsers(top.choices[command]):
        for action in parser._actions:
            if action.help != argparse.SUPPRESS and not action.dest == "action":
                found.append(("/".join(action.option_strings) or str(action.metavar), action))
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_flag_is_a_sentence(command: str) -> None:
    """Each line begins a sentence, perhaps after names of algorithms, and ends one."""
    for name, action in options_of(command):
        assert action.help, name
        for line in action.help.split("\n"):
            about = re.sub(r"^[a-z]+(, [a-z]+)*: ", "", line)
            assert re.match(r"[A-Z\"]", about), (name, about)
            assert re.search(r"(\.|\])$", about), (name, about)
            assert re.search(r"[.](?: \[[^\]]+.*\])?$", about), (name, about)
            assert len(about.split()) > 1, (name, about)
            assert problems(about) == [], (name, about)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_metavar_is_the_form_of_the_value(command: str) -> None:
    for name, action in options_of(command):
        if action.metavar is not None:
            assert re.match(r"[A-Z{]", str(action.metavar)), (name, action.metavar)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_what_it_does_in_a_sentence(command: str) -> None:
    about = COMMANDS[command].about
    assert re.fullmatch(r"[A-Z][a-z]+,? .*[^.]\.", about)
    assert problems(about) == []


def test_every_command_is_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_keeps_to_plain_words(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    lines = re.sub(r"`[^`\n]*`", "x", text).splitlines()
    cells = [cell.strip() for line in lines for cell in re.split(r" ?\| ?|^[-*] |^#+ ", line)]
    found = {cell: problems(cell) for cell in cells}
    assert {cell: named for cell, named in found.items() if named} == {}


@cache
def texts(path: Path) -> list[str]:
    """The strings of a module that are no docstrings."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [
        " ".join(node.value.split())
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]


def test_messages_keep_to_plain_words() -> None:
    spoken = [(path, text) for path in CODE for text in texts(path) if " " in text]
    assert [(path, text) for path, text in spoken if BANNED.search(text)] == []


@pytest.mark.parametrize("package", [kerneltrack, transforms], ids=lambda each: each.__name__)
def test_docstrings_of_public_names_begin_plainly(package: ModuleType) -> None:
    """The first line says what a thing is or does: it is what help and the API's pages show."""
    first = {
        name: (inspect.getdoc(getattr(package, name)) or "").partition("\n")[0]
        for name in dir(package)
        if callable(getattr(package, name))
    }
    assert {name: line for name, line in first.items() if problems(line)} == {}


def documented(name: str) -> Iterator[tuple[str, str]]:
    """The docstrings that the page of a class or function shows."""
    module, _, attribute = name.rpartition(".")
    found = getattr(importlib.import_module(module), attribute)
    yield name, inspect.getdoc(found) or ""
    for inner, value in vars(found).items() if inspect.isclass(found) else ():
        if not inner.startswith("_") and (callable(value) or isinstance(value, property)):
            yield f"{name}.{inner}", inspect.getdoc(value) or ""


@pytest.mark.parametrize("name", [name for names in api.GROUPS.values() for name in names])
def test_pages_of_the_api_keep_to_plain_words(name: str) -> None:
    found = {where: BANNED.findall(text) for where, text in documented(name)}
    assert {where: words for where, words in found.items() if words} == {}


def test_troubleshooting_quotes_messages_that_exist() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    known = [text for path in CODE for text in texts(path)]
    quoted = [
        message
        for cell in re.findall(r"^\| (`[^|]*?) \|", page, re.M)
        for message in re.findall(r"`([^`]+)`", cell)
    ]
    assert len(quoted) > 20
    assert [each for each in quoted if not any(each in text for text in known)] == []


@pytest.mark.parametrize(
    "text", ["Of Kafka.", "Lines. Of each was compared.", "It was said.", "What is wrong is told."]
)
def test_the_rule_finds_what_it_forbids(text: str) -> None:
    assert problems(text)
