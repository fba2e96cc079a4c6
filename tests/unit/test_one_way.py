"""Only the core (`kerneltrack.fleet`) lets trackers, references, detectors and learners take rows.

Whoever has rows asks it. A second loop would have to do all that the first does, and every
companion would have to be taken both ways.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.unit.test_layout import MODULES, tree_of

TAKE_ROWS = {
    *("update", "update_each", "run", "run_checked", "row_call"),
    *("learn", "learn_block", "go_on", "watch_each"),
}
"""Functions by which a state goes on with rows."""
OWN = ("kerneltrack/trackers/", "kerneltrack/learners/", "kerneltrack/monitor/reference/")
"""Packages of what takes the rows."""
CORE = "kerneltrack/fleet/"
HAVE_THEM = (
    "kerneltrack.trackers",
    "kerneltrack.monitor.reference",
    "kerneltrack.monitor.drift",
    "kerneltrack.learners.common.block",
)
GIVE_THEM = {"get_tracker", "get_learner"}

OTHERS = {
    "kerneltrack/in_memory.py": "one call over a whole array: the oracle of tests and benchmarks",
    "kerneltrack/tracker.py": "a tracker alone, row by row, by a call that is laid out once",
    "kerneltrack/river.py": "River's protocol: a learner alone, told of each row by itself",
    "kerneltrack/sklearn/base.py": "scikit-learn's protocol: a tracker alone, on matrices",
    "kerneltrack/sklearn/predictor.py": "scikit-learn's protocol: a learner alone, on features",
    "kerneltrack/monitor/find.py": "a reference alone, without a tracker",
    "kerneltrack/monitor/detector.py": "PyOD's protocol: a reference alone, fitted to parts",
    "kerneltrack/monitor/mismatch.py": "looks at rows of windows, learns nothing",
    "transforms/anomaly.py": "Beam's protocol of detectors: a reference alone, a row at a time",
}
"""Modules that do so nevertheless, and why."""


def _dotted(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Return the names that an assignment gives, each with what it is given."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, given in zip(target.elts, value.elts, strict=False):
            yield from _pairs(one, given)
    elif _dotted(target):
        yield _dotted(target), value


def _gives(node: ast.expr) -> bool:
    """Check whether an expression is a tracker or a learner by its name."""
    return isinstance(node, ast.Call) and _dotted(node.func).rpartition(".")[2] in GIVE_THEM


def calls_of(tree: ast.Module) -> list[str]:
    """Return the calls, as text, by which a module lets states go on with rows."""
    owners: set[str] = set()
    functions: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                name = alias.asname or alias.name
                if f"{node.module}.{alias.name}".startswith(HAVE_THEM):
                    owners.add(name)
                    if alias.name in TAKE_ROWS:
                        functions.add(name)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                owners |= {name for name, value in _pairs(target, node.value) if _gives(value)}
        elif isinstance(node, ast.AnnAssign) and node.value is not None and _gives(node.value):
            owners.add(_dotted(node.target))
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in functions:
            found.append(node.func.id)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in TAKE_ROWS:
            owner = node.func.value
            if _gives(owner) or _dotted(owner) in owners:
                found.append(ast.unparse(node.func))
    return found


def test_only_the_core_lets_states_go_on() -> None:
    found = {
        module
        for module in MODULES
        if not module.startswith((CORE, *OWN)) and calls_of(tree_of(module))
    }
    assert found == set(OTHERS)


def test_the_core_does() -> None:
    called = {
        call.rpartition(".")[2]
        for m in MODULES
        if m.startswith(CORE)
        for call in calls_of(tree_of(m))
    }
    assert called >= {"learn_block", "go_on", "watch_each", "update", "learn"}


@pytest.mark.parametrize(
    "text",
    [
        "from kerneltrack.monitor import reference\nreference.update(spec, state, rows)",
        "from kerneltrack.monitor.reference import block as b\nb.go_on(spec, parts, rows)",
        "from kerneltrack.monitor.drift import update\nupdate(spec, state, losses)",
        "get_learner(name).learn(spec, state, rows, labels)",
        "learner, told = get_learner(name), 3\nlearner.update(spec, state, rows)",
        "self._t: Any = get_tracker(name)\nself._t.run(spec, block, pieces)",
    ],
)
def test_what_counts(text: str) -> None:
    assert len(calls_of(ast.parse(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "names.update(more)",
        "get_learner(name).predict(spec, state, rows)",
        "from kerneltrack.monitor import reference\nreference.ready(state)",
    ],
)
def test_what_does_not(text: str) -> None:
    assert not calls_of(ast.parse(text))
