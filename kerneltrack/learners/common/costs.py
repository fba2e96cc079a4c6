"""What errors cost: the class of least expected cost is predicted.

With p of a row's label (`prequential`), weights w and costs L(t, c) of predicting c where the label
is t, the prediction is

    argmin_c Σ_t w_t·p_t·L(t, c)

w_t = 1 without `class_weight`; "balanced": w_t = 1/n_t, n_t the labels of class t learned from so
far, at least 1, so that a class of 10 rows counts as much as one of 10,000; "root": 1/√n_t. Costs
that are not given are 1, and 0 where the prediction is right: with neither, it is the likeliest
class. What is learned and the probabilities stay as they are.

Reference: C. Elkan, "The foundations of cost-sensitive learning", IJCAI 2001, sections 1 and 2.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.learners.common.class_names import class_of

Costs = tuple[tuple[str, str, float], ...]
"""Label, prediction, cost."""

MAX_COST = 1e9
MOST_COSTS = 10_000
FIELDS = ("true", "predicted", "cost")
NO_COSTS = np.zeros((0, 0))
"""The table where all errors cost the same."""
_ALLOWED = "a list of true class, predicted class and cost"


def checked_costs(given: Any) -> Costs:
    """Return costs as specs have them.

    Args:
        given: Of each two classes a label, a prediction and a cost, or a mapping of these `FIELDS`.

    Raises:
        ConfigError: for anything else, naming what is wrong.

    Example:
        >>> checked_costs([["ok", "fault", 1], {"true": "fault", "predicted": "ok", "cost": 50}])
        (('ok', 'fault', 1.0), ('fault', 'ok', 50.0))
    """
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise ConfigError("costs", given, _ALLOWED)
    if len(given) > MOST_COSTS:
        raise ConfigError("costs", f"{len(given)} entries", f"at most {MOST_COSTS}")
    costs = tuple(_entry(entry) for entry in given)
    pairs: set[tuple[str, str]] = set()
    for label, prediction, _ in costs:
        if (label, prediction) in pairs:
            raise ConfigError("costs", f"{label!r} as {prediction!r}", "each pair of classes once")
        pairs.add((label, prediction))
    return costs


def _entry(entry: Any) -> tuple[str, str, float]:
    if isinstance(entry, Mapping):
        # YAML takes the name of the first for a truth value.
        entry = {"true" if field is True else field: value for field, value in entry.items()}
        if set(entry) != set(FIELDS):
            raise ConfigError("costs", dict(entry), f"with {', '.join(FIELDS)}")
        entry = [entry[field] for field in FIELDS]
    if isinstance(entry, str | bytes) or not isinstance(entry, Sequence) or len(entry) != 3:
        raise ConfigError("costs", entry, _ALLOWED)
    label, prediction, cost = entry
    return _name(label), _name(prediction), _cost(cost)


def _name(given: Any) -> str:
    if isinstance(given, bool):
        # YAML takes off, no, on and yes for truth values.
        raise ConfigError("costs", given, "the name of a class, in quotes")
    try:
        name = class_of(given)
    except ValueError:
        name = None
    if name is None:
        raise ConfigError("costs", given, "the name of a class")
    return name


def _cost(given: Any) -> float:
    number = math.nan
    if isinstance(given, str | int | float) and not isinstance(given, bool):
        try:
            number = float(given)
        except (ValueError, OverflowError):
            number = math.nan
    if not 0.0 <= number <= MAX_COST:
        raise ConfigError("costs", given, f"a cost from 0 to {MAX_COST:g}")
    return number


@functools.lru_cache(maxsize=256)
def table_of(costs: Costs, classes: tuple[str, ...]) -> FloatArray:
    """Return what it costs to predict the column's class where the label is the row's, (C, C).

    Example:
        >>> table_of((("b", "a", 5.0),), ("a", "b")).tolist()
        [[0.0, 1.0], [5.0, 0.0]]
    """
    if not costs:
        return NO_COSTS
    table = 1.0 - np.eye(len(classes))
    place = {name: code for code, name in enumerate(classes)}
    for label, prediction, cost in costs:
        if label in place and prediction in place:
            table[place[label], place[prediction]] = cost
    return table
