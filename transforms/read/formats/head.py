"""Where the table of a text file begins, and what its columns are called."""

from __future__ import annotations

import csv as python_csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kerneltrack.errors import ConfigError, DataError, shorten
from kerneltrack.number_texts import number_pattern

LOOKED_AT = 100
"""Lines that say where the table begins."""

MARKS = frozenset(
    "- -- --- n.a. none bad fail failed error err unavailable unknown undefined missing empty "
    "offline invalid questionable . ? * nil void n/d nd <na> #value! #ref! #div/0!".split()
) | {"no data", "i/o timeout", "not connected", "bad input", "comm fail", "pt created", "no value"}
"""What loggers and historians write where there is no value, in small letters. A column of
numbers and of these is one of numbers; a row with one of them fails unless `null_values` has it."""

_MOST_TITLES = 20
_MOST_BENEATH = 4
_MOST_TRAILING = 16
_MOST_WORDS = 12
_UNNAMED = "(unnamed)"
_NO_NAME = "it has no name"
_INFLUX = ("#datatype", "#group", "#default")


class Special(NamedTuple):
    """What the first line of a file says of the program that wrote it.

    Attributes:
        lines: Lines above the header.
        delimiter: The delimiter that it names.
        comment: How lines begin that are none of the table's.
        exclude: Columns that are no features, with the reason.
    """

    lines: int = 0
    delimiter: str | None = None
    comment: str = ""
    exclude: Mapping[str, str] = {}


@dataclass(frozen=True)
class Head:
    """What stands above the data, and the names of the columns.

    Attributes:
        lines: Lines that are not data: titles, the header, units.
        names: Names of the columns.
        exclude: Columns that are no features unless named, with the reason.
        notes: What was decided, for the user to check.
    """

    lines: int
    names: tuple[str, ...]
    exclude: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def special_of(first: bytes) -> Special:
    """Tell by a file's first line whether a program wrote it that puts lines above the header.

    Example:
        >>> special_of(b"sep=;").delimiter
        ';'
    """
    text = first.decode("utf-8", "replace").strip()
    named = re.fullmatch(r'"?[sS][eE][pP]=(.|\\t)"?', text)
    if named:
        return Special(1, "\t" if named[1] == "\\t" else named[1])
    if re.match(r'"?TOA5"?,', text):
        return Special(1, ",", exclude={"RECORD": "the logger counts its rows in it"})
    if text.split(",")[0] in _INFLUX:
        count = "InfluxDB counts its tables in it"
        return Special(0, ",", "#", {"table": count})
    return Special()


class FirstLines:
    """The fields of the first lines, and what they look like.

    Args:
        rows: The fields of each line.
        decimal: Decimal mark.
        nulls: Texts of a missing number.
    """

    def __init__(self, rows: Sequence[Sequence[str]], decimal: str, nulls: Sequence[str]) -> None:
        self.rows = rows
        self._number = re.compile(number_pattern(decimal))
        self._nulls = {"", *nulls}

    def is_number(self, cell: str) -> bool:
        """Check whether a cell is a plain number."""
        return self._number.fullmatch(cell) is not None

    def is_null(self, cell: str) -> bool:
        """Check whether a cell stands for a missing value, or may do so."""
        return cell.strip() in self._nulls or cell.strip().lower() in MARKS

    def numeric(self, start: int, width: int) -> list[bool]:
        """Return which columns are numbers from a line on."""
        rows = [row for row in self.rows[start:] if len(row) == width]
        found = []
        for column in range(width):
            there = [row[column] for row in rows if not self.is_null(row[column])]
            numbers = sum(map(self.is_number, there))
            found.append(2 * numbers > len(there))
        return found

    def is_alike(self, at: int, column: int, start: int) -> bool:
        """Check whether a text cell is like those of its column below: one, or of their form."""
        cell = self.rows[at][column]
        below = [row[column] for row in self.rows[start:] if len(row) > column]
        if not cell.strip():
            return False
        form = _form(cell)
        return cell in below or ("0" in form and any(_form(text) == form for text in below))

    def is_data(self, width: int) -> bool:
        """Check whether the first line is one of data.

        It is if all of its fields are numbers (but not 0, 1, 2 ... in order), or if it has
        numbers where the lines after it have, and a text that is like one of those below it.
        """
        first = self.rows[0]
        if len(first) > 1 and list(first) == [str(i) for i in range(len(first))]:
            return False
        there = [cell for cell in first if cell.strip() not in self._nulls]
        if there and all(map(self.is_number, there)):
            return True
        if len(first) != width:
            return False
        numeric = self.numeric(1, width)
        numbers = [first[column] for column in range(width) if numeric[column]]
        if not all(self.is_number(cell) or self.is_null(cell) for cell in numbers):
            return False
        if not any(map(self.is_number, numbers)):
            return False
        return any(self.is_alike(0, at, 1) for at in range(width) if not numeric[at])

    def beneath(self, width: int) -> int:
        """Return how many lines below the header are units and the like.

        They have texts where the lines after them have numbers, and no number in any column.
        """
        for at in range(1, _MOST_BENEATH + 1):
            if len(self.rows) < at + 3 or len(self.rows[at]) != width:
                return at - 1
            row, numeric = self.rows[at], self.numeric(at + 1, width)
            numbers = [row[column] for column in range(width) if numeric[column]]
            is_text = any(not self.is_null(cell) for cell in numbers)
            texts = [column for column in range(width) if not numeric[column]]
            alike = any(self.is_alike(at, column, at + 1) for column in texts)
            if any(map(self.is_number, row)) or alike or not (is_text or at > 1):
                return at - 1
        return _MOST_BENEATH


