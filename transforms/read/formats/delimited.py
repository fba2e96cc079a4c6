"""CSV, TSV and PAMAP2's `.dat`: lines of fields, typed by a look at the first block."""

from __future__ import annotations

import csv as python_csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from kerneltrack.errors import ConfigError, DataError, shorten
from kerneltrack.number_texts import number_pattern
from transforms.read.format_options import NULL_VALUES, FormatOptions
from transforms.read.formats.base import (
    FileInfo,
    NoLine,
    PieceRows,
    Suggested,
    check_names,
)
from transforms.read.formats.endings import split_ending
from transforms.read.formats.fields import (
    Dialect,
    field_texts,
    parse_fields,
)
from transforms.read.formats.guess import Guess, guess
from transforms.read.formats.head import (
    LOOKED_AT,
    FirstLines,
    Head,
    check_titles,
    cut,
    names_of,
    special_of,
)
from transforms.read.formats.lines import BLOCK_BYTES, Lines, TextPiece, read_lines

_TYPING_LINES = 20_000
"""Types are guessed from this many lines at most."""

_LATER_BYTES = 256 << 20
_DELIMITER_LINES = 100
_LEAST_OPEN = 2
"""Lines whose quotes do not close; a row of two pieces has as many."""
_DELIMITERS = (";", "\t", "|", ",", " ")

_IMU = (
    "temperature",
    *(f"{sensor}_{axis}" for sensor in ("acc16", "acc6", "gyro", "mag") for axis in "xyz"),
    *(f"orientation_{number}" for number in range(1, 5)),
)
PAMAP2_NAMES = (
    "time",
    "activity_id",
    "heart_rate",
    *(f"{place}_{name}" for place in ("hand", "chest", "ankle") for name in _IMU),
)
"""The 54 columns of PAMAP2's Protocol and Optional files, which have no header line."""

_PAMAP2_EXCLUDED = {"heart_rate": "measured at 9 Hz, missing in most rows"} | {
    name: "not valid in this data set, says its readme"
    for name in PAMAP2_NAMES
    if "orientation" in name
}


@dataclass(frozen=True)
class DelimitedPiece(TextPiece):
    """A whole file of delimited text.

    Attributes:
        dialect: How lines are cut.
        head: Lines above the data: titles, the header, units. Blank ones and comments come on top.
        comment: Prefix of lines to skip.
        encoding: The text's encoding.
        skip: Lines of the file that are skipped, whatever they are.
    """

    dialect: Dialect
    head: int
    comment: str
    encoding: str
    skip: int = 0

    def rows_of(self, lines: Lines, row: int, columns: Mapping[str, pa.DataType]) -> PieceRows:
        """Parse lines as the given types."""
        return parse_fields(lines, self.dialect, columns, row)

    def blocks(self) -> Iterator[Lines]:
        """Stream the data lines: without header, blank lines and comments."""
        skip, head, dialect = self.skip, self.head, self.dialect
        quote = ord(dialect.quote) if dialect.quote and dialect.multiline else None
        for block in read_lines(self.path, self.encoding, quote):
            skipped = min(skip, len(block))
            skip -= skipped
            lines = block.slice(skipped, len(block)) if skipped else block
            lines = lines.without_blank(self.comment.encode())
            if dialect.delimiter == " ":
                lines = collapse_blanks(lines)
            if head and len(lines):
                above = min(head, len(lines))
                lines, head = lines.slice(above, len(lines)), head - above
            if len(lines):
                yield lines


