"""The pages' code runs, and their links lead somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from pipelines.cli.command_line import flags_of
from pipelines.cli.main import COMMANDS as PROGRAMS
from pipelines.cli.main import main, parser_of, read

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("benchmarks", "deploy", "docs")
PAGES = sorted([*ROOT.glob("*.md"), *(p for name in FOLDERS for p in ROOT.glob(f"{name}/**/*.md"))])
RUN = (
    "README.md",
    "docs/beam.md",
    "docs/coming_from.md",
    "docs/detection.md",
    "docs/export.md",
    "docs/notify.md",
    "docs/off.md",
    "docs/python.md",
    "docs/recipes.md",
    "docs/sklearn.md",
    "docs/tutorials/notebook.md",
    "docs/tutorials/report.md",
)
# Needs a Kafka: tests/e2e/test_dead_letters.py runs it.
LIVE = ("docs/messages.md",)
# Pages whose commands are run with their code, in a folder of their own.
COMMANDS = (
    "docs/coming_from.md",
    "docs/export.md",
    "docs/notify.md",
    "docs/off.md",
    "docs/recipes.md",
    "docs/tutorials/report.md",
)
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
_STEP = re.compile(r"^```(python|sh)\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.M | re.S)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.M)


def blocks(page: str) -> list[str]:
    return _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


class Step(NamedTuple):
    """A block of a page: `python` or `sh`, what it runs, and what the page says that it prints."""

    kind: str
    text: str
    printed: str


def steps(page: str) -> list[Step]:
    """A page's code in its order, and, where they are to be run, its commands."""
    found = [Step(*each) for each in _STEP.findall((ROOT / page).read_text(encoding="utf-8"))]
    return [each for each in found if each.kind == "python" or page in COMMANDS]


@pytest.mark.parametrize("page", RUN)
def test_code_of_a_page_runs_from_top_to_bottom(
    page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    if page in COMMANDS:
        monkeypatch.chdir(tmp_path)
        for name in ("examples", "samples"):
            (tmp_path / name).symlink_to(ROOT / name)
    names: dict[str, Any] = {}
    if page == "docs/detection.md":
        names["rows"] = np.random.default_rng(0).normal(size=(2000, 4))
    for number, step in enumerate(steps(page)):
        if step.kind == "python":
            exec(compile(step.text, f"{page}, block {number}", "exec"), names)
        else:
            run_commands(step.text)
        output = capfd.readouterr()
        printed = {line.strip() for text in output for line in text.splitlines()}
        shown = {line.strip() for line in step.printed.splitlines()} - {"", "..."}
        assert shown <= printed, (step.text, shown - printed)


def run_commands(text: str) -> None:
    for line in text.splitlines():
        program, *arguments = shlex.split(line)
        if program == "python":
            subprocess.run([sys.executable, *arguments], check=True)
        else:
            assert (program, main(arguments)) == ("kerneltrack", 0), line


def test_every_page_with_code_is_run() -> None:
    with_code = {
        page.relative_to(ROOT).as_posix() for page in PAGES if _BLOCK.search(page.read_text())
    }
    assert with_code == {page for page in (*RUN, *LIVE) if blocks(page)}


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives headings."""
    found = _HEADING.findall(page.read_text(encoding="utf-8"))
    kept = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in found]
    return {heading.replace(" ", "-") for heading in kept}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page if not name else page.parent / name
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def shown_code() -> str:
    """All code of the pages, in blocks and in lines."""
    found = [
        part for page in PAGES for part in re.findall(r"```.*?```|`[^`]+`", page.read_text(), re.S)
    ]
    return "\n".join(found)


@pytest.mark.parametrize("command", PROGRAMS)
def test_every_flag_has_an_example(command: str) -> None:
    code = shown_code()
    flags = [flag for flag in flags_of(parser_of(command)) if re.match(r"--(?!no-|help)", flag)]
    missing = [
        flag
        for flag in flags
        if not re.search(rf"{re.escape(flag)}(?![\w-])", code)
        and not re.search(rf"--no-{re.escape(flag[2:])}(?![\w-])", code)
    ]
    assert missing == []


def test_the_examples_of_flags_are_read() -> None:
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    lines = re.findall(r"^kerneltrack .*$", page, re.M)
    assert len(lines) > 20
    for line in lines:
        _, args, rest = read(shlex.split(line)[1:])
        assert args.command == line.split()[1] and rest == [], line


def test_the_glossary_has_each_word_once() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"\*\*([^*]+)\*\*", page)
    assert len(words) > 50
    assert sorted({word.lower() for word in words}) == sorted(word.lower() for word in words)
