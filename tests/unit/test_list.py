"""`kerneltrack list`: all parts there are, each with a line of its own and its source."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest

from kerneltrack.learners.kernel.spec import MAINTENANCE
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.registry import LEARNERS, TRACKERS, Registry
from kerneltrack.settings import settings_of
from kerneltrack.specs import KERNELS
from kerneltrack.trackers.doubly.spec import FEATURE_KERNELS
from kerneltrack.trackers.okfeb.spec import POLICIES
from pipelines.cli.list_parts import CHOICES, choices_of, paper_of
from pipelines.cli.main import main
from pipelines.cli.spec_options import LEARNER

PARTS: tuple[Registry[Any, Any], ...] = (TRACKERS, LEARNERS)
NAMES = dict(
    zip(
        [module for _, module in CHOICES],
        [KERNELS, FEATURE_KERNELS, POLICIES, MAINTENANCE],
        strict=True,
    )
)


def test_every_part_has_a_line_and_a_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    reported = capsys.readouterr().out
    assert max(map(len, reported.splitlines())) <= 100
    blocks = reported.rstrip("\n").split("\n\n")
    for block, registry in zip(blocks[:2], PARTS, strict=True):
        assert re.findall(r"^    (\w+): ", block, re.MULTILINE) == list(registry)
        flat = " ".join(block.split())
        for name in registry:
            module = importlib.import_module(registry.module(name))
            assert paper_of(registry.module(name)) in flat
            assert " ".join(str(module.__doc__).partition("\n\n")[0].split()) in flat
    assert len(blocks) == 2 + len(CHOICES)
    for block, (title, choices) in zip(blocks[2:], CHOICES, strict=True):
        assert block.startswith(title)
        flat = " ".join(block.split())
        listed = list(choices_of(choices).items())[1:]
        assert all(f"{name}: {text}" in flat for name, text in listed)
        assert paper_of(choices) in flat


@pytest.mark.parametrize("module", NAMES)
def test_a_modules_table_names_its_choices(module: str) -> None:
    listed = list(choices_of(module).items())[1:]
    names = [name for cell, _ in listed for name in cell.split(", ")]
    assert names == list(NAMES[module])
    assert all(text for _, text in listed)


@pytest.mark.parametrize("name", [*TRACKERS, *LEARNERS])
def test_every_module_names_its_source(name: str) -> None:
    registry = next(registry for registry in PARTS if name in registry)
    source = paper_of(registry.module(name))
    assert re.search(r"\b(19|20)\d\d\b", source) or (
        name == "rows" and source.startswith("no paper")
    )


@pytest.mark.parametrize("name", [*TRACKERS, *LEARNERS, "drift"])
def test_a_part_has_its_settings_with_range_and_default(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", name]) == 0
    reported = capsys.readouterr().out
    assert reported.startswith(f"    {name}: ")
    registry = next((registry for registry in PARTS if name in registry), None)
    kind = DriftSpec if registry is None else registry.spec_type(name)
    prefix = "drift-" if registry is None else "" if registry is TRACKERS else "learner-"
    flags = [
        f"--{'' if field in LEARNER.plain else prefix}{field}".replace("_", "-")
        for field in settings_of(kind)
    ]
    assert re.findall(r"^    (--\S+)$", reported, re.MULTILINE) == flags


def test_the_settings_of_okfeb_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "okfeb"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    rank = "Write this many features for each row. It is the rank r of the subspace."
    assert f"--rank {rank} [1 to 1,000; default 10]" in shown
    assert "none does not clip. [> 0, none] --warmup" in shown


def test_what_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "okfed"]) == 2
    assert capsys.readouterr().err.startswith("kerneltrack: NAME = 'okfed': must be one of okfeb, ")
