"""`kerneltrack score` holds rows against the reference that the snapshots have, and learns none."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from apache_beam.transforms.window import FixedWindows

from kerneltrack import codec
from kerneltrack.monitor import reference
from kerneltrack.monitor.mismatch import window_mismatch
from kerneltrack.monitor.reference import Episode, ReferenceSpec, Scores
from pipelines.cli.main import main
from pipelines.files.score import NO_REFERENCE
from tests.e2e.fleet import BROKEN, CHANNELS, PUMPS, ROWS, fleet, part
from tests.e2e.jobs import files_under, lines_of, record_of, snapshots_of, table_of, write
from tests.stream.test_reference import as_line
from transforms.write.schemas import MISMATCH_SCHEMA, episodes_schema

IDS = ("--model-id", "pump", "--time", "time")
HEAD = 560
SPEC = ReferenceSpec(learning="gated")


class Fleet:
    """A run over the first rows of every pump, and a file of the others."""

    def __init__(self, folder: Path) -> None:
        table = fleet()
        self.rest = part(table, HEAD, ROWS)
        self.run, self.rows = folder / "run", write(folder / "rest.parquet", self.rest)
        head = write(folder / "head.parquet", part(table, 0, HEAD))
        flags = ("--reference", "gated", "--output", str(self.run))
        assert main(["track", head, *IDS, *flags]) == 0
        self.snapshots = str(self.run / "snapshots")

    def rows_of(self, name: str) -> npt.NDArray[np.float64]:
        here = self.rest.filter(pa.compute.equal(self.rest["pump"], name))
        return np.stack([here[f"ch{place}"].to_numpy() for place in range(CHANNELS)], axis=1)

    def by_the_core(self, name: str) -> tuple[Scores, list[Episode]]:
        """What the snapshot's reference says of the rest, learning nothing."""
        data = snapshots_of(self.run)[f"{name}.safetensors"]
        arrays = {
            name.removeprefix("reference."): array
            for name, array in codec.decode(data).extras.items()
            if name.startswith("reference.")
        }
        times = np.arange(HEAD, ROWS) * 60 * 10**9
        before = reference.from_arrays(SPEC, arrays)
        rows = self.rows_of(name)
        state, scores, reported = reference.update(SPEC, before, rows, times, learn=False)
        assert (state.tables.whitener == before.tables.whitener).all()
        still = reference.open_episode(SPEC, state)
        return scores, [*reported, *([still] if still else [])]


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return Fleet(tmp_path_factory.mktemp("fleet"))


def score(rows: str, snapshots: str, output: Path, *flags: str) -> None:
    given = ["score", rows, *IDS, "--snapshots", snapshots, "--output", str(output), *flags]
    assert main(given) == 0


def scores_of(output: Path) -> dict[str, dict[str, npt.NDArray[Any]]]:
    """The scored rows of each pump, in the order of their indexes."""
    table = table_of(output, "scores")
    found = {}
    for name in sorted(set(table["model_id"].to_pylist())):
        here = table.filter(pa.compute.equal(table["model_id"], name)).sort_by("index")
        columns = ("index", "loss", "ref_loss", "ref_distance", "ref_score", "ref_settled", "p")
        found[name] = {column: here[column].to_numpy() for column in columns}
    return found


