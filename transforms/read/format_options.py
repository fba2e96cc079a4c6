"""How files are read, beside what their bytes say."""

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
    """How files are read, beside what their bytes say.

    Raises:
        ConfigError: naming the field, the value and what is allowed.
    """

    format: Annotated[
        str | None, OneOf(tuple(FORMATS)), "Format of all files; without: by each file's ending."
    ] = None
    delimiter: Annotated[
        str | None,
        """One ASCII character between CSV fields; a space stands for any run of spaces and tabs.
        Without: a comma, or a tab for `.tsv`.""",
    ] = None
    quote: Annotated[
        str, """One ASCII character around CSV fields that hold the delimiter; "" for none."""
    ] = '"'
    header: Annotated[
        bool | None,
        """Whether the first CSV line names the columns. Without: it does unless it is like the
        lines after it: numbers where they have numbers (0, 1, 2 ... in order count as names).""",
    ] = None
    names: Annotated[
        Sequence[str] | None,
        "Column names of a CSV file without a header line; without: f0, f1, ...",
    ] = None
    skip_lines: Annotated[
        int,
        Range(0, 1_000_000),
        """Lines above the header of a CSV file, blank ones among them, that are skipped. A line
        `sep=;`, TOA5's first line and InfluxDB's `#` lines are skipped without.""",
    ] = 0
    comment: Annotated[str, """CSV lines that begin with this are skipped; "" for none."""] = ""
    encoding: Annotated[str, "Encoding of CSV, by Python's name."] = "utf-8"
    decimal: Annotated[str, "Decimal mark of CSV numbers."] = "."
    thousands: Annotated[
        str,
        """Mark between the thousands of CSV numbers, as in 1,004.27; a space stands for no-break
        ones, too; "" for none.""",
    ] = ""
    null_values: Annotated[
        Sequence[str],
        """More texts that mean a missing number in CSV; the empty one, NA, N/A, null, NaN and -
        always do. A number among them, such as -999, means one in every format, however put.""",
    ] = ()
    multiline: Annotated[bool, "Whether a quoted CSV field may hold line ends."] = False
    width: Annotated[
        int | None,
        Range(1, MAX_WIDTH),
        """Number of features of LIBSVM rows; without: the largest index in all files, found by a
        scan before the job.""",
    ] = None
    zero_based: Annotated[bool, "Whether LIBSVM indexes begin at 0 instead of 1."] = False
    arrays: Annotated[
        Sequence[str] | None,
        """Names of the `.npz` arrays to read as columns; without: X and, if there, y (which is then
        the label), else every array that has the first one's length.""",
    ] = None
    sheet: Annotated[
        str | None, "Sheet of an Excel workbook; without: the only one that holds cells."
    ] = None
    path_pattern: Annotated[
        str | None,
        """Regular expression that is looked for in each file's path; its named groups are columns,
        as `(?P<device>[^/]+)/(?P<date>[0-9]{8})[.]csv`.""",
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
