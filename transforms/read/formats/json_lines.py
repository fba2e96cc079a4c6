"""JSON lines: an object a line, as `kerneltrack read-output`, pandas and most clouds write them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from kerneltrack.errors import DataError, shorten
from transforms.read.format_options import FormatOptions
from transforms.read.formats.base import FileInfo, NoLine, PieceRows
from transforms.read.formats.lines import Lines, TextPiece, first_block, read_lines
from transforms.read.formats.records import TYPING_RECORDS, Paths, Record, columns_of, rows_of

_HEAD = 1_000
_PROMETHEUS = re.compile(rb'\{\s*"status"\s*:\s*"\w+"\s*,\s*"data"\s*:\s*\{\s*"resultType"')
_PROMETHEUS_JQ = (
    "'.data.result[] | .metric as $m | (.values // [.value])[] | "
    "$m + {time: .[0], value: .[1] | tonumber}'"
)


@dataclass(frozen=True)
class JsonLinesPiece(TextPiece):
    """A whole file of JSON lines.

    Attributes:
        encoding: The text's encoding.
        paths: Where columns in nested objects are.
    """

    encoding: str
    paths: Paths

    def blocks(self) -> Iterator[Lines]:
        """Stream the lines that are not blank."""
        for block in read_lines(self.path, self.encoding):
            lines = block.without_blank()
            if len(lines):
                yield lines

    def rows_of(self, lines: Lines, row: int, columns: Mapping[str, pa.DataType]) -> PieceRows:
        """Convert the objects' values to the given types."""
        records, good, bad = _records_of(lines)
        refused = [(row + at, why) for at, why in bad.items()]
        return rows_of(records, good + row, refused, self.paths, columns)


def inspect_json_lines(path: str, options: FormatOptions) -> FileInfo:
    """Look at the first block of JSON lines: names and types of the columns.

    Raises:
        DataError: if the first line is no object, or the file is other JSON.
    """
    _refuse_other_json(path, first_block(path, options.encoding).lstrip()[:_HEAD])
    piece = JsonLinesPiece(path, 0, None, options.encoding, ())
    lines = next(piece.blocks(), None)
    if lines is None:
        raise NoLine(path)
    records, _, bad = _records_of(lines.slice(0, TYPING_RECORDS))
    if 0 in bad:
        how = "an object a line is read, as jq -c . FILE writes them"
        raise DataError(path, f"{bad[0]}: {how}", "line 1")
    if len(lines) == 1:
        _refuse_tables(path, records[0])
    schema, paths = columns_of(path, records)
    piece = JsonLinesPiece(path, 0, None, options.encoding, paths)
    return FileInfo(path, "jsonl", schema, None, (piece,), text=True, sparse=True)


def _refuse_other_json(path: str, head: bytes) -> None:
    """Refuse a file that begins as other JSON does, and say how it can be made JSON lines.

    Raises:
        DataError: for an array, or an answer of Prometheus.
    """
    if head.startswith(b"["):
        reason = "an array of records: an object a line is read, as jq -c '.[]' FILE writes them"
        raise DataError(path, f"{reason} (in pandas to_json with orient='records', lines=True)")
    if _PROMETHEUS.match(head) is not None:
        reason = "an answer of Prometheus: an object a line is read, as"
        long = "(--time time --metric __name__ --value value then reads them)"
        raise DataError(path, f"{reason} jq -c {_PROMETHEUS_JQ} FILE writes them {long}")


def _refuse_tables(path: str, only: Record) -> None:
    """Refuse the only object of a file if it is a whole table, not a row.

    Raises:
        DataError: saying how it can be made JSON lines.
    """
    for key, value in only.items():
        if type(value) is list and value and type(value[0]) is dict:
            jq = f"jq -c '.{key}[]' FILE" if key.isidentifier() else "jq"
            reason = f"all rows are in the list {shorten(key)}: an object a line is read, as {jq}"
            raise DataError(path, f"{reason} writes them")
    columns = list(only.values())
    if len(columns) > 1 and all(
        type(each) is dict and each.keys() == columns[0].keys() for each in columns
    ):
        reason = "an object of columns: an object a line is read"
        raise DataError(path, f"{reason} (in pandas to_json with orient='records', lines=True)")


def _records_of(lines: Lines) -> tuple[list[Record], Any, dict[int, str]]:
    """Return the objects of lines, the place of each, and the reason of each line that is none."""
    texts = lines.data.split(b"\n")[:-1]
    try:
        found = list(map(_DECODER.decode, texts))
    # Its own errors, Unicode's and recursion's: the lines are then taken one by one.
    except Exception:
        found = [_decoded(text) for text in texts]
    bad = {at: _why_no_record(each) for at, each in enumerate(found) if type(each) is not dict}
    good = np.array([at for at in range(len(found)) if at not in bad], dtype=np.int64)
    records = [each for each in found if type(each) is dict] if bad else found
    return records, good, bad


_DECODER = msgspec.json.Decoder()


class _NoJson(str):
    """Why a line is no JSON."""


def _decoded(text: bytes) -> Any:
    """Read a line as `json.loads` does, which knows NaN; msgspec is faster."""
    try:
        return _DECODER.decode(text)
    except Exception:
        try:
            return json.loads(text.decode("utf-8"))
        # ValueError of text that is no JSON, or no UTF-8; nesting without end.
        except (ValueError, RecursionError):
            return _NoJson(f"line = {shorten(text)}: not JSON")


def _why_no_record(value: Any) -> str:
    return str(value) if isinstance(value, _NoJson) else f"line = {shorten(value)}: not an object"
