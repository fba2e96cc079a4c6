"""How to read files, where their bytes leave a choice."""

from __future__ import annotations

import codecs
import dataclasses
import re
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from kerneltrack.errors import ConfigError
from kerneltrack.settings import OneOf, Range, Settings


class Format(NamedTuple):
    """A file format.

    Attributes:
        inspect: What looks at a file of it, as module and function here.
        endings: Of its files, before that of a compression.
        text: Whether its files may be compressed.
    """

    inspect: str
    endings: tuple[str, ...]
    text: bool = False


FORMATS = {
    "parquet": Format("parquet:inspect_parquet", (".parquet", ".parq", ".pq")),
    "csv": Format("delimited:inspect_csv", (".csv", ".tsv", ".tab", ".txt", ".data"), text=True),
    "jsonl": Format("json_lines:inspect_json_lines", (".jsonl", ".ndjson", ".json"), text=True),
    "avro": Format("avro:inspect_avro", (".avro",)),
    "excel": Format("excel:inspect_excel", (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")),
    "orc": Format("orc:inspect_orc", (".orc",)),
    "arrow": Format("arrow_ipc:inspect_arrow", (".arrow", ".arrows", ".feather", ".ipc")),
    "libsvm": Format("libsvm:inspect_libsvm", (".libsvm", ".svm", ".svmlight"), text=True),
    "npy": Format("arrays:inspect_npy", (".npy",)),
    "npz": Format("arrays:inspect_npz", (".npz",)),
    "pamap2": Format("delimited:inspect_pamap2", (".dat",), text=True),
}
"""By name. To add one: its file, and a line here. What is named is imported when a file is read."""
NULL_VALUES = (
    *("", "NA", "N/A", "#N/A", "NULL", "null", "NaN", "nan", "-nan", "-NaN", "n/a"),
    *("-", "--", "---"),
)
"""Texts that always stand for a missing number."""
MAX_WIDTH = 1_000_000
"""Most features of a row: rows are dense, a million float64 are 8 MB."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FormatOptions(Settings):
    """How to read files, where their bytes leave a choice.

    Raises:
        ConfigError: naming the field, the value and what is allowed.
    """

    format: Annotated[
        str | None, OneOf(tuple(FORMATS)), "Format of all files. Without it: by each file's ending."
    ] = None
    delimiter: Annotated[
        str | None,
        """Delimiter of CSV fields, one ASCII character. A space stands for any run of spaces and
        tabs. Without it: a comma, or a tab for `.tsv`.""",
    ] = None
    quote: Annotated[
        str,
        """Quote around CSV fields that contain the delimiter, one ASCII character; "" for none.""",
    ] = '"'
    header: Annotated[
        bool | None,
        """The first CSV line names the columns. Without either flag, it does unless it looks
        like the lines after it, with numbers where they have numbers (0, 1, 2, ... in order
        count as names).""",
    ] = None
    names: Annotated[
        Sequence[str] | None,
        "Column names of a CSV file without a header line. Without it: f0, f1, and so on.",
    ] = None
    skip_lines: Annotated[
        int,
        Range(0, 1_000_000),
        """Skip this many lines above the header of a CSV file, blank lines included. A line
        `sep=;`, the first line of TOA5 and the `#` lines of InfluxDB are skipped anyway.""",
    ] = 0
    comment: Annotated[str, """Skip CSV lines that begin with this; "" for none."""] = ""
    encoding: Annotated[str, "Encoding of CSV files, as Python names it."] = "utf-8"
    decimal: Annotated[str, "Decimal mark of CSV numbers."] = "."
    thousands: Annotated[
        str,
        """Thousands separator of CSV numbers, as in 1,004.27. A space also stands for no-break
        spaces; "" for none.""",
    ] = ""
    null_values: Annotated[
        Sequence[str],
        """More texts that mean a missing number in CSV. Empty cells, NA, N/A, null, NaN and -
        always do. A number, such as -999, counts as missing in every format, however it is
        written.""",
    ] = ()
    multiline: Annotated[bool, "Quoted CSV fields may contain line ends."] = False
    width: Annotated[
        int | None,
        Range(1, MAX_WIDTH),
        """Number of channels of LIBSVM rows. Without it: the largest index in all files, found
        by a scan before the job.""",
    ] = None
    zero_based: Annotated[bool, "LIBSVM indexes begin at 0, not at 1."] = False
    arrays: Annotated[
        Sequence[str] | None,
        """Arrays of a `.npz` file to read as columns. Without it: X and, if present, y as the
        label; else every array as long as the first.""",
    ] = None
    sheet: Annotated[
        str | None, "Sheet of an Excel workbook. Without it: the only sheet with cells."
    ] = None
    path_pattern: Annotated[
        str | None,
        """Regular expression to search for in each file's path. Its named groups become columns,
        as in `(?P<device>[^/]+)/(?P<date>[0-9]{8})[.]csv`.""",
    ] = None

    def check_together(self) -> None:
        """Check the marks, each by itself and side by side, and the encoding."""
        special = "one printable ASCII character other than a quote or a line end"
        if self.delimiter is not None and not _is_mark(self.delimiter):
            raise ConfigError("delimiter", self.delimiter, special + " (or a tab)")
        if self.quote and not _is_mark(self.quote):
            raise ConfigError("quote", self.quote, "one printable ASCII character, or empty")
        if self.quote and self.quote == self.delimiter:
            raise ConfigError("quote", self.quote, "another character than the delimiter")
        if not _is_mark(self.decimal) or self.decimal == self.delimiter:
            raise ConfigError(
                "decimal", self.decimal, "one ASCII character other than the delimiter"
            )
        if self.thousands and (not _is_mark(self.thousands) or self.thousands == self.decimal):
            raise ConfigError(
                "thousands", self.thousands, "one ASCII character other than the decimal mark"
            )
        if "\n" in self.comment or "\r" in self.comment:
            raise ConfigError("comment", self.comment, "a text without line ends")
        if not _is_text_encoding(self.encoding):
            raise ConfigError("encoding", self.encoding, "an encoding of text that Python knows")
        if self.path_pattern is not None and not path_groups(self.path_pattern):
            raise ConfigError("path_pattern", self.path_pattern, _PATTERN)


def path_groups(pattern: str | None) -> tuple[str, ...]:
    """Return the names of a pattern's groups; none without a pattern.

    Raises:
        ConfigError: if it is no regular expression.
    """
    try:
        return tuple(re.compile(pattern or "").groupindex)
    except re.error as error:
        raise ConfigError("path_pattern", pattern, f"{_PATTERN}: {error}") from error


def _is_mark(text: str) -> bool:
    return len(text) == 1 and text.isascii() and (text.isprintable() or text == "\t")


_PATTERN = "a regular expression with named groups, such as (?P<device>[^/]+)[.]csv"
_SAMPLE = "a,b\n-1.5e+3;'x'\t\r\n"


def _is_text_encoding(name: str) -> bool:
    """Check whether a codec reads text in pieces: hex, zlib, rot13, idna and the like do not."""
    try:
        decoder = codecs.getincrementaldecoder(name)(errors="surrogateescape")
        data = _SAMPLE.encode(name)
        text = "".join(decoder.decode(data[i : i + 1]) for i in range(len(data)))
        return text + decoder.decode(b"", True) == _SAMPLE
    # A codec that is none of text takes and gives other types, and raises whatever it meets.
    except Exception:
        return False
