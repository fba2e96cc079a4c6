"""Pages of executed notebooks: each cell with what it shows, run when the site is built."""

from __future__ import annotations

import ast
import html
import json
import os
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_MOST_LINES = 24


def page_of(name: str) -> str:
    """Run a notebook of `examples/` and return its page.

    Args:
        name: Its name without the ending.
    """
    notebook = json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    parts, before = [], Path.cwd()
    os.chdir(EXAMPLES)
    try:
        for cell in notebook["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                parts.append(source)
                continue
            parts += [f"```python\n{source}\n```", _shown(_run(source, names))]
    finally:
        os.chdir(before)
    return "\n\n".join(part for part in parts if part) + "\n"


def _run(source: str, names: dict[str, Any]) -> Any:
    """Run a cell, and return the value of its last expression, None without one."""
    parsed = ast.parse(source)
    last = parsed.body.pop() if isinstance(parsed.body[-1], ast.Expr) else None
    exec(compile(parsed, "cell", "exec"), names)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def _shown(value: Any) -> str:
    """Return what a notebook shows of a value: a picture, a table, or text."""
    if value is None:
        return ""
    if hasattr(value, "_repr_svg_"):
        return f"<figure>{value._repr_svg_()}</figure>"
    if hasattr(value, "_repr_html_"):
        return f'<div class="output">{_unbroken(value._repr_html_())}</div>'
    lines = str(value).splitlines()
    lines = [*lines[:_MOST_LINES], "..."] if len(lines) > _MOST_LINES else lines
    return f'<pre class="output">{html.escape(chr(10).join(lines))}</pre>'


def _unbroken(text: str) -> str:
    """Return HTML without blank lines, at which Markdown would begin a paragraph."""
    return "\n".join(line for line in text.splitlines() if line.strip())
