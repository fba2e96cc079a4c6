"""Columns that nobody named and nothing reads, and that may say a row's device or its time."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import pyarrow as pa

from transforms.read.columns import Columns
from transforms.read.formats import FileInfo

DEVICES = "device|machine|asset|unit|vehicle|station|subject|patient|user|customer|serial"
"""What devices are called; a column with such a name and nothing but numbers counts them."""

_DEVICE = re.compile(
    rf"(?i:(.*[_\-. ])?id|({DEVICES}|sensor|robot|meter|pump|motor|engine|turbine|host|tag)"
    r"([_\-. ]?(no|nr|num|number|name))?)|.*[a-z0-9]I[dD]"
)
_TIME = re.compile(r"(?i:(.*[_\-. ])?(time|timestamp|datetime|date|ts))|.*[a-z0-9]T(ime|imestamp)")


def unused_warnings(infos: Sequence[FileInfo], columns: Columns) -> list[str]:
    """Return which columns may be the devices', or the times, where the job has none.

    Without a device, rows of all devices are those of one; without a time, the order of the file
    counts. Columns that the user excludes are not told of.
    """
    if not columns.width:
        return []
    schema = infos[0].schema
    unused = [name for name, why in columns.left_out if why != "excluded" and name in schema.names]
    lines = []
    if columns.model_id is None:
        ids = [name for name in unused if _DEVICE.fullmatch(name)]
        lines += _line(ids, "a device's ID", "all rows count as one device's", "--model-id")
    if columns.time is None:
        times = [
            name
            for name in unused
            if _TIME.fullmatch(name) or pa.types.is_temporal(schema.field(name).type)
        ]
        lines += _line(times, "a time", "rows count in the order of the file", "--time")
    return lines


def _line(names: Sequence[str], what: str, so: str, flag: str) -> list[str]:
    if not names:
        return []
    quoted = [shlex.quote(name) for name in names]
    ways = f"{' or '.join(f'{flag} {name}' for name in quoted)}, or --exclude {' '.join(quoted)}"
    return [f"{', '.join(names)}: left out, but looks like {what}; so {so} ({ways})"]
