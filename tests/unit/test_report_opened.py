"""What the report shows of one device: channels around its episodes, features in a plane."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from pipelines.report import write_report
from pipelines.report.data import channels
from pipelines.report.data.channels import MOST_CHANNELS, MOST_EPISODES, MOST_ROWS
from pipelines.report.data.plane import MOST_EVEN, MOST_WITHIN
from tests.report_inputs import RUN, episode, made, value
from tests.report_runs import SECOND, START, data_of, features, floats, put, run_folder, text_of
from transforms.read.column_options import ColumnOptions
from transforms.read.look import Input, look_at_files
from transforms.write.schemas import episodes_schema


def page_of(output: str, inputs: Input | None) -> str:
    return Path(write_report(output, None, inputs)).read_text(encoding="utf-8")


def shown(page: str) -> list[dict[str, Any]]:
    """The stretches of model m, unpacked."""
    data = data_of(page)
    names = [curve["id"] for curve in data["curves"]]
    assert data["channels"][names.index("other")] == []
    found = []
    for one in data["channels"][names.index("m")]:
        rows = [one["first"] + int(row) for row in floats(one["row"])]
        values = [
            [base + by for by in floats(packed)]
            for base, packed in zip(one["base"], one["values"], strict=True)
        ]
        found.append({**one, "rows": rows, "values": values, "seconds": floats(one["time"])})
    return found


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_channels_are_those_of_the_rows_around_the_episode(tmp_path: Path, form: str) -> None:
    output, inputs = made(tmp_path, [episode(90, 99, [0.1, 0.0, 0.9])], form=form)
    (one,) = shown(page_of(output, inputs))
    assert one["names"] == ["c2", "c0"]
    assert one["rows"] == list(range(50, 140))
    assert one["step"] == 1
    for values, channel in zip(one["values"], (2, 0), strict=True):
        assert values == [value(0, row, channel) for row in one["rows"]]
    assert one["start"] == (START + 50 * SECOND) / 1e6
    assert one["seconds"] == [row - 50 for row in one["rows"]]


def test_of_long_episodes_every_k_th_row_is_shown(tmp_path: Path) -> None:
    output, inputs = made(tmp_path, [episode(500, 1_499, [0.0, 0.0, 0.0])], rows=2_000)
    (one,) = shown(page_of(output, inputs))
    assert one["step"] == 7
    assert one["rows"] == list(range(0, 2_000, 7))
    assert len(one["rows"]) <= MOST_ROWS
    # No channel stands out: the first are shown.
    assert one["names"] == ["c0", "c1", "c2"]
    assert one["values"][1] == [value(0, row, 1) for row in one["rows"]]


def test_the_worst_episodes_and_most_blamed_channels_are_shown(tmp_path: Path) -> None:
    shares = [0.1, 0.2, 0.05, 0.15, 0.04, 0.06, 0.18, 0.22]
    lines = [
        episode(10 * number, 10 * number + 2, shares, number, severity=float(number % 4))
        for number in range(1, 7)
    ]
    output, inputs = made(tmp_path, lines, width=8)
    found = shown(page_of(output, inputs))
    assert [one["episode"] for one in found] == [2, 1, 5]
    assert len(found) == MOST_EPISODES
    assert found[0]["names"] == ["c7", "c1", "c6", "c3", "c0", "c5"]
    assert len(found[0]["names"]) == MOST_CHANNELS


def test_rows_beyond_the_most_that_are_read_make_no_half_a_stretch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [episode(90, 99, [1.0, 0.0, 0.0])]
    output, inputs = made(tmp_path, lines)
    monkeypatch.setattr(channels, "MOST_READ", 100)
    assert shown(page_of(output, inputs)) == []


def test_inputs_that_are_gone_are_named(tmp_path: Path) -> None:
    output, inputs = made(tmp_path, [episode(90, 99, [1.0, 0.0, 0.0])])
    (tmp_path / "in-1.csv").unlink()
    page = page_of(output, inputs)
    assert shown(page) == []
    assert "The inputs could not be read again" in text_of(page)
    assert "in-1.csv" in text_of(page)


def test_without_inputs_there_is_no_such_section(tmp_path: Path) -> None:
    output, inputs = made(tmp_path, [episode(90, 99, [1.0, 0.0, 0.0])])
    assert data_of(page_of(output, None))["channels"] is None
    assert "Channels around" not in text_of(page_of(output, None))
    assert "Channels around" in text_of(page_of(output, inputs))


def planes(folder: Path, z: npt.NDArray[np.float64], **columns: Any) -> dict[str, Any] | None:
    n, rank = z.shape
    listed = pa.FixedSizeListArray.from_arrays(pa.array(z.reshape(-1)), rank)
    output = run_folder(folder / "out", features({"m": n}, z=listed, **columns), **RUN)
    put(output, "episodes", pa.Table.from_pylist([PLANE], episodes_schema(True, 3)))
    (found,) = data_of(page_of(output, None))["planes"]
    return None if found is None else dict(found)


PLANE = episode(700, 702, [1.0, 0.0, 0.0])


def test_the_plane_has_the_two_coordinates_that_vary_most(tmp_path: Path) -> None:
    z = np.random.default_rng(0).normal(size=(1_000, 4)) * [0.1, 3.0, 0.2, 2.0]
    z[5] = np.nan
    label = pa.array(np.where(np.arange(1_000) % 2 == 0, "even", "odd"))
    found = planes(tmp_path, z, label=label)
    assert found is not None
    assert found["axes"] == [1, 3]
    assert sum(found["shares"]) > 0.98
    rows = np.array(found["row"])
    np.testing.assert_array_equal(floats(found["x"]), z[rows, 1].astype(np.float32))
    np.testing.assert_array_equal(floats(found["y"]), z[rows, 3].astype(np.float32))
    assert [rows[k] for k in found["within"]] == [700, 701, 702]
    assert len(rows) <= MOST_EVEN + MOST_WITHIN
    assert set(np.diff(rows)) <= {1, 2, 3, 4}
    names = data_of((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))["labels"]
    assert [names[code] for code in found["label"]] == [
        "even" if row % 2 == 0 else "odd" for row in rows
    ]


@pytest.mark.parametrize("rank", [1, 3])
def test_features_that_vary_along_one_coordinate_make_no_plane(tmp_path: Path, rank: int) -> None:
    z = np.zeros((1_000, rank))
    z[:, 0] = np.arange(1_000)
    assert planes(tmp_path, z) is None
    assert "Features in two dimensions" not in text_of(
        (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    )


def test_huge_features_do_not_overflow(tmp_path: Path) -> None:
    z = np.random.default_rng(0).normal(size=(50, 2)) * [1e200, 1e190]
    found = planes(tmp_path, z)
    assert found is not None
    assert found["axes"] == [0, 1]
    json.dumps(found, allow_nan=False)


def test_a_channel_that_was_read_with_a_unit_is_named_with_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,heat,flow\n" + "a,20.1 °C,5\n" * 30, encoding="utf-8")
    inputs = look_at_files([str(path)], ColumnOptions(model_id="id"))
    assert channels.names_of(inputs.columns) == ["heat [°C]", "flow"]
