"""A condition on a row's columns, such as `state == "run" and rpm > 200`: when a device is judged.

The text is read by Python's parser, and nothing of it is ever run: all but these forms is refused,
with its place. Columns of whole blocks of rows are compared at once.

    condition   and, or, not, parentheses, a comparison, or a column by itself: whether it is not 0
    comparison  <, <=, >, >=, ==, !=, in, not in; 1 < a < 2 is one, too
    number      a column, a constant, True and False (1 and 0), + - * / and signs
    column      its name; any name in backquotes; channel[3] by its place, from 0
    text        "run" or 'run', compared with a column by ==, != and in; `in` takes (...) or [...]

A row in which one of the columns is missing, or a number not finite, does not meet it.
"""

from __future__ import annotations

import ast
import difflib
import functools
import keyword
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

from kerneltrack.errors import ConfigError
from kerneltrack.number_texts import NAMES, name_code, number_pattern

FIELD = "only_while"
CHANNEL, COLUMN = "channel", "column"
"""Before the place of a channel, and of a column that nothing but the condition sees."""
MOST_CHARACTERS, MOST_NESTED = 2000, 40

_SIGNS = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_EQUALITIES = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
_TRUTHS = {"true": 1.0, "false": 0.0}
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`?""")


class Condition:
    """A condition that was read.

    Args:
        text: What it says.

    Attributes:
        text: The same, on one line.
        tree: What Python's parser made of it, of known forms alone.

    Raises:
        ConfigError: with the place of what is wrong.

    Example:
        >>> some = Condition('state in ("run", "heat") and 2 * rpm > 300')
        >>> list(some.columns)
        ['state', 'rpm']
        >>> placed = some.placed(["rpm", "state"], alone=["state"])
        >>> placed
        'column[1] in ("run", "heat") and 2 * channel[0] > 300'
    """

    def __init__(self, text: Any) -> None:
        if not isinstance(text, str) or not 0 < len(text.strip()) <= MOST_CHARACTERS:
            allowed = f"a condition of 1 to {MOST_CHARACTERS:,} characters"
            raise ConfigError(FIELD, text, allowed)
        self.text = re.sub(r"\s", " ", text.strip())
        # Of each column whether it holds texts, and where it stands first.
        self._texts: dict[str | int, bool] = {}
        self._where: dict[str | int, ast.expr] = {}
        # The columns wherever they stand, and texts with the columns that they are compared with.
        self._seen: list[ast.expr] = []
        self._compared: list[tuple[ast.expr, Any]] = []
        self.tree = self._read()
        self._check_truth(self.tree, 0)
        if not self._seen:
            self._refuse(self.tree, "it names no column")

    @property
    def columns(self) -> dict[str, bool]:
        """Columns that are given by name, and whether they are compared with texts."""
        return {name: texts for name, texts in self._texts.items() if isinstance(name, str)}

    @property
    def places(self) -> tuple[int, ...]:
        """Columns that are given by their places."""
        return tuple(place for place in self._texts if isinstance(place, int))

    @property
    def alone(self) -> tuple[int, ...]:
        """Those of them that nothing but the condition sees."""
        found = {place_of(node) for node in self._seen if _kind_of(node) == COLUMN}
        return tuple(sorted(found))

    def placed(
        self,
        channels: Sequence[str],
        words: Mapping[str, Sequence[str]] | None = None,
        alone: Collection[str] = (),
    ) -> str:
        """Return the condition with the places of its columns in place of their names.

        Args:
            channels: The channels, in order.
            words: Of channels of two words the one that is 0 and the one that is 1; `NAMES` for
                one whose texts are names.
            alone: Columns that nothing else sees.

        Raises:
            ConfigError: for a name that is no channel, or a text that one does not have.
        """
        for name in self.columns:
            if name not in channels:
                self._refuse(self._where[name], _no_column(name, channels))
        edits: list[tuple[Any, str]] = []
        for node in self._seen:
            if isinstance(node, ast.Name):
                kind = COLUMN if node.id in alone else CHANNEL
                edits.append((node, f"{kind}[{list(channels).index(node.id)}]"))
        for column, text in self._compared:
            # A column that nothing else sees holds names.
            if isinstance(column, ast.Name) and column.id not in alone:
                known = tuple((words or {}).get(column.id, ()))
                if known != NAMES:
                    edits.append((text, repr(self._code(column.id, text, known))))
        return self._with(edits)

    def named(self, channels: Sequence[str]) -> str:
        """Return the condition with the names of its columns in place of their places."""
        edits = []
        for node in self._seen:
            if isinstance(node, ast.Subscript):
                name = channels[place_of(node)]
                plain = name.isidentifier() and not keyword.iskeyword(name)
                edits.append((node, name if plain else f"`{name}`"))
        return self._with(edits)

    def _with(self, edits: Sequence[tuple[Any, str]]) -> str:
        """Return the text with parts of it in other words."""
        text, parts = self.text, {node.col_offset: (node.end_col_offset, to) for node, to in edits}
        for start, (end, words) in sorted(parts.items(), reverse=True):
            text = text[:start] + words + text[end:]
        return text

    def error_at(self, name: str, why: str) -> ConfigError:
        """Return an error about a column, with the place where it stands first."""
        place = self._where[name].col_offset if name in self._where else 0
        return ConfigError(FIELD, self.text, f"right at character {place + 1}: {why}")

    def check_width(self, width: int) -> None:
        """Check that all columns are given by places of D channels.

        Raises:
            ConfigError: if one is not.
        """
        for column, node in self._where.items():
            if not isinstance(column, int) or column >= width:
                self._refuse(node, f"{column} is no place of a channel, 0 to {width - 1}")

    # ---- reading ----

    def _read(self) -> ast.expr:
        # Names in backquotes become ones that Python knows, of as many characters.
        source, named = self.text, dict[int, str]()
        for found in _QUOTED.finditer(source):
            start, end = found.span()
            if found[0].startswith("`"):
                if len(found[0]) < 3 or not found[0].endswith("`"):
                    self._refuse_at(start, "a name stands between two backquotes")
                source = source[:start] + "_" * (end - start) + source[end:]
                named[start] = found[0][1:-1]
        try:
            tree = ast.parse(source, mode="eval").body
        except SyntaxError as error:
            at = error.offset or 0
            # At the end Python names none.
            self._refuse_at(at - 1 if at > 0 else len(source), str(error.msg))
        except (ValueError, RecursionError, MemoryError):
            self._refuse_at(0, "it is nested too deep")
        encoded = source.encode()
        for node in ast.walk(tree):
            if isinstance(node, ast.expr):
                start, end = node.col_offset, node.end_col_offset or node.col_offset
                # From here on in characters of the whole text.
                node.col_offset = len(encoded[:start].decode())
                node.end_col_offset = len(encoded[:end].decode())
                if isinstance(node, ast.Name):
                    node.id = named.get(node.col_offset, encoded[start:end].decode())
        return tree

    def _check_truth(self, node: ast.expr, depth: int) -> None:
        """Check a condition, and note the columns in it."""
        self._check_depth(node, depth)
        match node:
            case ast.BoolOp(values=values):
                for value in values:
                    self._check_truth(value, depth + 1)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._check_truth(operand, depth + 1)
            case ast.Compare():
                self._check_comparison(node, depth)
            case ast.Constant(value=bool()):
                pass
            case _ if _is_column(node):
                self._note(node, False)
            case _:
                self._refuse(node, _why_not(node) or "a comparison stands here, or a column")

    def _check_comparison(self, node: ast.Compare, depth: int) -> None:
        sides = [node.left, *node.comparators]
        for place, operation in enumerate(node.ops):
            left, right = sides[place : place + 2]
            if not isinstance(operation, (*_EQUALITIES, *_ORDERS)):
                self._refuse(right, "it is compared by <, <=, >, >=, ==, !=, in or not in")
            if isinstance(operation, ast.In | ast.NotIn):
                self._check_list(left, right, depth)
                continue
            for side, other in ((left, right), (right, left)):
                if _is_text(side):
                    if not isinstance(operation, _EQUALITIES):
                        self._refuse(side, "texts are compared by ==, != and in")
                    self._check_texts(other, side)
                elif not _is_text(other):
                    self._check_number(side, depth + 1)

    def _check_list(self, left: ast.expr, right: ast.expr, depth: int) -> None:
        parts = right.elts if isinstance(right, ast.Tuple | ast.List) else []
        if not parts:
            self._refuse(right, "after in stands a list: ('run', 'heat') or [1, 2]")
        if any(map(_is_text, parts)):
            for part in parts:
                if not _is_text(part):
                    self._refuse(part, "a list holds texts only, or numbers only")
                self._check_texts(left, part)
            return
        for part in (left, *parts):
            self._check_number(part, depth + 1)

    def _check_texts(self, column: ast.expr, text: Any) -> None:
        if not _is_column(column):
            self._refuse(text, "a text is compared with a column")
        self._compared.append((column, text))
        self._note(column, True)

    def _check_number(self, node: ast.expr, depth: int) -> None:
        """Check a number, and note the columns in it."""
        self._check_depth(node, depth)
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                # An int may be beyond all doubles.
                if abs(value) > sys.float_info.max:
                    self._refuse(node, "a finite number stands here")
            case ast.BinOp(left=left, op=sign, right=right) if isinstance(sign, _SIGNS):
                self._check_number(left, depth + 1)
                self._check_number(right, depth + 1)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                self._check_number(operand, depth + 1)
            case _ if _is_column(node):
                self._note(node, False)
            case _:
                self._refuse(node, _why_not(node) or "a number or a column stands here")

    def _note(self, node: ast.expr, texts: bool) -> None:
        column: str | int = node.id if isinstance(node, ast.Name) else place_of(node)
        self._seen.append(node)
        if self._texts.setdefault(column, texts) != texts:
            self._refuse(node, f"{column} is compared with texts: those are '3', not 3")
        self._where.setdefault(column, node)

    def _check_depth(self, node: ast.expr, depth: int) -> None:
        if depth > MOST_NESTED:
            self._refuse(node, "it is nested too deep")

    def _code(self, column: str, node: Any, words: Sequence[str]) -> float:
        """Return the number that stands for a text of a channel that does not hold names."""
        text = str(node.value).strip()
        if words:
            pair = [word.strip() for word in words]
            if text not in pair:
                self._refuse(node, f"{column} is {pair[0]!r} or {pair[1]!r}")
            return float(pair.index(text))
        if text.lower() in _TRUTHS:
            return _TRUTHS[text.lower()]
        if not re.fullmatch(number_pattern(), text):
            self._refuse(node, f"{column} holds numbers, and no texts")
        return name_code(text)

    def _refuse(self, node: ast.expr, why: str) -> NoReturn:
        self._refuse_at(node.col_offset, why)

    def _refuse_at(self, place: int, why: str) -> NoReturn:
        raise ConfigError(FIELD, self.text, f"right at character {place + 1}: {why}")


