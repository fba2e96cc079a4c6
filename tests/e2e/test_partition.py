"""The file job in processes: the bytes of one of Beam's runners, in files of the usual names."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kerneltrack import codec
from kerneltrack.snapshots.folder import SnapshotFolder
from pipelines.cli.main import main
from pipelines.files import partitioned, workers
from tests.e2e.jobs import (
    COLUMNS,
    SMALL,
    failures_of,
    features_of,
    files_under,
    labelled_table,
    lines_of,
    record_of,
    table_of,
    track,
    write,
)
from tests.parts import lanes
from transforms.beam_worker.runners import IN_PROCESS_RUNNER
from transforms.learn import plan
from transforms.partition import blocks, large

RUNNER = (f"--runner={IN_PROCESS_RUNNER}",)
ALL = ("--learner", "ridge", "--window", "5", "--drift", "--reference", "first")
MORE = ("--reference-rows", "256", "--metrics-window", "7", "--snapshot-every", "9")


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes for however small an input."""
    monkeypatch.setattr(workers, "MOST_ALONE_ROWS", 0)


@pytest.fixture
def packs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed snapshots for however few models."""
    monkeypatch.setattr(partitioned, "SINGLE_MODELS", 0)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two files of twelve models, rows in no order, some that are refused."""
    folder = tmp_path_factory.mktemp("rows")
    table = labelled_table(4800, models=12)
    mixed = pa.concat_tables([table.slice(2400), table.slice(0, 2400)])
    values = mixed.column("x1").to_pylist()
    values[5], values[777] = float("nan"), float("inf")
    place = mixed.schema.get_field_index("x1")
    mixed = mixed.set_column(place, "x1", pa.array(values))
    return [
        write(folder / "a.parquet", mixed.slice(0, 3600)),
        write(folder / "b.parquet", mixed.slice(3600)),
    ]


def states_of(output: Path) -> dict[tuple[str, int, str], bytes]:
    folder = SnapshotFolder(str(output / "snapshots"), learner=True)
    return {
        (model_id, entry["rows"], kind): folder.read(entry, kind)
        for model_id in folder.models
        for entry in folder.models[model_id]
        for kind in (codec.TRACKER, codec.LEARNER)
        if kind in entry
    }


def assert_same(output: Path, other: Path) -> None:
    parts = {path.name for path in output.iterdir() if path.is_dir()}
    assert parts == {path.name for path in other.iterdir() if path.is_dir()}
    assert features_of(output).equals(features_of(other))
    assert failures_of(output) == failures_of(other)
    assert states_of(output) == states_of(other)
    for part in parts - {"features", "failures", "snapshots"}:
        assert lines_of(output, part) == lines_of(other, part), part
    records = record_of(output), record_of(other)
    for name in ("counts", "failures", "outcome"):
        assert records[0][name] == records[1][name]


@pytest.mark.parametrize(
    "flags",
    [
        (*ALL, *MORE),
        ("--max-disorder", "3", "--max-jump", "100", "--learner", "ridge"),
        ("--missing", "hold", "--extras", "q", "s"),
        ("--tracker", "covariance", "--start-from", "LANDMARKS"),
    ],
    ids=["all", "disorder", "hold", "landmarks"],
)
def test_the_results_are_those_of_a_runner(
    flags: tuple[str, ...], sources: list[str], processes: None, packs: None, tmp_path: Path
) -> None:
    if "LANDMARKS" in flags:
        marks = str(tmp_path / "marks.json")
        names = ("--model-id", "model_id", "--time", "time", "--label", "label")
        assert (
            main(["landmarks", *sources, *names, "--output", marks, "--count", "5", "--rank", "3"])
            == 0
        )
        flags = tuple(marks if flag == "LANDMARKS" else flag for flag in flags)
    job = (*sources, *COLUMNS, *SMALL, *flags)
    track(*job, "--workers", "2", "--output", str(tmp_path / "processes"))
    track(*job, *RUNNER, "--output", str(tmp_path / "runner"))
    assert_same(tmp_path / "processes", tmp_path / "runner")
    record = record_of(tmp_path / "processes")
    assert (record["runner"], record["processes"]["workers"]) == ("processes", 2)
    assert record_of(tmp_path / "runner")["runner"] == "FnApiRunner"


