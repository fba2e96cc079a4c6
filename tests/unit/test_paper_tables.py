"""The manifest of the papers' tables and figures, its page, and what the comparisons rest on."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from benchmarks.paper import batch_machines, budgeted
from benchmarks.paper.page import PAGE, page
from benchmarks.paper.parts import Found, Line, Part, outcome, read_manifest, read_titles
from benchmarks.paper.printed_nolana import SOLVERS, PrintedNolana, rank_one
from benchmarks.subspace_peers import make_stream, meka, shifted_nystroem
from kerneltrack.kernels import gram, make_kernel

STATUSES = {"reproduced", "differs", "impossible"}
NUMBERED = {"okfeb": (9, 2), "nolana": (4, 2), "doubly": (5, 3), "polk": (8, 3), "bcd": (0, 0)}
"""Figures and tables that a paper numbers; the slides of BCD number none."""


def test_every_table_and_figure_has_a_status_and_is_measured_or_says_why_not() -> None:
    papers = read_manifest()
    assert set(papers) == {"okfeb", "nolana", "doubly", "polk", "bcd"} == set(read_titles())
    for name, parts in papers.items():
        measured = importlib.import_module(f"benchmarks.paper.{name}").PARTS
        for part, fields in parts.items():
            assert fields.status in STATUSES
            assert (fields.status == "reproduced") or fields.why, (name, part)
            assert (part in measured) == (fields.status != "impossible"), (name, part)
            assert bool(fields.lines) == (fields.status != "impossible"), (name, part)
        assert set(measured) <= set(parts)
        figures, tables = NUMBERED[name]
        numbered = {f"fig{k + 1}" for k in range(figures)}
        numbered |= {f"table{k + 1}" for k in range(tables)}
        assert {part for part in parts if part.startswith(("fig", "table"))} == numbered


def test_the_page_is_the_manifest() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_a_value_outside_its_range_differs() -> None:
    part = Part("", "reproduced", "", {"a": Line("1", 0.9, 1.1), "b": Line("any")})
    assert outcome(part, Found({"a": 1.0, "b": 7.0})) == "reproduced"
    assert outcome(part, Found({"a": 1.2, "b": 7.0})) == "differs"
    assert outcome(part, Found({"a": float("nan"), "b": 7.0})) == "differs"
    with pytest.raises(ValueError, match="'b'"):
        outcome(part, Found({"a": 1.0}))


@pytest.mark.parametrize("weight", [0.7, -0.7])
def test_rank_one_updates_are_eigenvectors(weight: float) -> None:
    rng = np.random.default_rng(0)
    values, along = np.sort(rng.random(20)), rng.normal(size=20)
    found, vectors = rank_one(values, along, weight)
    whole = np.diag(values) + weight * np.outer(along, along)
    np.testing.assert_allclose(found, np.linalg.eigvalsh(whole), atol=1e-10)
    np.testing.assert_allclose(vectors @ np.diag(found) @ vectors.T, whole, atol=1e-10)


def test_the_solvers_of_nolana_find_one_map() -> None:
    rows = np.random.default_rng(0).normal(size=(120, 3))
    spans = []
    for solver in SOLVERS:
        model = PrintedNolana(rows[:20], 2, rank=12, gamma=6.0, threshold=0.0, solver=solver)
        assert all(model.move(row) for row in rows[20:])
        z = model.features(rows)
        spans.append(z @ z.T)
    np.testing.assert_allclose(spans[1], spans[0], atol=1e-5)
    np.testing.assert_allclose(spans[2], spans[0], atol=0.02)


@pytest.mark.parametrize("name", budgeted.MACHINES)
def test_budgeted_classifiers_learn_and_keep_their_budget(name: str) -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(1_500, 2))
    labels = np.where((rows**2).sum(axis=1) < 1.4, 1.0, -1.0)
    machine = budgeted.MACHINES[name](40, 2, 1.0)
    output_text = budgeted.run(machine, rows, labels)
    assert len(machine.weights) <= 40
    assert np.mean(output_text[500:] * labels[500:] <= 0) < 0.35


def test_rows_in_blocks_are_those_one_after_another() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(120, 3))
    labels = np.where(rows[:, 0] > 0, 1.0, -1.0)
    one = budgeted.without_budget(budgeted.pegasos(1e-2), rows, labels, 2.0, block=1)
    many = budgeted.without_budget(budgeted.pegasos(1e-2), rows, labels, 2.0, block=50)
    np.testing.assert_allclose(many, one, atol=1e-12)


@pytest.mark.parametrize("loss", batch_machines.LOSSES)
def test_machines_of_all_rows_are_at_the_least_cost(loss: str) -> None:
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(300, 2))
    y = np.digitize((rows**2).sum(axis=1), [0.8, 2.2])
    kernel = make_kernel("gaussian", 1.0)
    model = batch_machines.fit(kernel, rows, y, rows[:60], loss=loss, ridge=1e-3, steps=2_000)
    inner = gram(kernel, model.rows, model.rows) + batch_machines.FLAT * np.eye(60)
    values = gram(kernel, rows, model.rows) @ model.weights
    risk, error = batch_machines.risk_and_error(kernel, model, rows, y, loss)
    losses, slopes = batch_machines.loss_of(values, y, batch_machines.LOSSES[loss])
    square = float(np.einsum("mc,mn,nc->", model.weights, inner, model.weights))
    assert risk + 1e-3 / 2 * square == pytest.approx(model.cost, rel=1e-4)
    slope = gram(kernel, model.rows, rows) @ slopes / len(y) + 1e-3 * inner @ model.weights
    assert np.abs(slope).max() < 1e-4
    own = values[np.arange(len(y)), y]
    values[np.arange(len(y)), y] = -np.inf
    hinge = np.maximum(0.0, 1.0 + values.max(axis=1) - own)
    if loss == "hinge":
        assert np.all((losses >= hinge - 1e-12) & (losses <= hinge + 0.03))
    assert error < 0.08


def test_import_vectors_are_rows_that_lower_the_cost() -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(300, 2))
    y = (rows[:, 0] * rows[:, 1] > 0).astype(np.int64)
    kernel = make_kernel("gaussian", 2.0)
    few, many = (
        batch_machines.import_vectors(kernel, rows, y, ridge=1e-4, count=count, seed=0)
        for count in (4, 12)
    )
    assert (few.rows == many.rows[:4]).all() and many.cost < few.cost
    assert {tuple(row) for row in many.rows} <= {tuple(row) for row in rows}
    assert batch_machines.risk_and_error(kernel, many, rows, y, "logistic")[1] < 0.1


def test_spectral_shifting_keeps_the_trace_and_meka_its_blocks() -> None:
    rows = np.random.default_rng(3).normal(size=(150, 2))
    stream = make_stream(rows, 2.0, 1)
    whole = gram(make_kernel("gaussian", 2.0), rows, rows)
    few, many = shifted_nystroem(stream, (5, 60), 0)
    assert few > 3 * many > 0.0
    assert np.linalg.norm(whole) / len(rows) > few
    rough, fine = meka(stream, (2, 25), 0)
    assert fine < 0.2 * rough
