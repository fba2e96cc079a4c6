"""`kerneltrack list`: all parts there are, each with a line of its own and its source."""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import Any

import pytest

from kerneltrack import kernels
from kerneltrack.learners import LEARNERS
from kerneltrack.learners.kernel import bsgd
from kerneltrack.trackers import TRACKERS
from kerneltrack.trackers.doubly import random_features
from kerneltrack.trackers.okfeb import budget, okfeb
from pipelines.cli.list_parts import CHOICES, choices_of, paper_of
from pipelines.cli.main import main

PARTS: tuple[dict[str, Any], ...] = (dict(TRACKERS), dict(LEARNERS))
NAMES = {
    kernels: tuple(kernels.KERNELS),
    random_features: random_features.NAMES,
    budget: okfeb.POLICIES,
    bsgd: bsgd.MAINTENANCE,
}


def test_every_part_has_a_line_and_a_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 100
    blocks = told.rstrip("\n").split("\n\n")
    for block, registry in zip(blocks[:2], PARTS, strict=True):
        assert re.findall(r"^    (\w+): ", block, re.MULTILINE) == list(registry)
        flat = " ".join(block.split())
        for part in registry.values():
            module = sys.modules[type(part).__module__]
            assert paper_of(module) in flat
            assert " ".join(str(module.__doc__).partition("\n\n")[0].split()) in flat
    assert len(blocks) == 2 + len(CHOICES)
    for block, (title, module) in zip(blocks[2:], CHOICES, strict=True):
        assert block.startswith(title)
        flat = " ".join(block.split())
        assert all(f"{name}: {text}" in flat for name, text in list(choices_of(module).items())[1:])
        assert paper_of(module) in flat


@pytest.mark.parametrize("module", NAMES, ids=lambda module: module.__name__)
def test_a_modules_table_names_its_choices(module: ModuleType) -> None:
    listed = list(choices_of(module).items())[1:]
    names = [name for cell, _ in listed for name in cell.split(", ")]
    assert names == list(NAMES[module])
    assert all(text for _, text in listed)


@pytest.mark.parametrize("name", [*TRACKERS, *LEARNERS])
def test_every_module_names_its_source(name: str) -> None:
    source = paper_of(sys.modules[type(TRACKERS.get(name) or LEARNERS[name]).__module__])
    assert re.search(r"\b(19|20)\d\d\b", source) or (name == "rows" and source.startswith("none"))
