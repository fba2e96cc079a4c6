"""OK-FEB's Table II and Fig. 9: online classification of Adult and regression on CADATA.

Each row is predicted, then learned, in the file's order. OK-FEB has Table II's r, B and γ; its
features go to Pegasos and ridge (Adult), LMS and ridge (CADATA). The peers have B stored rows; the
perceptron and OGD store all that they learn. Slice and Year are not at hand: `SLICE` in a folder of
your own is read by the same readers, but nothing here measures it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.paper import budgeted
from benchmarks.paper.parts import Found
from benchmarks.places import DATA
from benchmarks.prequential_sets import libsvm_rows, table_rows
from kerneltrack.arrays import FloatArray
from kerneltrack.in_memory import learn_all, run_all
from kerneltrack.learners import BSGDSpec, LMSSpec, PegasosSpec, RidgeSpec
from kerneltrack.registry import parse_learner_spec
from kerneltrack.trackers import OKFEBSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ADULT, CADATA = (50, 60, 20.0), (5, 8, 7e7)
"""r, B and γ of Table II."""
FIRST = 500
"""Rows that are scored for nobody."""


def adult(most: int | None) -> tuple[FloatArray, FloatArray]:
    """Return the rows of Adult, and the labels ±1."""
    rows, labels = libsvm_rows(DATA / "a9a.libsvm.gz")
    return rows[:most], np.array([float(label) for label in labels[:most]])


def cadata(most: int | None) -> tuple[FloatArray, FloatArray]:
    """Return the rows of CADATA and the targets, shuffled: the file goes through the state."""
    table = table_rows(DATA / "cadata.tsv.gz")
    table = table[np.random.default_rng(0).permutation(len(table))][:most]
    return table[:, :-1].copy(), table[:, -1].copy()


def features(rows: FloatArray, settings: tuple[int, int, float], **more: Any) -> FloatArray:
    """Return OK-FEB's features of each row, of the subspace before it: as printed, β = 1."""
    rank, budget, gamma = settings
    given: dict[str, Any] = {
        "rule": "nonparametric",
        "step": "inverse_norm",
        "censor": "moving",
        "forgetting": 1.0,
    }
    spec = OKFEBSpec(rank=rank, budget=budget, gamma=gamma, standardise=False, **given | more)
    z = run_all(spec, rows)[1].z
    if z is None:
        raise ValueError("no features")
    return z


def table2(quick: bool) -> Found:
    """Rows and channels of the sets that are at hand."""
    values = {}
    for name, rows in (("Adult", adult(None)[0]), ("CADATA", cadata(None)[0])):
        values[f"{name}, N"], values[f"{name}, D"] = map(float, rows.shape)
    return Found(values)


def fig9(quick: bool) -> Found:
    """Errors of the online learners by the number of rows."""
    wrong = adult_errors(2_000 if quick else None)
    squares = cadata_errors(2_000 if quick else None)
    values = {}
    ours = min(_rate(wrong[name]) for name in ("OK-FEB + Pegasos", "OK-FEB + ridge"))
    for name, each in wrong.items():
        values[f"Adult, {name}, error"] = _rate(each)
    budget = [name for name in budgeted.MACHINES if name in wrong]
    values["Adult, budgeted peers with a smaller error than OK-FEB's"] = float(
        sum(_rate(wrong[name]) < ours for name in budget)
    )
    values["CADATA, OK-FEB + ridge over BOGD, error"] = float(
        np.sqrt(_rate(squares["OK-FEB + ridge"]) / _rate(squares["BOGD"]))
    )
    for name, each in squares.items():
        values[f"CADATA, {name}, error over the targets' deviation"] = float(np.sqrt(_rate(each)))

    def draw(figure: Figure) -> None:
        panels: Sequence[Any] = figure.subplots(1, 2)
        for panel, found, title in zip(panels, (wrong, squares), ("Adult", "CADATA"), strict=True):
            for name, each in found.items():
                counts = np.arange(1, len(each) - FIRST + 1)
                panel.plot(counts, np.cumsum(each[FIRST:]) / counts, label=name, linewidth=1)
            panel.set(title=title, xlabel="row", ylabel="error so far", yscale="log")
            panel.legend(fontsize="xx-small")

    return Found(values, draw)


def _rate(errors: FloatArray) -> float:
    return float(errors[FIRST:].mean())


def adult_errors(most: int | None) -> dict[str, FloatArray]:
    """Return of each method which rows of Adult it got wrong."""
    rows, labels = adult(most)
    _, budget, gamma = ADULT
    named = ["+" if label > 0 else "-" for label in labels.tolist()]
    z = features(rows, ADULT)
    found = {
        "OK-FEB + Pegasos": _wrong(PegasosSpec(ridge=1e-3), z, named),
        "OK-FEB + ridge": _wrong(RidgeSpec(), z, named),
        "auto": _wrong(parse_learner_spec({"learner": "auto"}), z, named, rows),
        "BSGD": _wrong(BSGDSpec(budget=budget, gamma=gamma), rows, named),
    }
    for name, machine in budgeted.MACHINES.items():
        predictions = budgeted.run(machine(budget, rows.shape[1], gamma), rows, labels)
        found[name] = (predictions * labels <= 0).astype(np.float64)
    everything = {"perceptron": budgeted.perceptron, "OGD": budgeted.pegasos(1e-4)}
    for name, weigh in everything.items():
        predictions = budgeted.without_budget(weigh, rows, labels, gamma)
        found[name] = (predictions * labels <= 0).astype(np.float64)
    return found


def _wrong(spec: Any, rows: FloatArray, labels: list[str], own: Any = None) -> FloatArray:
    correct = learn_all(spec, rows, labels, own)[1].correct
    return np.asarray(1.0 - np.nan_to_num(np.asarray(correct, np.float64)))


def cadata_errors(most: int | None) -> dict[str, FloatArray]:
    """Return of each method the squared errors on CADATA, the target's variance being 1."""
    rows, targets = cadata(most)
    targets = (targets - targets.mean()) / targets.std()
    z = features(rows, CADATA)
    specs: dict[str, tuple[Any, FloatArray]] = {
        "OK-FEB + LMS": (LMSSpec(task="regression"), z),
        "OK-FEB + ridge": (RidgeSpec(task="regression"), z),
        "the row itself + ridge": (RidgeSpec(task="regression"), rows / rows.std(axis=0)),
    }
    found = {}
    for name, (spec, inputs) in specs.items():
        predictions = np.asarray(learn_all(spec, inputs, targets)[1].value, np.float64)
        found[name] = (np.nan_to_num(predictions) - targets) ** 2
    _, budget, gamma = CADATA
    predictions = budgeted.run(budgeted.SquaredDescent(budget, rows.shape[1], gamma), rows, targets)
    found["BOGD"] = (predictions - targets) ** 2
    predictions = budgeted.without_budget(budgeted.least_mean_squares(0.2), rows, targets, gamma)
    found["OGD"] = (predictions - targets) ** 2
    found["mean"] = _mean_so_far(targets)
    return found


def _mean_so_far(targets: FloatArray) -> FloatArray:
    before = np.concatenate([[0.0], np.cumsum(targets)[:-1]]) / np.maximum(
        np.arange(len(targets)), 1
    )
    return np.asarray((before - targets) ** 2)
