"""Rows of every kind that goes wrong, through the whole job: none crashes it, none is lost."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.e2e.jobs import (
    PLACES,
    SMALL,
    array_of,
    assert_same_features,
    failures_of,
    features_of,
    record_of,
    track,
)
from tests.parts import examples


@dataclass(frozen=True)
class Hostile:
    """Rows of every kind that goes wrong, and which of them are good all the same."""

    model_id: list[str | None]
    time: list[str]
    x: list[list[str]]
    good: npt.NDArray[np.bool_]

    def csv(self, only_good: bool) -> str:
        lines = ["model_id,time,x0,x1,x2"]
        for i, (model_id, time, x) in enumerate(zip(self.model_id, self.time, self.x, strict=True)):
            if self.good[i] or not only_good:
                lines.append(",".join([model_id or "", time, *x]))
        return "\n".join(lines) + "\n"

    def parquet(self, only_good: bool) -> pa.Table:
        """The same as typed columns; rows of a wrong width are rows with a missing value."""
        keep = np.flatnonzero(self.good | (not only_good))
        rows = [([*self.x[i], "nan", "nan", "nan"])[:3] for i in keep]
        x = np.array([[_number(value) for value in row] for row in rows]).reshape(-1, 3)
        return pa.table(
            {
                "model_id": pa.array([self.model_id[i] for i in keep], pa.string()),
                "time": pa.array([_number(self.time[i]) for i in keep], pa.float64()),
                **{f"x{c}": x[:, c] for c in range(3)},
            }
        )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


FINE = ("plain", "repeated", "zero", "outlier", "constant", "tiny")
BAD = (
    *("nan", "inf", "-inf", "1e308", "text", "missing", "narrow", "wide"),
    *("no time", "bad time", "far time", "no model"),
)
SPOILT = {
    "nan": "nan",
    "inf": "inf",
    "-inf": "-inf",
    "1e308": "-1e308",
    "text": "no number",
    "missing": "",
}
WRONG_TIMES = {"no time": "", "bad time": "yesterday", "far time": "1e300"}


def hostile_rows(count: int, share_bad: float, seed: int) -> Hostile:
    rng = np.random.default_rng(seed)
    bad = rng.random(count) < share_bad
    models = [f"m{i}" for i in range(rng.integers(1, 6))]
    rows = Hostile([], [], [], ~bad)
    previous = ["0.0", "0.0", "0.0"]
    for i in range(count):
        model: str | None = models[rng.integers(len(models))]
        kind = str(rng.choice(BAD if bad[i] else FINE))
        x = [repr(float(value)) for value in rng.normal(size=3)]
        # Equal times are among them; file and row order those.
        time = repr(float(rng.integers(0, count) / 4))
        if kind == "repeated":
            x = previous
        elif kind == "zero":
            x = ["0.0", "-0.0", "0.0"]
        elif kind == "outlier":
            x[rng.integers(3)] = repr(float(rng.choice([1e9, -1e30, 9e99])))
        elif kind == "tiny":
            x = [repr(float(value) * 1e-300) for value in rng.normal(size=3)]
        elif kind == "constant":
            model, x = "constant", ["7.25", "-3.0", "1e-5"]
        elif kind in SPOILT:
            x[rng.integers(3)] = SPOILT[kind]
        elif kind == "narrow":
            x = x[:2]
        elif kind == "wide":
            x = [*x, "1.5"]
        elif kind == "no model":
            model = None
        else:
            time = WRONG_TIMES.get(kind, time)
        previous = x if not bad[i] else previous
        rows.model_id.append(model)
        rows.time.append(time)
        rows.x.append(x)
    if rng.random() < 0.5:
        # A model of bad rows only has no features at all.
        rows.model_id[0], rows.x[0], rows.good[0] = "only bad", ["nan", "1.0", "2.0"], False
    return rows


def put(path: Path, rows: Hostile, only_good: bool) -> str:
    if path.suffix == ".csv":
        path.write_text(rows.csv(only_good), encoding="utf-8")
    else:
        pq.write_table(rows.parquet(only_good), path, row_group_size=701)
    return str(path)


@settings(max_examples=examples(6))
@given(
    st.sampled_from(["csv", "parquet"]),
    st.floats(0.01, 0.6),
    st.sampled_from([(), ("--clip", "5"), ("--kernel", "linear"), ("--no-standardise",)]),
    st.integers(0, 2**32),
)
def test_hostile_rows_crash_nothing_and_lose_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    ending: str,
    share_bad: float,
    flags: tuple[str, ...],
    seed: int,
) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    rows = hostile_rows(17_000, share_bad, seed)
    if ending == "parquet":
        # A table has no fourth column to be too wide in: those rows are good ones there.
        rows.good[[i for i, x in enumerate(rows.x) if len(x) > 3]] = True
    given_flags = ("--model-id", "model_id", "--time", "time", *SMALL, *flags)
    with_bad = put(folder / f"all.{ending}", rows, only_good=False)
    track(with_bad, *given_flags, "--output", str(folder / "all"))
    without = put(folder / f"good.{ending}", rows, only_good=True)
    track(without, *given_flags, "--output", str(folder / "good"))

    features, failures = features_of(folder / "all"), failures_of(folder / "all")
    done, lost = array_of(features, "row").tolist(), [row[2] for row in failures]
    assert sorted([*done, *lost]) == list(range(17_000))
    refused = np.setdiff1d(lost, np.flatnonzero(~rows.good))
    # The linear kernel's value of an outlier with itself may be too large to compute with.
    assert not len(refused) or "linear" in flags
    counts = record_of(folder / "all")["counts"]
    assert (counts["rows_in"], counts["rows_out"]) == (17_000, len(done))
    assert (counts["rows_failed"], counts["rows_late"]) == (len(lost), 0)

    assert_same_features(features, features_of(folder / "good"), ignore=PLACES)
    for path in (folder / "good" / "snapshots").iterdir():
        assert (folder / "all" / "snapshots" / path.name).read_bytes() == path.read_bytes()
    loss, novelty = array_of(features, "loss"), array_of(features, "novelty")
    assert np.isfinite(array_of(features, "z")).all()
    assert ((novelty >= 0) & (novelty <= 1)).all()
    assert np.isfinite(loss).all()
    assert (loss >= 0).all()
    if "linear" not in flags:
        assert (loss <= 1).all()
    shutil.rmtree(folder)


LIBSVM_LINES = [
    ("+1 1:0.5 3:1e9", True),
    ("-1", True),
    ("+1 1:0 2:0 3:0 4:0", True),
    ("1 4:nan", False),
    ("1 4:inf", False),
    ("1 2:1e308", False),
    ("1 9:1", False),
    ("1 2:", False),
    ("1 x:2", False),
    ("one 1:2", None),
    ("1 0:3", False),
    ("1 -1:3", False),
]


@settings(max_examples=examples(3))
@given(st.integers(0, 2**32))
def test_hostile_sparse_text(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    folder = tmp_path_factory.mktemp("sparse")
    rng = np.random.default_rng(seed)
    usable = [entry for entry in LIBSVM_LINES if entry[1] is not None]
    chosen: list[tuple[str, Any]] = []
    for _ in range(2000):
        x = " ".join(f"{i + 1}:{value!r}" for i, value in enumerate(rng.normal(size=4).tolist()))
        chosen.append(usable[rng.integers(len(usable))] if rng.random() < 0.3 else (f"1 {x}", True))
    for name, lines in (("all", chosen), ("good", [entry for entry in chosen if entry[1]])):
        (folder / f"{name}.libsvm").write_text("".join(f"{line}\n" for line, _ in lines))
        path = str(folder / f"{name}.libsvm")
        track(path, "--width", "4", *SMALL, "--output", str(folder / name))
    lost = [row[2] for row in failures_of(folder / "all")]
    assert lost == [i for i, (_, good) in enumerate(chosen) if not good]
    assert_same_features(features_of(folder / "all"), features_of(folder / "good"), ignore=PLACES)
    shutil.rmtree(folder)