def test_rows_and_episodes_are_those_of_the_snapshots_reference(
    tracked: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, before = tmp_path / "out", snapshots_of(tracked.run)
    score(tracked.rows, tracked.snapshots, output)
    found, episodes = scores_of(output), lines_of(output, "episodes")
    assert len(found) == PUMPS
    assert table_of(output, "episodes").schema.equals(episodes_schema(True, CHANNELS))
    for name, columns in found.items():
        output_text, reported = tracked.by_the_core(name)
        assert columns["index"].tolist() == list(range(HEAD, ROWS))
        assert columns["ref_loss"].tobytes() == output_text.residual.tobytes()
        assert columns["ref_distance"].tobytes() == output_text.distance.tobytes()
        assert columns["ref_score"].tobytes() == output_text.score.tobytes()
        assert columns["ref_settled"].tobytes() == output_text.settled.tobytes()
        assert columns["p"].tobytes() == output_text.p.tobytes()
        lines = sorted(episodes.get(name, []), key=lambda line: int(line["index"]))
        expected = [as_line(episode) for episode in reported]
        # A column of jobs with rules.
        assert {line.pop("muted") for line in expected} <= {None}
        assert lines == expected
    assert set(episodes) == set(BROKEN)
    assert snapshots_of(tracked.run) == before
    printed = capsys.readouterr().out
    assert "2 of 12 devices were off, all to the end:" in printed
    assert "not held" not in printed
    record = record_of(output)
    assert record["reference"] == SPEC.to_dict()
    counts = record["counts"]
    assert (counts["models"], counts["models_without_reference"]) == (PUMPS, 0)
    assert counts["episodes"] == len(BROKEN)


def test_order_and_files_change_nothing(tracked: Fleet, tmp_path: Path) -> None:
    score(tracked.rows, tracked.snapshots, tmp_path / "out")
    places = np.random.default_rng(0).permutation(tracked.rest.num_rows)
    shuffled = tracked.rest.take(pa.array(places))
    for number in range(3):
        write(tmp_path / f"{number}.pq", shuffled.slice(number * 1360, 1360))
    score(f"{tmp_path}/*.pq", tracked.snapshots, tmp_path / "again")
    whole, again = scores_of(tmp_path / "out"), scores_of(tmp_path / "again")
    for name, columns in whole.items():
        for column, values in columns.items():
            assert again[name][column].tobytes() == values.tobytes(), (name, column)
    assert lines_of(tmp_path / "again", "episodes") == lines_of(tmp_path / "out", "episodes")


def test_windows_are_measured_under_the_snapshot(tracked: Fleet, tmp_path: Path) -> None:
    """Rows of each hour, that of the snapshot's last rows too: windows begin anew."""
    output = tmp_path / "out"
    score(tracked.rows, tracked.snapshots, output, "--window", "3600")
    assert table_of(output, "mismatch").schema.equals(MISMATCH_SCHEMA)
    lines = lines_of(output, "mismatch")
    hours = FixedWindows(3600).size.micros * 1000
    minutes = np.arange(HEAD, ROWS)
    for name in map("pump-{}".format, range(PUMPS)):
        found = codec.decode(snapshots_of(tracked.run)[f"{name}.safetensors"])
        for hour, line in zip(range(HEAD // 60, ROWS // 60), lines[name], strict=True):
            inside = minutes // 60 == hour
            expected = window_mismatch(found.spec, found.state, tracked.rows_of(name)[inside])
            assert (line["start"], line["end"]) == (hour * hours, (hour + 1) * hours)
            assert (line["rows"], line["index"]) == (inside.sum(), minutes[inside][-1])
            assert line["mismatch"].hex() == expected.value.hex()
            assert line["complete"] == (hour < ROWS // 60 - 1)
    assert record_of(output)["counts"]["windows"] == PUMPS * (ROWS // 60 - HEAD // 60)
    # Beside it nothing is different.
    score(tracked.rows, tracked.snapshots, tmp_path / "plain")
    assert table_of(output, "scores").equals(table_of(tmp_path / "plain", "scores"))


def test_rows_that_were_learned_before_are_counted_and_no_evidence_goes_on_into_them(
    tracked: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All rows of one pump, and of another those from the newest learned one on."""
    table = fleet()
    own = [table.filter(pa.compute.equal(table["pump"], f"pump-{place}")) for place in (2, 7)]
    both = pa.concat_tables([own[0], own[1].slice(HEAD - 1)])
    run = tmp_path / "run"
    early = write(tmp_path / "head.parquet", part(table, 0, ROWS - 50))
    assert main(["track", early, *IDS, "--reference", "first", "--output", str(run)]) == 0
    assert set(lines_of(run, "episodes")) == set(BROKEN)
    capsys.readouterr()
    score(write(tmp_path / "both.parquet", both), str(run / "snapshots"), tmp_path / "again")
    again = ROWS - 50 + ROWS - 50 - HEAD + 1
    printed = capsys.readouterr().out
    assert f"{again:,} rows are no newer than the snapshots" in printed
    assert "(pump-2, pump-7)" in printed
    record = record_of(tmp_path / "again")
    assert record["counts"]["rows_scored_again"] == again
    assert record["models_scored_again"] == ["pump-2", "pump-7"]
    assert record["counts"]["rows_out"] == len(both)
    for line in lines_of(tmp_path / "again", "episodes")["pump-7"]:
        assert line["start"] <= line["detected"] <= line["time"]
        assert line["start"] <= line["last"] <= line["time"]
    score(tracked.rows, tracked.snapshots, tmp_path / "newer")
    assert "no newer" not in capsys.readouterr().out
    assert record_of(tmp_path / "newer")["counts"]["rows_scored_again"] == 0


def test_models_without_a_complete_reference_are_told_apart(
    tracked: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One whose stretch was too short, one whose snapshot has none."""
    folder = tmp_path / "snapshots"
    shutil.copytree(tracked.snapshots, folder)
    for name, early in (("pump-3", True), ("pump-4", False)):
        path = folder / f"{name}.safetensors"
        found = codec.decode(path.read_bytes())
        about, extras = found.header["about"], dict(found.extras)
        if early:
            extras["reference.counts"] = extras["reference.counts"].copy()
            extras["reference.counts"][reference.CALIBRATED] = 0
        else:
            extras, about = {}, {**about, "reference": None}
        path.write_bytes(codec.encode(found.spec, found.state, about, extras=extras))
    score(tracked.rows, str(folder), tmp_path / "out")
    scores = scores_of(tmp_path / "out")
    assert [name for name in scores if np.isnan(scores[name]["p"]).any()] == ["pump-3", "pump-4"]
    assert set(lines_of(tmp_path / "out", "episodes")) == {"pump-7"}
    printed = capsys.readouterr().out.splitlines()
    assert "1 of 10 devices was off, to the end:" in printed
    without = "without a reference: 2 of 12 devices (none that is complete in the snapshots): "
    assert f"{without}pump-3, pump-4" in printed


def test_snapshots_without_a_reference_say_so(
    tracked: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A live job's folder has no index: what its files say counts."""
    bare, listed = tmp_path / "bare", tmp_path / "listed"
    assert main(["track", tracked.rows, *IDS, "--reference", "none", "--output", str(bare)]) == 0
    capsys.readouterr()
    score(tracked.rows, str(bare / "snapshots"), tmp_path / "out")
    assert NO_REFERENCE in capsys.readouterr().out.splitlines()
    assert not (tmp_path / "out" / "episodes").exists()
    assert "p" not in table_of(tmp_path / "out", "scores").schema.names
    shutil.copytree(tracked.snapshots, listed)
    (listed / "index.json").unlink()
    score(tracked.rows, str(listed), tmp_path / "again")
    assert "2 of 12 devices were off, all to the end:" in capsys.readouterr().out
    assert files_under(tmp_path / "again") == [
        "episodes/part-00000-of-00001.parquet",
        "failures/part-00000-of-00001.parquet",
        "run.json",
        "scores/part-00000-of-00001.parquet",
    ]


@pytest.mark.parametrize(
    ("flags", "output_text"),
    [
        (("--window", "0"), "--window = 0.0: must be seconds from 0.000001 to 1000000"),
        (("--window-period", "5"), "--window-period = 5.0: must be left out without --window"),
        (("--moving-window", "5"), "unknown flag --moving-window"),
    ],
)
def test_bad_windows_are_one_line(
    tracked: Fleet,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
    output_text: str,
) -> None:
    given = ["score", tracked.rows, *IDS, "--snapshots", tracked.snapshots]
    assert main([*given, "--output", str(tmp_path / "out"), *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert output_text in line