def inspect_csv(path: str, options: FormatOptions) -> FileInfo:
    """Look at the first block of a CSV file: names and types of its columns.

    A column is taken for numbers if more than half of its values are; the others' rows are
    then bad if the column is needed.

    Raises:
        DataError: if the file has no line, or two columns share a name.
        ConfigError: if no delimiter is set, and another than the usual one cuts the lines.
    """
    delimiter = options.delimiter
    if delimiter is None:
        delimiter = "\t" if split_ending(path)[0] in (".tsv", ".tab") else ","
    if options.thousands == delimiter and not options.quote:
        allowed = f"another character than the delimiter of {path}, or numbers in quotes"
        raise ConfigError("thousands", options.thousands, allowed)
    for field, mark in (("quote", options.quote), ("decimal", options.decimal)):
        if mark == delimiter:
            raise ConfigError(field, mark, f"another character than the delimiter of {path}")
    dialect = Dialect(
        names=("?",),
        delimiter=delimiter,
        quote=options.quote,
        decimal=options.decimal,
        null_values=(*NULL_VALUES, *_texts_among(options.null_values, options.decimal)),
        multiline=options.multiline,
        thousands=options.thousands,
    )
    piece = DelimitedPiece(
        path, 0, None, dialect, 0, options.comment, options.encoding, options.skip_lines
    )
    lines = _first_lines(piece)
    special = special_of(lines.text(0))
    if special.comment and not options.comment:
        piece = replace(piece, comment=special.comment)
        _check_one_table(piece)
    if special.delimiter is not None and options.delimiter is None:
        dialect = replace(dialect, delimiter=special.delimiter)
    piece = replace(piece, dialect=dialect, head=special.lines)
    lines = _first_lines(piece)
    if options.delimiter is None and special.delimiter is None:
        _check_delimiter(path, lines.slice(0, _DELIMITER_LINES), delimiter, options.quote)
    _check_line_ends(path, lines.slice(0, _DELIMITER_LINES), dialect)
    head = _head(piece, lines, options)
    piece = replace(
        piece, dialect=replace(dialect, names=head.names), head=special.lines + head.lines
    )
    suggested = Suggested(exclude={**special.exclude, **head.exclude})
    info = _info(piece, "csv", lines.slice(head.lines, _TYPING_LINES), suggested)
    return replace(info, notes=head.notes)


def _texts_among(null_values: Sequence[str], decimal: str) -> list[str]:
    """Return those that are no numbers: numbers are met as such, however they are written."""
    number = re.compile(number_pattern(decimal))
    plain = re.compile(number_pattern())
    return [text for text in null_values if not (number.match(text) or plain.match(text))]


def _head(piece: DelimitedPiece, lines: Lines, options: FormatOptions) -> Head:
    """Find out what the first lines are, and the names of the columns.

    Raises:
        ConfigError: if lines stand above the table.
        DataError: if names and lines do not go together.
    """
    path, dialect = piece.path, piece.dialect
    first = _split_line(path, lines.text(0), dialect)
    texts = [lines.text(at).decode("utf-8", "replace") for at in range(min(len(lines), LOOKED_AT))]
    rows = [first, *(cut(text, dialect.delimiter, dialect.quote) for text in texts[1:])]
    cells = FirstLines(rows, dialect.decimal, dialect.null_values)
    if options.names is not None:
        names, above = tuple(options.names), int(bool(options.header))
        width = len(rows[above]) if len(rows) > above else len(first)
        if len(names) != width:
            raise DataError(path, f"{width} columns instead of the {len(names)} named")
        check_names(path, names)
        return Head(above, names)
    if options.header is None and not piece.head:
        check_titles(path, cells, options.skip_lines, _places(piece, LOOKED_AT))
    header = options.header
    if header is None:
        header = not cells.is_data(len(rows[1]) if len(rows) > 1 else len(first))
    if header:
        return names_of(path, cells, sure=options.header is True)
    numbers = all(cells.is_number(cell) or cells.is_null(cell) for cell in first)
    mixed = options.header is None and not numbers
    note = "has no header: its first line is like those after it (--header if it names the columns)"
    names = tuple(f"f{at}" for at in range(len(first)))
    return Head(0, names, notes=(note,) if mixed else ())


def _places(piece: DelimitedPiece, most: int) -> list[int]:
    """Return where in the file the first lines stand that are neither blank nor comments."""
    comment = piece.comment.encode()
    for block in read_lines(piece.path, piece.encoding):
        texts = [block.text(at) for at in range(min(len(block), most + piece.skip))]
        return [
            at
            for at, text in enumerate(texts)
            if at >= piece.skip and text and not (comment and text.startswith(comment))
        ]
    return []


