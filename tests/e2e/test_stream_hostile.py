"""A live job among hostile messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.clusters import LocalCluster
from tests.e2e.hostile_live import assert_undisturbed

HOSTILE = 2000
"""The long form, with Avro too, is `benchmarks/bench_hostile.py`."""


@pytest.mark.parametrize(
    ("form", "by_record"),
    [("json", False), pytest.param("arrow", True, marks=pytest.mark.nightly)],
)
def test_hostile_messages_are_dead_letters_and_disturb_nothing(
    form: str, by_record: bool, cluster: LocalCluster, tmp_path: Path
) -> None:
    assert_undisturbed(cluster, form, HOSTILE, by_record, tmp_path)