@pytest.mark.parametrize(
    "flags",
    [
        (*ALL, *MORE),
        ("--max-disorder", "3", "--max-jump", "100", "--learner", "ridge"),
        ("--duplicates", "drop", "--missing", "hold"),
    ],
    ids=["all", "disorder", "duplicates"],
)
@pytest.mark.parametrize("most", lanes(4 << 10, 64 << 10), ids=["runs", "groups"])
def test_models_larger_than_memory(
    most: int,
    flags: tuple[str, ...],
    sources: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Merged from sorted runs on disk, or read in groups, they give the same."""
    job = (*sources, *COLUMNS, *SMALL, *flags, "--workers", "1")
    track(*job, "--output", str(tmp_path / "whole"))
    merged: list[str] = []
    monkeypatch.setattr(partitioned, "MOST_IN_MEMORY", most)
    monkeypatch.setattr(large, "LEAST_BLOCK", 16)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 30)
    monkeypatch.setattr(plan, "SLICE_ROWS", 30)
    merge = large._merged

    def counted(*given: Any) -> Any:
        merged.append("one")
        return merge(*given)

    monkeypatch.setattr(large, "_merged", counted)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    track(*job, "--temp-dir", str(scratch), "--output", str(tmp_path / "large"))
    assert_same(tmp_path / "whole", tmp_path / "large")
    assert len(merged) == (12 if most < 10_000 else 0)
    assert not list(scratch.iterdir())


def test_a_large_model_goes_on_from_snapshots(
    sources: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Rows that were learned from before are refused, as where they are all in memory."""
    job = (*COLUMNS, *SMALL, "--workers", "1", "--learner", "ridge")
    track(sources[0], *job, "--output", str(tmp_path / "first"))
    warm = ("--warm-start", str(tmp_path / "first" / "snapshots"))
    track(*sources, *job, *warm, "--output", str(tmp_path / "whole"))
    monkeypatch.setattr(partitioned, "MOST_IN_MEMORY", 4 << 10)
    monkeypatch.setattr(large, "LEAST_BLOCK", 16)
    track(*sources, *job, *warm, "--output", str(tmp_path / "large"))
    assert_same(tmp_path / "whole", tmp_path / "large")
    assert record_of(tmp_path / "large")["counts"]["rows_failed"] > 1000


def test_a_job_goes_on_from_packed_snapshots(
    sources: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As from single ones; and the models without rows are taken over."""
    flags = (*COLUMNS, *SMALL, "--learner", "ridge")
    table = pq.read_table(sources[0])
    few = write(tmp_path / "few.parquet", table.filter(pa.compute.equal(table["model_id"], "m/3")))
    outputs = []
    for name, most in (("packed", 0), ("single", 1000)):
        monkeypatch.setattr(partitioned, "SINGLE_MODELS", most)
        first, then = tmp_path / name, tmp_path / f"{name}-then"
        track(sources[1], *flags, "--output", str(first))
        warm = ("--warm-start", str(first / "snapshots"), "--reference", "first")
        track(few, *COLUMNS, *warm, "--output", str(then))
        outputs.append(then)
    assert (outputs[0] / "snapshots" / "part-00000-of-00001.parquet").exists()
    assert (outputs[1] / "snapshots" / "m%2F3.safetensors").exists()
    assert_same(*outputs)
    assert len({model_id for model_id, _, _ in states_of(outputs[0])}) == 12


def test_a_snapshot_is_taken_out_of_packed_ones(
    sources: list[str], packs: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = (*COLUMNS, *SMALL, "--learner", "ridge", "--snapshot-every", "20")
    track(sources[0], *flags, "--output", str(tmp_path / "out"))
    folder, file = str(tmp_path / "out" / "snapshots"), str(tmp_path / "m.safetensors")
    capsys.readouterr()
    assert main(["inspect", folder, "--model", "m/3", "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert (reported["kind"], reported["about"]["model_id"], reported["about"]["final"]) == (
        "tracker",
        "m/3",
        True,
    )
    assert main(["inspect", folder, "--model", "m/3", "--kind", "learner", "--output", file]) == 0
    found = codec.decode_learner(Path(file).read_bytes())
    assert found.header["about"]["model_id"] == "m/3"
    first = min(rows for model_id, rows, kind in states_of(tmp_path / "out") if model_id == "m/3")
    capsys.readouterr()
    assert main(["inspect", folder, "--model", "m/3", "--rows", str(first)]) == 0
    assert f"rows: {first}" in capsys.readouterr().out
    assert main(["inspect", folder, "--model", "nobody"]) == 2
    assert "--model = 'nobody': must be one with a tracker's snapshot" in capsys.readouterr().err
    assert main(["inspect", folder, "--model", "m/3", "--rows", "0"]) == 2
    assert "--rows = 0: must be rows of one of the tracker's snapshots" in capsys.readouterr().err
    assert main(["inspect", file, "--rows", "3"]) == 2
    assert "--rows = 3: must be given with --model only" in capsys.readouterr().err


def test_files_have_the_usual_names(sources: list[str], processes: None, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    flags = ("--workers", "3", "--temp-dir", str(temporary))
    track(*sources, *COLUMNS, *SMALL, *flags, "--output", str(tmp_path / "out"))
    files = files_under(tmp_path / "out")
    count = record_of(tmp_path / "out")["processes"]["partitions"]
    assert count == 12
    assert [name for name in files if name.startswith("features")] == [
        f"features/part-{number:05d}-of-{count:05d}.parquet" for number in range(count)
    ]
    assert any(name.startswith("failures/part-00000-of-") for name in files)
    assert list(temporary.iterdir()) == []
    assert table_of(tmp_path / "out", "failures").num_rows == 2


def test_flags_that_do_not_go_together(
    sources: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = ["track", *sources, *COLUMNS, *SMALL, "--output", str(tmp_path / "out")]
    for flags, says in (
        (["--workers", "2", *RUNNER], "--workers = 2: must be left out with Beam's flags"),
        (["--temp-dir", "x", *RUNNER], "--temp-dir = 'x': must be left out with Beam's flags"),
        (["--workers", "0"], "--workers = 0: must be"),
        (["--temp-dir", "/nowhere/at/all"], "--temp-dir = '/nowhere/at/all': must be a folder"),
    ):
        assert main([*job, *flags]) == 2
        assert says in capsys.readouterr().err
    shutil.rmtree(tmp_path / "out", ignore_errors=True)


def test_a_file_that_goes_away_is_one_line(
    sources: list[str],
    processes: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    gone = [str(shutil.copy(path, tmp_path)) for path in sources]
    build: Any = partitioned._spread_tasks

    def remove_first(*args: Any) -> Any:
        Path(gone[0]).unlink()
        return build(*args)

    monkeypatch.setattr(partitioned, "_spread_tasks", remove_first)
    flags = ("--workers", "2", "--output", str(tmp_path / "out"))
    assert main(["track", *gone, *COLUMNS, *SMALL, *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert gone[0] in line
    assert [name for name in files_under(tmp_path / "out")] == []
