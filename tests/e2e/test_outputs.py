"""Where commands write: nothing outside of the output, nothing that another job holds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.command_line import ROWS_EXIT
from pipelines.cli.main import main
from pipelines.output_lock import locked_file, locked_folder
from pipelines.report import write_report
from pipelines.run_folder import RUN
from tests.e2e.jobs import COLUMNS, ROOT, SMALL, environment, record_of, sensor_table, track, write
from tests.parts import lanes
from transforms.beam_worker.runners import IN_PROCESS_RUNNER

Capture = pytest.CaptureFixture[str]
OTHER = ["kerneltrack", "other"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run in `out` of `in.parquet` beside it."""
    folder = tmp_path_factory.mktemp("run")
    source = write(folder / "in.parquet", sensor_table(240))
    track(source, *COLUMNS, *SMALL, "--output", str(folder / "out"))
    return folder


def refused(capsys: Capture, *arguments: str) -> str:
    """Return the line with which a command is refused."""
    capsys.readouterr()
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_a_held_output_is_refused_by_every_command(
    run: Path, tmp_path: Path, capsys: Capture
) -> None:
    source, snapshots, out = str(run / "in.parquet"), str(run / "out" / "snapshots"), tmp_path / "o"
    shutil.copytree(run / "out", out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    flags = [*COLUMNS, "--output", str(out), "--overwrite"]
    with locked_folder(str(out), "--output", OTHER):
        for given, flag in (
            (["track", source, *flags, *SMALL], "--output"),
            (["score", source, *flags, "--snapshots", snapshots], "--output"),
            (["report", str(out)], "DIR"),
        ):
            line = refused(capsys, *given)
            assert f"{flag} = '{out}': must be one that no other job writes: " in line
            assert f"process {os.getpid()} on " in line
            assert line.endswith("(kerneltrack other), does")
    assert before == {path: path.stat().st_mtime_ns for path in before}
    target = str(tmp_path / "landmarks.json")
    with locked_file(target, "--output", OTHER):
        given = [
            "landmarks",
            source,
            *COLUMNS,
            "--count",
            "5",
            "--rank",
            "2",
            "--output",
            target,
            "--overwrite",
        ]
        assert f"process {os.getpid()} on " in refused(capsys, *given)
    assert os.listdir(tmp_path) == ["o"]


@pytest.mark.parametrize("name", ["", " ", "\n\t"])
def test_an_output_needs_a_name(
    name: str, run: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source, snapshots = str(run / "in.parquet"), str(run / "out" / "snapshots")
    for given in (
        ["track", source, *COLUMNS, "--output", name],
        ["score", source, *COLUMNS, "--snapshots", snapshots, "--output", name],
        ["landmarks", source, *COLUMNS, "--output", name],
    ):
        says = f"argument --output: {name!r} names no file or folder"
        assert says in refused(capsys, *given)
    assert f"argument DIR: {name!r} names no" in refused(capsys, "report", name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("part", ["features", "scores"])
def test_what_a_link_leads_to_is_not_cleared(
    part: str, run: Path, tmp_path: Path, capsys: Capture
) -> None:
    """Nor is it written to; a link to the output itself is as good as the output."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "part-00000-of-00001.parquet").write_text("precious")
    (tmp_path / "elsewhere" / "mine.unfinished").write_text("precious")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / part).symlink_to(tmp_path / "elsewhere")
    given = ["track", str(run / "in.parquet"), *COLUMNS, *SMALL, "--overwrite"]
    line = refused(capsys, *given, "--output", str(tmp_path / "out"))
    assert f"--output = '{tmp_path}/out': must be a folder in which {part} is no link" in line
    for path in (tmp_path / "elsewhere").iterdir():
        assert path.read_text() == "precious"
    assert len(os.listdir(tmp_path / "elsewhere")) == 2
    assert os.listdir(tmp_path / "out") == [part]


def test_an_input_that_a_link_hides_is_not_cleared(
    run: Path, tmp_path: Path, capsys: Capture
) -> None:
    shutil.copytree(run / "out", tmp_path / "out")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    source = str(tmp_path / "link" / "features" / "part-00000-of-00001.parquet")
    line = refused(capsys, "track", source, "--output", str(tmp_path / "out"), "--overwrite")
    assert "must be another folder than that of the input" in line
    assert os.path.exists(source)


def test_an_index_leads_to_no_other_folder(run: Path, tmp_path: Path, capsys: Capture) -> None:
    """Neither on reading nor on what is taken over; nor is what is no snapshot taken over."""
    snapshots = tmp_path / "before" / "snapshots"
    shutil.copytree(run / "out" / "snapshots", snapshots)
    (tmp_path / "before" / "secret.txt").write_text("secret")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret.txt").write_text("precious")
    index = (snapshots / "index.json").read_text()
    source = write(tmp_path / "more.parquet", sensor_table(120, models=1))
    given = ["track", source, *COLUMNS, "--warm-start", str(snapshots)]
    for name in ("../secret.txt", str(tmp_path / "before" / "secret.txt")):
        (snapshots / "index.json").write_text(index.replace("m%2F1.safetensors", name))
        line = refused(capsys, *given, "--output", str(tmp_path / "out"))
        assert "index.json: not an index of snapshots: entry 0 of model 'm/1'" in line
    assert os.listdir(tmp_path / "out") == ["secret.txt"]
    (snapshots / "index.json").write_text(index)
    (snapshots / "m%2F1.safetensors").write_text("secret")
    assert main([*given, "--output", str(tmp_path / "out")]) == ROWS_EXIT
    assert "m%2F1.safetensors: not a kerneltrack snapshot" in "".join(capsys.readouterr())
    assert (tmp_path / "out" / "secret.txt").read_text() == "precious"
    left = [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert "m%2F1.safetensors" not in left


def test_a_run_is_not_finished_before_its_report(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[list[str]] = []

    def look(output: str, record: Any, inputs: Any) -> str:
        written.append(sorted(os.listdir(output)))
        return write_report(output, record, inputs)

    monkeypatch.setattr("pipelines.files.track.write_report", look)
    track(str(run / "in.parquet"), *COLUMNS, *SMALL, "--output", str(tmp_path))
    assert written == [[".kerneltrack.lock", "failures", "features", "neighbours", "snapshots"]]
    report = (tmp_path / "report.html").read_text()
    assert main(["report", str(tmp_path)]) == 0
    assert len((tmp_path / "report.html").read_text()) == pytest.approx(len(report), abs=200)
    assert sorted(os.listdir(tmp_path)) == sorted(os.listdir(run / "out"))


@pytest.mark.parametrize("flags", [(), (f"--runner={IN_PROCESS_RUNNER}",)], ids=["none", "runner"])
def test_a_clock_that_jumps_changes_nothing(
    flags: tuple[str, ...], run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the wall clock is hours before or after the last one."""
    now, looks = time.time(), iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: now + (-1) ** next(looks) * 3600.0 * next(looks))
    output = tmp_path / "out"
    track(str(run / "in.parquet"), *COLUMNS, *SMALL, *flags, "--output", str(output))
    assert (next(looks) > 2) == bool(flags)  # Somebody did look: Beam.
    for path in (run / "out").rglob("*"):
        if path.is_file() and path.name not in {RUN, "report.html"}:
            assert (output / path.relative_to(run / "out")).read_bytes() == path.read_bytes()
    monkeypatch.undo()
    assert all(0 <= spent < 600 for spent in record_of(output)["seconds"].values())


AS_NOBODY = """
import os, sys
import cProfile, pstats  # Beam's own, which an interpreter of root's may hide later
import pipelines.files.track
from pipelines.cli.main import main
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("forbidden", lanes("output", "input", "a folder above", "an earlier run"))
def test_without_rights_a_job_ends_with_one_line(forbidden: str, run: Path, tmp_path: Path) -> None:
    """As a user who is not root: root may do all."""
    place = Path("/tmp") / f"kerneltrack-rights-{os.getpid()}"
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    try:
        source, out = place / "in.parquet", place / "out"
        shutil.copy(run / "in.parquet", source)
        source.chmod(0o644)
        if forbidden == "input":
            source.chmod(0)
            says = "in.parquet: no permission to read it"
        else:
            says = f"{out}: cannot be written: Permission denied"
        if forbidden == "output":
            out.mkdir(mode=0o555)
        elif forbidden == "a folder above":
            (place / "above").mkdir(mode=0o555)
            out = place / "above" / "out"
            says = f"{out}: cannot be written: Permission denied"
        elif forbidden == "an earlier run":
            shutil.copytree(run / "out", out)
            for path in [out, *out.rglob("*")]:
                path.chmod(0o555 if path.is_dir() else 0o444)
        given = ["track", str(source), *COLUMNS, *SMALL, "--output", str(out), "--overwrite"]
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, *given],
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        (line,) = done.stderr.splitlines()
        assert done.returncode == 2, line
        assert says in line
        if forbidden == "an earlier run":
            assert (out / RUN).exists()
    finally:
        for path in [place, *place.rglob("*")]:
            if path.is_dir():
                path.chmod(0o755)
        shutil.rmtree(place)
