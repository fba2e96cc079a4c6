"""Write the golden run, and what comes of continuing it: `python -m tests.golden.run.make`.

A run's folder as this version writes it, with the snapshots of trackers, references, drift
detectors, windows and learners; the rows that follow; and the digests of the outputs of a run that
continues from it. A folder that is there already is not written again.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from kerneltrack import codec
from tests.e2e.jobs import COLUMNS, command, labelled_table, run_process, track, write

FOLDER = Path(__file__).parent
RUN = FOLDER / f"v{codec.VERSION}"
BEFORE, AFTER, DEVICES = 1300, 300, 2
FLAGS = ("--rank", "3", "--budget", "6", "--warmup", "50", "--window", "2")
COMPANIONS = {
    "first": ("--reference", "first", "--reference-rows", "256", "--drift", "--learner", "ridge"),
    "auto": ("--reference", "auto", "--learner", "auto", "--intervals", "0.9"),
}


def continued(name: str, output: Path, *flags: str) -> dict[str, str]:
    """Continue a run with the rows that follow; return a digest of each output's columns."""
    start = ("--warm-start", str(RUN / name / "snapshots"))
    rows = str(RUN / "rows.parquet")
    track(rows, *COLUMNS, *FLAGS, *COMPANIONS[name], *start, *flags, "--output", str(output))
    return {
        f"{folder.name}/{column}": hashlib.sha256(_bytes(table.column(column))).hexdigest()
        for folder in sorted(output.iterdir())
        if folder.name != "snapshots" and any(folder.glob("*.parquet"))
        for table in [pq.read_table(folder)]
        for column in table.column_names
        if column != "source"
    }


def _bytes(column: pa.ChunkedArray) -> bytes:
    """An array's values alone: how they were cut into chunks and written is not theirs."""
    return json.dumps(column.to_pylist(), default=str).encode()


def main() -> None:
    """Write what is missing."""
    if RUN.exists():
        return
    RUN.mkdir()
    table = labelled_table(BEFORE + AFTER, models=DEVICES)
    write(RUN / "rows.parquet", table.slice(BEFORE))
    write(RUN / "before.parquet", table.slice(0, BEFORE))
    with TemporaryDirectory() as folder:
        digests = {name: _made(name, Path(folder)) for name in COMPANIONS}
    (RUN / "before.parquet").unlink()
    (RUN / "continued.json").write_text(json.dumps(digests, indent=1) + "\n")


def _made(name: str, folder: Path) -> dict[str, str]:
    """Write a run, whose record names no folder of this machine, and continue it."""
    flags = (*COLUMNS, *FLAGS, *COMPANIONS[name], "--output", name)
    run_process(command("track", "before.parquet", *flags), cwd=RUN).check_returncode()
    (RUN / name / "report.html").unlink()
    return continued(name, folder / name)


if __name__ == "__main__":
    main()
