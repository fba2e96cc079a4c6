"""What a run says of missing values: which channels lack them, and what each choice would leave."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from kerneltrack.errors import fit
from kerneltrack.paths import join
from kerneltrack.snapshots.folder import SnapshotFolder
from pipelines.report.data.files import parquet_files, read_batches
from pipelines.report.text import counted, few
from transforms.outputs import FAILURES, SNAPSHOTS
from transforms.read.columns import Columns
from transforms.read.parse import MISSING, NULLS
from transforms.track.refusals import NOTHING_HELD

KEY = "missing"
TAKEN_OUT = "null_values"
GONE = "models_without_rows"
_MOST = 100
_SHOWN = 6
_NAME = 60


def missing_values(totals: Mapping[str, int], columns: Columns) -> dict[str, Any]:
    """Return what the record says of missing values: nothing where no row failed for one.

    Args:
        totals: The pipeline's counters.
        columns: What each column is.
    """
    rows = {
        name.removeprefix(MISSING): amount
        for name, amount in totals.items()
        if name.startswith(MISSING)
    }
    taken = {TAKEN_OUT: {"numbers": list(columns.nulls), "met": totals.get(NULLS, 0)}}
    taken = taken if columns.nulls else {}
    if not rows:
        return taken
    ranked = sorted(rows.items(), key=lambda item: (-item[1], item[0]))
    return {
        **taken,
        KEY: {
            "channels": len(rows),
            "of": columns.width,
            "rows": dict(ranked[:_MOST]),
        },
    }


def models_without_rows(output: str, failed: int) -> dict[str, Any]:
    """Return the models all of whose rows failed, for the record: nothing where there are none.

    Args:
        output: The run's folder.
        failed: Rows that failed.
    """
    names: set[str] = set()
    if failed:
        for batch in read_batches(parquet_files(output, FAILURES), ("model_id",)):
            names.update(pc.unique(batch.column("model_id")).drop_null().to_pylist())
    if not names:
        return {}
    kept = set(SnapshotFolder(join(output, SNAPSHOTS)).models)
    gone = sorted(names - kept)
    if not gone:
        return {}
    return {GONE: {"count": len(gone), "of": len(kept | names), "names": gone[:_MOST]}}


def missing_lines(record: Mapping[str, Any]) -> list[str]:
    """Return which channels lack values, what each `--missing` would leave, and who has no row."""
    lines = []
    nulls = record.get(TAKEN_OUT)
    if nulls is not None:
        numbers = " ".join(f"{number:g}" for number in nulls["numbers"])
        lines.append(f"missing:  --null-values {numbers}: {counted(nulls['met'], 'value')}")
    found = record.get(KEY)
    if found is not None:
        left = found["of"] - found["channels"]
        most = [f"{fit(n, _NAME)} in {counted(r, 'row')}" for n, r in found["rows"].items()]
        lines.append(
            f"missing:  {found['channels']:,} of {counted(found['of'], 'channel')} lack values: "
            f"{few(most, _SHOWN, found['channels'])}"
        )
        drop = f"--missing drop would leave {left:,} of {counted(found['of'], 'channel')}"
        lines.append(
            f"          {drop if left else '--missing drop would leave no channel'}; --missing "
            "hold takes a channel's last value for --hold-for seconds"
        )
        rows = record["counts"]["rows_in"]
        worst = [name for name, amount in found["rows"].items() if 2 * amount > rows]
        if worst and len(worst) < found["of"]:
            names = " ".join(shlex.quote(name) for name in worst[:_SHOWN])
            more = " ..." if len(worst) > _SHOWN else ""
            lines.append(f"          missing in most rows: --exclude {names}{more}")
    elif any(kind.endswith(NOTHING_HELD) for kind in record["failures"]):
        lines.append(
            "missing:  --hold-for SECONDS says how old the last value of a channel may be: a "
            "longer time takes more rows"
        )
    gone = record.get(GONE)
    if gone is not None and gone["count"] < gone["of"]:
        names = few([fit(name, _NAME) for name in gone["names"]], _SHOWN, gone["count"])
        lines.append(
            f"gone:     {gone['count']:,} of {counted(gone['of'], 'device')} have no row left, "
            f"all of theirs failed: {names}"
        )
    return lines
