"""The notebooks of examples/ run from top to bottom, and are stored without outputs."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def cells_of(notebook: Path) -> list[dict[str, Any]]:
    found = json.loads(notebook.read_text(encoding="utf-8"))
    assert found["nbformat"] == 4
    cells: list[dict[str, Any]] = found["cells"]
    return cells


def run_cell(source: str, names: dict[str, Any], place: str) -> Any:
    """Run a cell, and return the value of its last expression, as a notebook shows it."""
    parsed = ast.parse(source, place)
    last = parsed.body[-1] if isinstance(parsed.body[-1], ast.Expr) else None
    if last is not None:
        parsed.body.pop()
    exec(compile(parsed, place, "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), place, "eval"), names)


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) == 2


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "examples")
    names: dict[str, Any] = {}
    for cell in cells_of(notebook):
        if cell["cell_type"] != "code":
            continue
        shown = run_cell("".join(cell["source"]), names, f"{notebook.name}, {cell['id']}")
        # What a notebook would show can be shown.
        if shown is not None:
            assert repr(shown)
            if hasattr(shown, "_repr_html_"):
                assert shown._repr_html_()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_no_outputs(notebook: Path) -> None:
    cells = cells_of(notebook)
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
