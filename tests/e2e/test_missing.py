"""Missing values through the whole job: refused, their column dropped, or the last value held."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kerneltrack.in_memory import run_all
from kerneltrack.trackers import OKFEBSpec
from tests.e2e.jobs import (
    COLUMNS,
    SMALL,
    array_of,
    failures_of,
    features_of,
    record_of,
    track,
    write,
)

SPEC = OKFEBSpec(rank=4, budget=7, warmup=50)

GAPS = {
    "model_id": ["a"] * 60,
    "time": pa.array(np.arange(60) * 10**9, pa.timestamp("ns")),
    "x0": np.sin(np.arange(60)),
    "x1": [None if i in {5, 6, 7, 30} else float(i % 7) for i in range(60)],
    "label": ["u"] * 60,
}


def held_rows(longest: int) -> tuple[npt.NDArray[np.float64], list[int]]:
    """The rows of GAPS with the last value of x1 held, and the rows that nothing fills."""
    x1 = [float("nan") if value is None else value for value in GAPS["x1"]]
    lost = []
    for i in (5, 6, 7, 30):
        last = 4 if i < 10 else 29
        if i - last <= longest:
            x1[i] = float(last % 7)
        else:
            lost.append(i)
    return np.stack([GAPS["x0"], x1], axis=1), lost


@pytest.mark.parametrize("longest", [1, 2, 5])
def test_missing_values_are_held_for_a_time(longest: int, tmp_path: Path) -> None:
    source = write(tmp_path / "in.parquet", pa.table(GAPS))
    flags = ("--missing", "hold", "--hold-for", str(longest), *COLUMNS, *SMALL)
    track(source, *flags, "--output", str(tmp_path / "out"))
    rows, lost = held_rows(longest)
    features = features_of(tmp_path / "out")
    good = np.setdiff1d(np.arange(60), lost)
    assert array_of(features, "row").tolist() == good.tolist()
    _, expected = run_all(SPEC, rows[good])
    assert (array_of(features, "z") == expected.z).all()
    assert [row[2] for row in failures_of(tmp_path / "out")] == lost


def test_missing_values_fail_or_their_column_is_dropped(tmp_path: Path) -> None:
    source = write(tmp_path / "in.parquet", pa.table(GAPS))
    track(source, *COLUMNS, *SMALL, "--output", str(tmp_path / "fail"))
    reason = "x1 = nan: missing value"
    expected = [("a", "in.parquet", row, reason) for row in (5, 6, 7, 30)]
    assert failures_of(tmp_path / "fail") == expected
    assert sum(record_of(tmp_path / "fail")["failures"].values()) == 4
    track(source, *COLUMNS, *SMALL, "--missing", "drop", "--output", str(tmp_path / "drop"))
    assert failures_of(tmp_path / "drop") == []
    assert record_of(tmp_path / "drop")["columns"]["features"] == ["x0"]
    _, alone = run_all(SPEC, np.sin(np.arange(60))[:, None])
    assert (array_of(features_of(tmp_path / "drop"), "z") == alone.z).all()


def test_heart_rates_are_held(data_file: Callable[[str], Path], tmp_path: Path) -> None:
    """PAMAP2's heart rate comes at 9 Hz among channels at 100 Hz."""
    source = str(data_file("pamap2_fragment.parquet"))
    whole = pq.read_table(source)
    rate = whole.column("heartrate").to_numpy().copy()
    activity = whole.column("activityID").to_numpy()
    # The published files' gaps: a value in one row of eleven.
    rate[np.arange(len(rate)) % 11 != 0] = np.nan
    place = whole.schema.get_field_index("heartrate")
    table = whole.set_column(place, "heartrate", pa.array(rate))
    thin = write(tmp_path / "thin.parquet", table)
    flags = ("--features", "heartrate", "--model-id", "activityID", "--time", "timestamp", *SMALL)
    lost: dict[str, Any] = {}
    for missing in (("fail",), ("hold", "--hold-for", "0.105"), ("hold", "--hold-for", "0.05")):
        output = tmp_path / "-".join(missing).replace("--", "")
        track(thin, *flags, "--missing", *missing, "--output", str(output))
        lost[missing[-1]] = record_of(output)["counts"]["rows_failed"]
        assert record_of(output)["counts"]["rows_in"] == 6500
    stamps = whole.column("timestamp").to_numpy()
    assert lost == {
        "fail": int(np.isnan(rate).sum()),
        "0.105": without_recent(stamps, rate, activity, 0.105),
        "0.05": without_recent(stamps, rate, activity, 0.05),
    }
    assert lost["fail"] > lost["0.05"] > lost["0.105"]


def without_recent(
    stamps: npt.NDArray[Any], rate: npt.NDArray[Any], activity: npt.NDArray[Any], longest: float
) -> int:
    """Count rows of a model with no rate at most so many seconds before them."""
    count = 0
    for model in np.unique(activity):
        at = np.flatnonzero(activity == model)
        since = -np.inf
        for place in at[np.argsort(stamps[at], kind="stable")]:
            if not np.isnan(rate[place]):
                since = stamps[place]
            count += round((stamps[place] - since) * 1e9, 0) > longest * 1e9
    return count