@functools.lru_cache(maxsize=64)
def read_condition(text: str) -> Condition:
    """Return the condition that a text says; one that was read before is not read again.

    Raises:
        ConfigError: as `Condition`.
    """
    return Condition(text)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_column(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return True
    at = getattr(getattr(node, "slice", None), "value", None)
    return _kind_of(node) in (CHANNEL, COLUMN) and type(at) is int


def _kind_of(node: Any) -> str | None:
    """Return what stands before a place, None where there is none."""
    return getattr(node.value, "id", None) if isinstance(node, ast.Subscript) else None


def place_of(node: Any) -> int:
    """Return the place of a column that is given by it."""
    return int(node.slice.value)


def _no_column(name: str, channels: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, channels, n=1, cutoff=0.5)
    hint = f" (did you mean {near[0]!r}?)" if near else f", only {', '.join(channels)}"
    return f"there is no column {name!r}{hint}; texts stand in quotes"


def _why_not(node: ast.expr) -> str:
    """Return why what stands there is not allowed, "" if it is only in the wrong place."""
    match node:
        case ast.Call(func=function):
            return f"there are no functions, such as {ast.unparse(function)}"
        case ast.Constant(value=str()):
            return "a text is compared with a column by ==, != and in"
        case ast.BoolOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return "a number stands here, not a condition"
        case (
            ast.Constant()
            | ast.Name()
            | ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div())
        ):
            return ""
    return "only comparisons, and, or, not, + - * /, numbers, texts and columns are allowed"