def _form(text: str) -> str:
    """Return what a text looks like: digits, letters and marks."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "0", text.strip()))


def cut(text: str, delimiter: str, quote: str) -> list[str]:
    """Cut a line into fields; none if its quotes do not close."""
    if not quote:
        return text.split(delimiter)
    try:
        return next(python_csv.reader([text], delimiter=delimiter, quotechar=quote), [])
    except python_csv.Error:
        return []


def check_titles(path: str, cells: FirstLines, skipped: int, places: Sequence[int]) -> None:
    """Refuse a file whose first lines are none of its table.

    Args:
        path: The file.
        cells: Its first lines.
        skipped: What `skip_lines` is.
        places: Number in the file of each of these lines, from 0.

    Raises:
        ConfigError: naming what leaves them out.
    """
    counts = [len(row) for row in cells.rows]
    width, _ = max(Counter(counts).items(), key=lambda item: (item[1], item[0]))
    at = counts.index(width)
    if at == 0:
        at = _padded(cells, width)
    rest = counts[at:]
    is_table = width > 1 and len(rest) > 1 and 10 * rest.count(width) >= 9 * len(rest)
    if at == 0 or at > _MOST_TITLES or not is_table or (at == 1 and _is_header(cells, width)):
        return
    begins = {row[0].lstrip()[:1] if row else "" for row in cells.rows[:at]}
    (mark,) = begins if len(begins) == 1 else ("",)
    lines = places[at]
    other = f", or --comment {mark!r}" if mark and not (mark.isalnum() or mark in "\"'") else ""
    allowed = (
        f"{lines} for {path}: its table begins below its first {lines} lines, with "
        f"{shorten(','.join(cells.rows[at]))} (try skip_lines {lines}{other})"
    )
    raise ConfigError("skip_lines", skipped, allowed)


def _padded(cells: FirstLines, width: int) -> int:
    """Return where the header is if a title stands above it, filled up with empty fields."""
    first = [cell for cell in cells.rows[0] if cell.strip()]
    if width < 3 or len(first) > 1 or not first or cells.is_number(first[0]):
        return 0
    for at, row in enumerate(cells.rows[1:_MOST_TITLES], 1):
        if len([cell for cell in row if cell.strip()]) >= width - 1:
            return at if not any(map(cells.is_number, row)) else 0
    return 0


def _is_header(cells: FirstLines, width: int) -> bool:
    """Check whether the first line may be the header of lines that are longer, or shorter."""
    first = cells.rows[0]
    if len(first) > width:
        return not any(cell.strip() for cell in first[width:])
    return len(first) > 1 and (len(first) == width - 1 or not any(_tail(cells, len(first), width)))


def _tail(cells: FirstLines, start: int, width: int) -> list[str]:
    """Return what is not empty in the last fields of the lines of so many fields."""
    rows = [row for row in cells.rows[1:] if len(row) == width]
    return [cell for row in rows for cell in row[start:] if cell.strip()]


def _width_below(cells: FirstLines, width: int) -> int:
    """Return how many fields the lines below a header of so many have, if they agree on it."""
    counts = Counter(len(row) for row in cells.rows[1:])
    most, lines = max(counts.items(), key=lambda item: (item[1], item[0]), default=(width, 0))
    return most if lines > 1 and 10 * lines >= 9 * counts.total() else width


def _has_ends(cells: FirstLines, width: int) -> bool:
    """Check whether header and lines differ by empty fields at the end of one of them alone."""
    header = cells.rows[0]
    ends = [cell for cell in header[width:] if cell.strip()] + _tail(cells, len(header), width)
    return not ends and width - len(header) <= _MOST_TRAILING


def names_of(path: str, cells: FirstLines, sure: bool) -> Head:
    """Read a header: names, one for each field of the lines below it.

    Fields without a name are called "(unnamed)", repeated names get a number.

    Args:
        path: The file.
        cells: Its first lines.
        sure: Whether the user says that the first line is the header, and all others are data.

    Raises:
        DataError: if the lines below have other fields than it names, and nobody is sure.
    """
    header = list(cells.rows[0])
    width, notes = _width_below(cells, len(header)), list[str]()
    if len(header) != width:
        ends = _has_ends(cells, width)
        if not ends and not sure and width > 1:
            reason = f"its header has {len(header)} fields and the lines below it {width}"
            raise DataError(path, f"{reason}: name all columns (--names NAME ... --header)")
        header = header[:width] + [""] * (width - len(header)) if ends else header
    names: list[str] = []
    exclude: dict[str, str] = {}
    taken = Counter[str]()
    known = {name.strip() for name in header}
    for text in header:
        name = text.strip() or _UNNAMED
        taken[name] += 1
        number, own = taken[name], name
        while number > 1 and (own == name or own in known or own in names):
            own = f"{name} ({number})"
            number += 1
        if name == _UNNAMED:
            exclude[own] = _NO_NAME
        elif own != name:
            notes.append(f"two columns are called {shorten(name)}: the later one is {own!r}")
        names.append(own)
    beneath = 0 if sure else cells.beneath(width)
    if beneath:
        shown = shorten(",".join(cells.rows[1]))
        lines = "line" if beneath == 1 else "lines"
        notes.append(f"{beneath} {lines} below the header left out: no data, such as {shown}")
    return Head(1 + beneath, tuple(names), exclude, tuple(notes[:_MOST_WORDS]))
