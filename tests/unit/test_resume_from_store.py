"""`--resume` with the address of a savepoint or checkpoint in an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerneltrack.errors import ConfigError
from pipelines.flink.client import Flink
from pipelines.live.jobs import FORMATS, Left, Place, Record, find_left

JOBS = ("61d255dc314220dfde879567a42c8f2f", "47de3407720d4cea9533b1230b42b1ce")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    for job in JOBS:
        record = Record(job, f"name-{job}", 1.0, "in", "digest", {}, FORMATS)
        record.write(tmp_path / f"{job}.json")
    return Place(Flink("127.0.0.1:1"), tmp_path, None)


@pytest.mark.parametrize(
    ("name", "job"),
    [
        ("savepoints/savepoint-61d255-3dcea5a3b728", JOBS[0]),
        ("savepoints/savepoint-47de34-0123456789ab/", JOBS[1]),
        (f"checkpoints/{JOBS[1]}/chk-12", JOBS[1]),
    ],
)
def test_the_job_is_known_by_the_name(name: str, job: str, place: Place) -> None:
    left = find_left(place, f"s3://bucket/{name}", "in", {})
    assert left is not None
    assert left == Left(f"s3://bucket/{name}", left.record)
    assert left.record.job == job


@pytest.mark.parametrize(
    "name",
    [
        "savepoints/savepoint-abcdef-3dcea5a3b728",
        f"checkpoints/{'0' * 32}/chk-1",
        "checkpoints",
        "",
    ],
)
def test_names_of_no_known_job_are_refused(name: str, place: Place) -> None:
    with pytest.raises(ConfigError, match="--resume"):
        find_left(place, f"s3://bucket/{name}", "in", {})


def test_two_jobs_of_one_name_are_refused(place: Place) -> None:
    twin = JOBS[0][:6] + "0" * 26
    Record(twin, "twin", 2.0, "in", "digest", {}, FORMATS).write(place.state / f"{twin}.json")
    with pytest.raises(ConfigError, match="--resume"):
        find_left(place, "s3://bucket/savepoint-61d255-3dcea5a3b728", "in", {})
