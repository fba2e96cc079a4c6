"""Excel workbooks, as small as Excel's format allows."""

from __future__ import annotations

import datetime
import io
import zipfile
from typing import Any
from xml.sax.saxutils import escape

_SPACE = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PARTS = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_EPOCH = datetime.datetime(1899, 12, 30)
_DAY = datetime.timedelta(days=1)


def workbook(**sheets: list[list[Any]]) -> bytes:
    """Return a workbook of sheets, which are rows of cells.

    A cell is a text, a number, a truth or a time; None: it is empty.
    """
    names = list(sheets)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        kinds = "".join(
            f'<Override PartName="/xl/worksheets/{i}.xml" ContentType="{_PARTS}.worksheet+xml"/>'
            for i in range(len(names))
        )
        _add(
            archive,
            "[Content_Types].xml",
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            '<Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{_PARTS}.sheet.main+xml"/>'
            f'<Override PartName="/xl/styles.xml" ContentType="{_PARTS}.styles+xml"/>{kinds}'
            "</Types>",
        )
        _add(archive, "_rels/.rels", _related([("officeDocument", "xl/workbook.xml")]))
        parts = [("worksheet", f"worksheets/{i}.xml") for i in range(len(names))]
        related = _related([*parts, ("styles", "styles.xml")])
        _add(archive, "xl/_rels/workbook.xml.rels", related)
        listed = "".join(
            f'<sheet name="{name}" sheetId="{i + 1}" r:id="r{i}"/>' for i, name in enumerate(names)
        )
        spaces = f'xmlns="{_SPACE}" xmlns:r="{_DOCUMENT}"'
        xml = f"<workbook {spaces}><sheets>{listed}</sheets></workbook>"
        _add(archive, "xl/workbook.xml", xml)
        _add(
            archive,
            "xl/styles.xml",
            f'<styleSheet xmlns="{_SPACE}"><cellXfs><xf numFmtId="0"/><xf numFmtId="22"/></cellXfs>'
            "</styleSheet>",
        )
        for i, rows in enumerate(sheets.values()):
            lines = "".join(_row(cells, at) for at, cells in enumerate(rows))
            sheet = f'<worksheet xmlns="{_SPACE}"><sheetData>{lines}</sheetData></worksheet>'
            _add(archive, f"xl/worksheets/{i}.xml", sheet)
    return data.getvalue()


def _add(archive: zipfile.ZipFile, name: str, xml: str) -> None:
    archive.writestr(name, f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>{xml}')


def _related(parts: list[tuple[str, str]]) -> str:
    each = "".join(
        f'<Relationship Id="r{i}" Type="{_DOCUMENT}/{kind}" Target="{target}"/>'
        for i, (kind, target) in enumerate(parts)
    )
    return f'<Relationships xmlns="{_RELATIONS}">{each}</Relationships>'


def _row(cells: list[Any], row: int) -> str:
    written = "".join(_cell(value, column, row) for column, value in enumerate(cells))
    return f'<row r="{row + 1}">{written}</row>'


def _cell(value: Any, column: int, row: int) -> str:
    place = f'r="{chr(ord("A") + column)}{row + 1}"'
    if value is None:
        return ""
    if isinstance(value, str):
        return f'<c {place} t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    if isinstance(value, bool):
        return f'<c {place} t="b"><v>{int(value)}</v></c>'
    if isinstance(value, datetime.datetime):
        return f'<c {place} s="1"><v>{(value - _EPOCH) / _DAY!r}</v></c>'
    return f"<c {place}><v>{value!r}</v></c>"
