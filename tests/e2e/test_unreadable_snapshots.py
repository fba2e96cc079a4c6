"""A snapshot that cannot be read costs its model alone: the others' results stay as they are."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kerneltrack.snapshots.files import snapshot_name
from pipelines.files import partitioned
from pipelines.report.data.failures import failures_of
from tests.e2e.jobs import (
    COLUMNS,
    SMALL,
    between,
    labelled_table,
    lines_of,
    models_of,
    nanoseconds,
    record_of,
    track,
    write,
)

ALONE = ("--neighbours", "0")
ASKED = (
    *SMALL,
    *ALONE,
    "--learner",
    "ridge",
    "--drift",
    "--reference",
    "first",
    "--reference-rows",
    "256",
)
HURT, SILENT = "m/1", "m/3"
TABLE = labelled_table(1600, models=4)
MIDDLE = int(nanoseconds(TABLE)[1200])


def hurt_files(folder: Path, kind: str, key: str) -> None:
    """Cut the file of a state."""
    path = folder / snapshot_name(key, None, kind)
    path.write_bytes(path.read_bytes()[:-9])


def hurt_packed(folder: Path, kind: str, key: str) -> None:
    """Take the header of a packed state away."""
    for path in folder.glob("*.parquet"):
        table = pq.read_table(path)
        named = zip(*(table.column(name).to_pylist() for name in ("model_id", "kind")), strict=True)
        hurt = pa.array([each == (key, kind) for each in named])
        headers = pc.if_else(hurt, "{}", table.column("header"))
        place = table.schema.get_field_index("header")
        pq.write_table(table.set_column(place, table.schema.field("header"), headers), path)


def of_others(output: Path, *without: str) -> dict[str, Any]:
    """What came of the models but for these, by output."""
    parts = [path.name for path in sorted(output.iterdir()) if path.is_dir()]
    return {
        part: {key: own for key, own in lines_of(output, part).items() if key not in without}
        for part in parts
        if part not in {"failures", "snapshots"}
    }


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("kind", ["tracker", "learner"])
def test_a_warm_start_goes_on_without_the_model(
    kind: str, packs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioned, "SINGLE_MODELS", 0 if packs else 1 << 30)
    before, later = between(TABLE, None, MIDDLE), between(TABLE, MIDDLE, None)
    later = later.filter(
        pa.array([name != SILENT for name in later.column("model_id").to_pylist()])
    )
    first, rows = write(tmp_path / "a.parquet", before), write(tmp_path / "b.parquet", later)
    track(first, *COLUMNS, *ASKED, "--output", str(tmp_path / "first"))
    sound, wrong = tmp_path / "first" / "snapshots", tmp_path / "wrong"
    shutil.copytree(sound, wrong)
    for key in (HURT, SILENT):
        (hurt_packed if packs else hurt_files)(wrong, kind, key)
    for name, folder in (("whole", sound), ("found", wrong)):
        flags = ("--warm-start", str(folder), "--output", str(tmp_path / name))
        track(rows, *COLUMNS, *ASKED, *flags)
    found, whole = tmp_path / "found", tmp_path / "whole"
    assert of_others(found, HURT) == of_others(whole, HURT)
    failed = [
        line
        for path in found.glob("failures/*.parquet")
        for line in pq.read_table(path).to_pylist()
    ]
    lost = [line for line in failed if line["model_id"] == HURT]
    assert len(lost) == len(models_of(later)[HURT])
    assert [line["row"] for line in failed if line["model_id"] == SILENT] == [None]
    assert {line["model_id"] for line in failed} == {HURT, SILENT}
    assert all(
        line["reason"].startswith("the model's snapshot cannot be read: ") for line in failed
    )
    examples = [each for kind in failures_of(str(found)) for each in kind.examples]
    assert f"model {SILENT}" in {each.where() for each in examples}
    assert record_of(found)["counts"]["rows_failed"] == len(lost)


def test_a_reference_that_cannot_be_read(tmp_path: Path) -> None:
    first = write(tmp_path / "a.parquet", TABLE)
    track(first, *COLUMNS, *ASKED, "--output", str(tmp_path / "first"))
    sound, wrong = tmp_path / "first" / "snapshots", tmp_path / "wrong"
    shutil.copytree(sound, wrong)
    hurt_files(wrong, "tracker", HURT)
    for name, folder in (("whole", sound), ("found", wrong)):
        track(
            first,
            *COLUMNS,
            *SMALL,
            *ALONE,
            "--reference",
            str(folder),
            "--output",
            str(tmp_path / name),
        )
    found = tmp_path / "found"
    assert of_others(found, HURT) == of_others(tmp_path / "whole", HURT)
    assert record_of(found)["counts"]["rows_failed"] == len(models_of(TABLE)[HURT])