def _check_one_table(piece: DelimitedPiece) -> None:
    """Refuse a file of InfluxDB's that holds several tables, whose columns differ.

    Raises:
        DataError: naming the line at which the second begins.
    """
    at, data = 0, False
    for block in read_lines(piece.path, piece.encoding):
        begins = block.first_bytes() == ord("#")
        # Lines of data, a header among them, then annotations: another table.
        seen = np.logical_or.accumulate(np.concatenate([[data], ~begins & ~block.is_blank()]))
        again = np.flatnonzero(begins & seen[:-1])
        if len(again):
            where = f"line {at + int(again[0]) + 1}"
            reason = "another table begins here, with columns of its own: write a file for each"
            raise DataError(piece.path, reason, where)
        at, data = at + len(block), bool(seen[-1])


def inspect_pamap2(path: str, options: FormatOptions) -> FileInfo:
    """Look at a PAMAP2 file: 54 columns, time in seconds.

    Raises:
        DataError: if the file has no line or its first line has another number of fields.
    """
    dialect = Dialect(names=PAMAP2_NAMES, delimiter=" ", quote="")
    piece = DelimitedPiece(path, 0, None, dialect, 0, options.comment, options.encoding)
    lines = _first_lines(piece)
    if special_of(lines.text(0)).delimiter:
        return inspect_csv(path, options)
    fields = len(lines.text(0).split(b" "))
    if fields != len(PAMAP2_NAMES):
        reason = f"{fields} columns instead of PAMAP2's 54 (other text: --format csv)"
        raise DataError(path, reason, "line 1")
    types = dict.fromkeys(PAMAP2_NAMES, pa.float64()) | {"activity_id": pa.int64()}
    suggested = Suggested(time="time", label="activity_id", exclude=_PAMAP2_EXCLUDED)
    schema = pa.schema(list(types.items()))
    return FileInfo(path, "pamap2", schema, None, (piece,), text=True, suggested=suggested)


def collapse_blanks(lines: Lines) -> Lines:
    """Make every run of spaces and tabs one space, and drop those at the ends of lines."""
    data = lines.bytes_array()
    blank = (data == ord(" ")) | (data == ord("\t"))
    if not blank.any():
        return lines
    before = np.empty_like(blank)
    before[0] = True
    before[1:] = blank[:-1] | (data[:-1] == ord("\n"))
    data = np.where(blank, np.uint8(ord(" ")), data)[~(blank & before)]
    # What is left is at most one blank before a line feed.
    trailing = np.zeros(len(data), dtype=bool)
    trailing[:-1] = (data[:-1] == ord(" ")) & (data[1:] == ord("\n"))
    return Lines.of(data[~trailing].tobytes()).without_blank()


def _first_lines(piece: DelimitedPiece) -> Lines:
    """Return a block's worth of lines, or all if the file is shorter."""
    blocks = piece.blocks()
    lines = next(blocks, None)
    if lines is None:
        raise NoLine(piece.path)
    while len(lines.data) < BLOCK_BYTES:
        more = next(blocks, None)
        if more is None:
            break
        lines = lines.join(more)
    return lines


def _info(piece: DelimitedPiece, name: str, lines: Lines, suggested: Suggested) -> FileInfo:
    texts, dialect = field_texts(lines, piece.dialect), piece.dialect
    found = {key: guess(texts[key], dialect) for key in dialect.names}
    nothing = [key for key, each in found.items() if each.kind == pa.null()]
    if nothing:
        found |= _later(piece, nothing, len(lines))
    marks = {key: (each.decimal, each.thousands) for key, each in found.items() if each.decimal}
    return FileInfo(
        piece.path,
        name,
        pa.schema([(key, each.kind) for key, each in found.items()]),
        None,
        (piece,),
        text=True,
        suggested=suggested,
        decimals={
            key: decimal
            for key, (decimal, between) in marks.items()
            if decimal != dialect.decimal and not between
        },
        decimal=dialect.decimal,
        thousands={key: marks[key] for key in marks if marks[key][1]},
        units={key: each.unit for key, each in found.items() if each.unit},
        words={key: each.words for key, each in found.items() if each.words},
    )


