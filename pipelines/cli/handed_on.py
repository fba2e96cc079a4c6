"""What a run decided about its columns, handed on to the jobs that go on from its snapshots."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from kerneltrack.errors import KerneltrackError
from kerneltrack.number_texts import NAMES
from kerneltrack.paths import join
from transforms.read.column_options import AUTO, NONE, ColumnOptions

_RECORD = "run.json"
_MOST_BYTES = 256 << 20


def columns_of(options: ColumnOptions, snapshots: str | None) -> ColumnOptions:
    """Return options with what the run decided that a job goes on from.

    These are words, units, counters, and the columns of a condition.

    What is given goes before. Snapshots without the record of their run hand nothing on.

    Args:
        options: What the user says of the columns.
        snapshots: The folder, None where there is none.
    """
    found = {} if snapshots is None else _columns_in(snapshots)
    words, units = found.get("words"), found.get("units")
    given: dict[str, Any] = {}
    conditions = found.get("conditions")
    if isinstance(conditions, dict):
        given["conditions"] = tuple((str(name), bool(texts)) for name, texts in conditions.items())
        # A column whose texts are names has them for the condition.
        words = {n: w for n, w in (words or {}).items() if n not in conditions or tuple(w) != NAMES}
    if isinstance(words, dict) and not options.words:
        given["words"] = tuple(f"{name}={','.join(pair)}" for name, pair in words.items())
    if isinstance(units, dict) and not options.units:
        given["units"] = tuple(f"{name}={unit}" for name, unit in units.items())
    if found and options.counters == AUTO:
        counters = found.get("counters")
        given["counters"] = tuple(counters) if isinstance(counters, list) else NONE
    return dataclasses.replace(options, **given) if given else options


def _columns_in(snapshots: str) -> Mapping[str, Any]:
    # Not for the help: where files are on other file systems, Beam is imported.
    from kerneltrack.snapshots.files import read_whole  # noqa: PLC0415

    parent = os.path.dirname(snapshots.rstrip("/"))
    try:
        record = json.loads(read_whole(join(parent, _RECORD) if parent else _RECORD, _MOST_BYTES))
        found = record["columns"]
    except (KerneltrackError, OSError, ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}
