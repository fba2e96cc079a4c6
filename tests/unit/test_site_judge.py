"""The verdict on a made site: what counts as false, as common, as found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import site_heat_pumps, site_machines, site_presses, site_pumps, site_turbines
from benchmarks.site_judge import Verdict, interval, judge
from benchmarks.site_truth import DAY, Fault, Site

SECOND = pa.timestamp("s", "UTC")
HOUR = 3600
CHANNELS = ("a", "b")


def _site(faults: dict[str, Fault], changes: dict[str, int]) -> Site:
    """Return 30 days of a row each hour of four machines, with a holiday on day 25."""
    times = [hour * HOUR for hour in range(30 * 24)]
    names = [name for name in ("m0", "m1", "m2", "m3") for _ in times]
    rows = pa.table({"machine": names, "time": pa.array(times * 4, SECOND)})
    return Site(rows, CHANNELS, faults, changes, ((25 * DAY, 26 * DAY),))


def _write(output: Path, episodes: list[tuple[str, int, float, float, float, str]]) -> None:
    """Write what a job leaves: name, number, start, noticed and end in days, and the state."""
    opened = [
        {
            "model_id": name,
            "episode": number,
            "index": int(noticed * 24),
            "start": int(start * DAY),
            "detected": int(noticed * DAY),
            "last": int(noticed * DAY),
            "state": "open",
            "shares": [1.0, 0.0],
        }
        for name, number, start, noticed, _, _ in episodes
    ]
    closed = [
        {**line, "index": int(end * 24), "last": int(end * DAY), "state": state, "shares": [0.0, 1]}
        for line, (_, _, _, _, end, state) in zip(opened, episodes, strict=True)
    ]
    schema = pa.schema(
        [
            ("model_id", pa.string()),
            ("episode", pa.int64()),
            ("index", pa.int64()),
            *((name, SECOND) for name in ("start", "detected", "last")),
            ("state", pa.string()),
            ("shares", pa.list_(pa.float64())),
        ]
    )
    for part in ("episodes", "features"):
        (output / part).mkdir()
    pq.write_table(
        pa.Table.from_pylist([*opened, *closed], schema), output / "episodes" / "part.parquet"
    )
    names, first = ["m0", "m1", "m2", "m3"], [DAY, DAY, DAY, 12 * DAY]
    table = {"model_id": names * 2, "time": pa.array([0] * 4 + first, SECOND)}
    table["p"] = pa.array([None] * 4 + [0.5] * 4)
    pq.write_table(pa.table(table), output / "features" / "part.parquet")


def test_episodes_are_false_common_spared_or_finds(tmp_path: Path) -> None:
    fault = Fault("leak", 20 * DAY, 21 * DAY, sudden=True, channels=("b",))
    _write(
        tmp_path,
        [
            ("m0", 1, 2, 3, 11, "closed"),  # before it counts, but open for a day after
            ("m0", 2, 15, 15, 15.5, "closed"),  # false
            ("m0", 3, 19.5, 22, 23, "closed"),  # found
            ("m0", 4, 24, 24, 24.5, "closed"),  # the fault again
            ("m1", 1, 15.1, 15.1, 15.1, "closed"),  # false, with m0's
            ("m1", 2, 25, 25.5, 25.5, "closed"),  # the holiday
            ("m2", 1, 18, 18, 18, "closed"),  # the exchange
            ("m2", 2, 19, 19, 19, "closed"),  # false: one is spared
            ("m3", 1, 28, 28, 28, "open"),  # false, open to the end
        ],
    )
    found = judge(_site({"m0": fault}, {"m2": 17 * DAY}), tmp_path, from_day=10)
    end = 30 - 1 / 24
    days: Any = pytest.approx((20 - 10) + 2 * (end - 10) + (end - 12))
    open_days: Any = pytest.approx((11 - 10) + 0.5 + 0.5 + 0.5 + (end - 28))
    assert found == Verdict(
        machines=4,
        armed=3,
        days=days,
        open_days=open_days,
        alarms=4,
        common=3,
        falsely=4,
        on_holiday=1,
        delays={"leak": [1.0]},
        started=[False],
        named=[True],
    )


def test_an_episode_from_before_the_fault_does_not_find_it(tmp_path: Path) -> None:
    fault = Fault("leak", 20 * DAY, 20 * DAY, sudden=True, channels=("b",))
    _write(tmp_path, [("m0", 1, 18, 21, 29, "closed")])
    found = judge(_site({"m0": fault}, {}), tmp_path, from_day=10)
    assert (found.alarms, found.found, found.faults) == (0, 0, 1)


def test_verdicts_pool() -> None:
    first = Verdict(machines=2, days=3.0, alarms=1, delays={"leak": [1.0]}, named=[True])
    first.add(Verdict(machines=1, days=2.0, delays={"leak": [2.0], "stuck": [float("inf")]}))
    assert first == Verdict(
        machines=3,
        days=5.0,
        alarms=1,
        delays={"leak": [1.0, 2.0], "stuck": [float("inf")]},
        named=[True],
    )
    assert (first.found, first.faults) == (2, 3)


@pytest.mark.parametrize(
    ("count", "low", "high"), [(0, 0.0, 3.689), (1, 0.0253, 5.572), (10, 4.795, 18.390)]
)
def test_intervals_are_those_of_the_tables(count: int, low: float, high: float) -> None:
    assert interval(count) == pytest.approx((low, high), abs=1e-3)


MAKERS = [site_machines, site_pumps, site_turbines, site_heat_pumps, site_presses]


@pytest.mark.parametrize("maker", MAKERS)
def test_sites_come_from_their_seed_and_break_as_many_as_asked(maker: Any) -> None:
    make = maker.make
    site = make(3, 10, 40, 3600, 8)
    assert make(3, 10, 40, 3600, 8).rows.equals(site.rows)
    assert sorted(fault.kind for fault in site.faults.values()) == sorted(maker.KINDS)
    first, last = site.rows["time"][0].as_py().timestamp(), 40 * DAY
    for fault in site.faults.values():
        assert first + 10 * DAY < fault.since <= fault.visible_since < first + last
        assert set(fault.channels) <= set(site.channels)
    assert not set(site.changes) & set(site.faults)
    assert not make(3, 10, 40, 3600, 0).faults


def test_turbines_follow_the_wind_by_their_curve() -> None:
    site = site_turbines.make(7, 6, 40, 300, 0)
    wind, power, rotor = (site.rows[name].to_numpy() for name in ("outside", "power", "rotor"))
    # Below the wind at which they start they give nothing, in a strong one what they are made for.
    assert np.median(power[wind < 2.5]) < 0
    strong = power[(wind > 15) & (wind < 19)]
    assert 1700 < np.median(strong) < 2300
    assert np.median(power[(wind > 6.5) & (wind < 7.5)]) < 0.3 * np.median(strong)
    assert set(np.unique(power % 1)) == {0.0}
    state = site.rows["state"].to_numpy(zero_copy_only=False)
    assert np.abs(rotor[state == "wait"]).mean() < 1 < rotor[state == "run"].mean()


def test_heat_pumps_run_longer_in_the_cold_and_thaw_there() -> None:
    site = site_heat_pumps.make(3, 6, 60, 300, 0)
    state = site.rows["state"].to_numpy(zero_copy_only=False)
    outside, power = site.rows["outside"].to_numpy(), site.rows["power"].to_numpy()
    warm, cold = outside > 14, outside < 0
    assert (state[warm] == "heat").mean() < 0.2
    assert (state[cold] == "heat").mean() > 0.5
    assert not (state[outside > 8] == "thaw").any() and (state[cold] == "thaw").any()
    assert np.median(power[state == "off"]) < 0.1
    assert np.median(power[state == "heat"]) > 1.5
    machines = site.rows["machine"].to_numpy(zero_copy_only=False)
    turns = ((state[1:] == "heat") & (state[:-1] != "heat") & (machines[1:] == machines[:-1])).sum()
    assert 8 < turns / (6 * 60) < 40


def test_presses_work_in_shifts_and_are_cold_at_weekends() -> None:
    site = site_presses.make(4, 6, 60, 300, 0)
    state = site.rows["state"].to_numpy(zero_copy_only=False)
    seconds = site.rows["time"].cast("int64").to_numpy() // 1000 - site_presses.BEGIN
    hour, weekday = seconds % DAY / 3600, seconds // DAY % 7
    (begin, end), *_ = site.holidays
    holiday = (seconds >= begin - site_presses.BEGIN) & (seconds < end - site_presses.BEGIN)
    shift = (hour > 6) & (hour < 22) & (weekday < 5) & ~holiday
    assert (state[shift] == "work").mean() > 0.75
    assert not (state[(weekday == 6) | holiday] == "work").any()
    barrel, pressure = site.rows["barrel"].to_numpy(), site.rows["pressure"].to_numpy()
    assert np.median(barrel[(weekday == 6) & (hour > 8) & (hour < 20)]) < 35
    assert np.median(barrel[(weekday < 5) & (hour < 3) & ~holiday]) == pytest.approx(150, rel=0.1)
    assert np.median(pressure[state == "work"]) > 70
    assert np.median(pressure[state == "ready"]) < 10
    # Each press has three products, each at its own pace, some of each in two months.
    first = site.rows["machine"].to_numpy(zero_copy_only=False) == "k000"
    paces = np.sort(site.rows["cycle"].to_numpy()[first & (state == "work")])
    assert (np.diff(np.unique(np.round(paces))) > 2).sum() <= 2
