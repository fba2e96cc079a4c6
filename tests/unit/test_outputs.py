"""The table of outputs: whole, and what others say of outputs agrees with it."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from kerneltrack.learners.linear.spec import RidgeSpec
from kerneltrack.trackers.okfeb.spec import OKFEBSpec
from pipelines.flink.counters import KNOWN
from pipelines.live.options import TOPICS, topic_flag
from pipelines.run_folder import results_in
from transforms import outputs
from transforms.outputs import (
    END,
    FOLDERS,
    LEARNER,
    OUTPUTS,
    PERIOD,
    SCORER,
    TRACKER,
    Asked,
)

ROOT = Path(__file__).resolve().parents[2]
PLAIN = Asked(OKFEBSpec(), has_time=True, width=6)
WHOLE = PLAIN._replace(
    measure=True,
    drift=True,
    reference=True,
    devices=True,
    periods=True,
    silent=True,
    listed=True,
    learner=RidgeSpec(),
    late=True,
    metrics_window=True,
)


def names(asked: Asked, *steps: str) -> list[str]:
    return [output.name for output in outputs.written(asked, *steps)]


def test_names_topics_and_counters_are_of_one_output_each() -> None:
    for attribute in ("name", "topic", "counter"):
        found = [value for each in OUTPUTS if (value := getattr(each, attribute))]
        assert len(set(found)) == len(found), attribute


def test_a_job_has_what_it_is_asked_for() -> None:
    of_files = (TRACKER, LEARNER)
    assert names(PLAIN, *of_files) == ["features", "failures", "snapshots"]
    every = ["mismatch", "alerts", "episodes", "predictions", "metrics"]
    assert names(WHOLE, *of_files) == ["features", "failures", "snapshots", *every]
    assert names(WHOLE, PERIOD) == ["periods"]
    assert names(WHOLE, END) == ["neighbours", "differences", "silent", "incidents", "listed"]
    assert names(PLAIN, PERIOD, END) == ["neighbours"]
    assert names(WHOLE, SCORER) == ["failures", "mismatch", "episodes", "scores"]
    live = WHOLE._replace(bounded=False)
    assert set(names(live)) == {*("features", "failures", "devices", "scored", "periods"), *every}
    assert names(live._replace(learner=None, devices=False, drift=False, periods=False)) == [
        *("features", "failures", "mismatch", "episodes")
    ]
    assert "metrics" not in names(live._replace(metrics_window=False))
    assert "scored" not in names(live._replace(late=False))


@pytest.mark.parametrize(
    ("step", "only_live", "found"),
    [
        (TRACKER, (), {"features", "mismatch", "alerts", "episodes", "late", "snapshots"}),
        (TRACKER, ("devices",), {*("features", "mismatch", "alerts"), "devices", "episodes"}),
        (LEARNER, (), {"predictions", "metrics", "snapshots"}),
        (LEARNER, ("scored",), {"predictions", "metrics", "snapshots", "scored"}),
        (SCORER, (), {"scores", "mismatch", "episodes"}),
    ],
)
def test_the_collections_of_a_step(step: str, only_live: tuple[str, ...], found: set[str]) -> None:
    more = {TRACKER: {"late", "snapshots", "failures"}, LEARNER: {"lost_labels"}}
    assert set(outputs.names_of(step, only_live)) == {*found, *more.get(step, {"failures"})}


def test_rows_have_columns_and_begin_with_their_model() -> None:
    found = outputs.schemas(WHOLE._replace(label=pa.string(), bounded=False))
    found |= outputs.schemas(WHOLE)
    without = {"failures", "snapshots", "late", "lost_labels", "neighbours"}
    assert {*found, *without} == {output.name for output in OUTPUTS}
    assert {schema.names[0] for schema in found.values()} == {"model_id"}
    assert found["scored"] == found["predictions"]


def test_a_folder_with_any_output_is_not_empty(tmp_path: Path) -> None:
    for name in FOLDERS:
        (tmp_path / name).mkdir()
        assert results_in(str(tmp_path), overwrite=True) == [name]
        (tmp_path / name).rmdir()


def test_the_pages_name_every_output() -> None:
    pages = "".join(
        (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
        for name in ("tracking", "detection", "fleet")
    )
    shown = set(re.findall(r"`(\w+)/", pages))
    assert set(FOLDERS) - shown == set()
    stream = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8")
    assert set(TOPICS) - set(re.findall(r"`OUTPUT-([\w-]+)`", stream)) == set()
    assert topic_flag("devices") in stream


def test_a_live_job_shows_the_counters_of_alarms() -> None:
    assert {output.counter for output in OUTPUTS if output.alarm} == {"alerts", "episodes"}
    assert {output.counter for output in OUTPUTS if output.alarm} <= set(KNOWN)