def _later(piece: DelimitedPiece, names: Sequence[str], first: int) -> dict[str, Guess]:
    """Guess what columns are that have no value in so many first lines, by those that follow.

    The lines that are looked at take at most 256 MB.
    """
    found: dict[str, Guess] = {}
    wanted, seen, size = dict.fromkeys(names, pa.binary()), 0, 0
    for lines in piece.blocks():
        size += len(lines.data)
        seen += len(lines)
        if seen <= first:
            continue
        batch = parse_fields(lines, piece.dialect, wanted).batch
        for name in list(wanted):
            each = guess(batch.column(name), piece.dialect)
            if each.kind != pa.null():
                found[name] = each
                del wanted[name]
        if not wanted or size > _LATER_BYTES:
            break
    return found


def _check_delimiter(path: str, lines: Lines, delimiter: str, quote: str) -> None:
    """Refuse lines that another delimiter cuts into as many fields each, and this one does not.

    Raises:
        ConfigError: naming the other one.
    """
    texts = [lines.text(i).decode("utf-8", "replace") for i in range(len(lines))]
    now = _fields(texts, delimiter, quote)
    if now[0] > 1 and len(set(now)) == 1:
        return
    for other in _DELIMITERS:
        then = _fields(texts, other, quote)
        # Texts hold blanks, too: those of a single column are words only where there is no other
        # way to read it.
        if other == delimiter or (other == " " and (len(texts) == 1 or set(now) != {1})):
            continue
        if then[0] > 1 and 10 * then.count(then[0]) >= 9 * len(then):
            allowed = f"{other!r} for {path}: its first lines then have {then[0]} fields each, "
            allowed += f"now line 1 has {now[0]} (try delimiter {other!r})"
            raise ConfigError("delimiter", delimiter, allowed)


def _check_line_ends(path: str, lines: Lines, dialect: Dialect) -> None:
    """Refuse lines that are pieces of rows, whose quoted fields hold line ends.

    Raises:
        ConfigError: naming the flag.
    """
    if not dialect.quote or dialect.multiline:
        return
    texts = [lines.text(i).decode("utf-8", "replace") for i in range(len(lines))]
    if sum(text.count(dialect.quote) % 2 for text in texts) < _LEAST_OPEN:
        return
    try:
        rows = list(
            python_csv.reader(
                io.StringIO("\n".join(texts)),
                delimiter=dialect.delimiter,
                quotechar=dialect.quote,
            )
        )
    except python_csv.Error:
        return
    # The last one may go on.
    whole_rows = [row for row in rows[:-1] if row]
    widths = {len(row) for row in whole_rows}
    if len(widths) == 1 and max(widths) > 1 and any("\n" in "".join(row) for row in whole_rows):
        allowed = f"True for {path}: fields in quotes hold line ends there"
        raise ConfigError("multiline", False, allowed)


def _fields(texts: list[str], delimiter: str, quote: str) -> list[int]:
    """Count the fields of lines."""
    if delimiter == " ":
        return [len(text.split()) for text in texts]
    if not quote:
        return [text.count(delimiter) + 1 for text in texts]
    return [len(cut(text, delimiter, quote)) for text in texts]


def _split_line(path: str, line: bytes, dialect: Dialect) -> list[str]:
    """Cut the first line into fields; whether it is a header is not known yet."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        reason = f"{shorten(line)} is not UTF-8 (--encoding says another, such as cp1252)"
        raise DataError(path, reason, "line 1") from None
    if not dialect.quote:
        return text.split(dialect.delimiter)
    try:
        rows = list(python_csv.reader([text], delimiter=dialect.delimiter, quotechar=dialect.quote))
    except python_csv.Error as error:
        raise DataError(path, str(error), "line 1") from None
    return rows[0]
