"""Excel workbooks: a sheet is written as CSV once, at launch, and read as that is.

So title lines, units below the header and the like mean what they mean in CSV. Numbers keep all
their bits; times are those of the cells, to the millisecond.
"""

from __future__ import annotations

import csv
import importlib
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import IO, Any

from kerneltrack.errors import ConfigError, DataError
from transforms.read.format_options import FormatOptions
from transforms.read.formats.base import FileInfo
from transforms.read.formats.delimited import inspect_csv
from transforms.read.formats.files import open_file, parsing
from transforms.read.formats.spool import new_file

_EXACT = 2**53
_MILLISECOND = 1_000


def inspect_excel(path: str, options: FormatOptions) -> FileInfo:
    """Write a workbook's sheet as CSV, and look at it.

    Raises:
        ConfigError: if several sheets hold cells and none is named, or the named one is not there.
        DataError: if it is no workbook, or its cells are no table.
    """
    stored = new_file("sheet.csv")
    with open_file(path) as handle, parsing(path):
        sheet = _sheet(_workbook(handle), path, options.sheet)
        with open(stored, "w", encoding="utf-8", newline="") as file:
            _write(sheet, file)
    as_csv = replace(
        options, delimiter=",", quote='"', decimal=".", encoding="utf-8", multiline=False
    )
    try:
        return replace(inspect_csv(stored, as_csv), path=path, format="excel")
    except DataError as error:
        raise DataError(path, error.reason, error.position) from error


def _workbook(handle: IO[bytes]) -> Any:
    # An extra: mypy and a lean installation do without it.
    return importlib.import_module("python_calamine").CalamineWorkbook.from_filelike(handle)


def _sheet(workbook: Any, path: str, name: str | None) -> Any:
    """Return the sheet of a name, or the only one that holds cells.

    Raises:
        ConfigError: if there is none, or more than one.
        DataError: if all are empty.
    """
    names = workbook.sheet_names
    if name is not None:
        if name not in names:
            raise ConfigError("sheet", name, f"a sheet of {path}: {', '.join(names)}")
        return workbook.get_sheet_by_name(name)
    full = [each for each in map(workbook.get_sheet_by_name, names) if each.height]
    if not full:
        raise DataError(path, "no sheet of it holds a cell")
    if len(full) > 1:
        listed = ", ".join(each.name for each in full)
        raise ConfigError("sheet", None, f"named: {path} has several, {listed}")
    return full[0]


def _write(sheet: Any, file: IO[str]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    for cells in sheet.iter_rows():
        texts = [_text(cell) for cell in cells]
        if any(texts):
            writer.writerow(texts)
        else:
            file.write("\n")


def _text(cell: Any) -> str:
    """Write a cell: a whole number without a point, as ids are meant, a time in ISO 8601."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < _EXACT:
        return str(int(cell))
    if isinstance(cell, datetime):
        milliseconds = round(cell.microsecond / _MILLISECOND)
        return (cell.replace(microsecond=0) + timedelta(milliseconds=milliseconds)).isoformat()
    if isinstance(cell, timedelta):
        return repr(cell.total_seconds())
    if isinstance(cell, date | time):
        return cell.isoformat()
    return " ".join(str(cell).split())
