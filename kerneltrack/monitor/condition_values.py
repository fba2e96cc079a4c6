"""Which rows meet a condition."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kerneltrack.arrays import BoolArray, FloatArray
from kerneltrack.monitor.condition import Condition, place_of
from kerneltrack.number_texts import name_code

_OPERATIONS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}


def rows_that_meet(condition: Condition, rows: FloatArray) -> BoolArray:
    """Return which rows meet a condition, (n,), of rows (n, D); its columns are placed.

    Example:
        >>> some = Condition('column[1] in ("run", "heat") and 2 * channel[0] > 300')
        >>> rows = np.array([[200.0, name_code("run")], [200.0, np.nan], [9.0, name_code("run")]])
        >>> rows_that_meet(some, rows).tolist()
        [True, False, False]
    """
    known = np.ones(len(rows), np.bool_)
    with np.errstate(all="ignore"):
        return _Values(rows, known).truth(condition.tree) & known


class _Values:
    """Values of conditions and numbers in rows.

    Args:
        rows: (n, D).
        known: (n,) which rows have a value so far; those of which a number is not finite go.
    """

    def __init__(self, rows: FloatArray, known: BoolArray) -> None:
        self._rows, self._known = rows, known

    def truth(self, node: ast.expr) -> BoolArray:
        """Return where a condition holds, (n,)."""
        match node:
            case ast.BoolOp(op=operation, values=values):
                join = np.logical_and if isinstance(operation, ast.And) else np.logical_or
                return _joined(join, [self.truth(value) for value in values])
            case ast.UnaryOp(operand=operand):
                return ~self.truth(operand)
            case ast.Compare(left=left, ops=operations, comparators=others):
                pairs = zip(operations, [left, *others], others, strict=False)
                return _joined(np.logical_and, [self._compared(*pair) for pair in pairs])
        found: BoolArray = self._number(node) != 0
        return found

    def _compared(self, operation: ast.cmpop, left: ast.expr, right: Any) -> BoolArray:
        own = self._number(left)
        if isinstance(operation, ast.In | ast.NotIn):
            found = _joined(np.logical_or, [own == self._number(part) for part in right.elts])
            return ~found if isinstance(operation, ast.NotIn) else found
        compared: BoolArray = _OPERATIONS[type(operation)](own, self._number(right))
        return compared

    def _number(self, node: ast.expr) -> FloatArray:
        found: FloatArray
        match node:
            case ast.Constant(value=value):
                known: Any = value
                number = name_code(known) if isinstance(known, str) else float(known)
                return np.full(len(self._rows), number)
            case ast.UnaryOp(op=operation, operand=operand):
                found = _OPERATIONS[type(operation)](self._number(operand))
            case ast.BinOp(left=left, op=operation, right=right):
                found = _OPERATIONS[type(operation)](self._number(left), self._number(right))
            case _:
                found = self._rows[:, place_of(node)]
        self._known &= np.isfinite(found)
        return found


def _joined(join: Callable[..., Any], parts: Sequence[BoolArray]) -> BoolArray:
    found: BoolArray = functools.reduce(join, parts)
    return found
