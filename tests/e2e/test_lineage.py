"""`track --lineage`: events that OpenLineage's own classes write the same way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from openlineage.client import event_v2 as events
from openlineage.client import facet_v2 as facets
from openlineage.client.serde import Serde

import pipelines.files.track as job
from pipelines.cli.main import main

COUNT = 300
CLASSES: dict[str, Any] = {
    "processing_engine": facets.processing_engine_run.ProcessingEngineRunFacet,
    "errorMessage": facets.error_message_run.ErrorMessageRunFacet,
    "inputStatistics": facets.input_statistics_input_dataset.InputStatisticsInputDatasetFacet,
    "outputStatistics": facets.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
}


def track(tmp_path: Path, *flags: str) -> int:
    x = np.random.default_rng(0).normal(size=(COUNT, 2))
    table = pa.table({"at": np.arange(COUNT), "flow": x[:, 0], "heat": x[:, 1]})
    pq.write_table(table, tmp_path / "rows.parquet")
    given = ["--output", str(tmp_path / "out"), "--time", "at", "--warmup", "50"]
    lineage = ["--lineage", str(tmp_path / "events.json")]
    return main(["track", str(tmp_path / "rows.parquet"), *given, *lineage, *flags])


def read(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "events.json").read_text().splitlines()]


def facet(name: str, values: dict[str, Any]) -> Any:
    """A facet made by OpenLineage's class of it; an unknown field is an error."""
    given = {key: value for key, value in values.items() if key != "_schemaURL"}
    given["producer"] = given.pop("_producer")
    if name == "schema":
        fields = [facets.schema_dataset.SchemaDatasetFacetFields(**f) for f in given.pop("fields")]
        return facets.schema_dataset.SchemaDatasetFacet(fields=fields, **given)
    return CLASSES[name](**given)


def dataset(kind: Any, values: dict[str, Any]) -> Any:
    given = dict(values)
    for group in ("facets", "inputFacets", "outputFacets"):
        if group in given:
            given[group] = {name: facet(name, one) for name, one in given[group].items()}
    return kind(**given)


def as_written_by_them(event: dict[str, Any]) -> dict[str, Any]:
    """The event, taken apart and put together by OpenLineage's classes."""
    run = {name: facet(name, one) for name, one in event["run"]["facets"].items()}
    made = events.RunEvent(
        eventType=events.RunState[event["eventType"]],
        eventTime=event["eventTime"],
        run=events.Run(event["run"]["runId"], run),
        job=events.Job(event["job"]["namespace"], event["job"]["name"]),
        inputs=[dataset(events.InputDataset, one) for one in event["inputs"]],
        outputs=[dataset(events.OutputDataset, one) for one in event["outputs"]],
        producer=event["producer"],
    )
    written: dict[str, Any] = json.loads(Serde.to_json(made))
    return written


def without_empty(values: Any) -> Any:
    """The values without empty facets, which their classes leave out or write by turns."""
    if isinstance(values, list):
        return [without_empty(one) for one in values]
    if not isinstance(values, dict):
        return values
    kept = {name: without_empty(value) for name, value in values.items()}
    return {name: value for name, value in kept.items() if value not in ({}, [], None)}


def test_a_job_tells_when_it_begins_and_has_ended(tmp_path: Path) -> None:
    assert track(tmp_path, "--reference", "first", "--reference-rows", "256") == 0
    begun, ended = read(tmp_path)
    for event in (begun, ended):
        assert without_empty(as_written_by_them(event)) == without_empty(event)
    assert (begun["eventType"], ended["eventType"]) == ("START", "COMPLETE")
    assert begun["run"]["runId"] == ended["run"]["runId"]
    assert begun["eventTime"] <= ended["eventTime"]
    assert begun["job"] == {"namespace": "kerneltrack", "name": "track out", "facets": {}}
    (source,) = ended["inputs"]
    assert (source["namespace"], source["name"]) == ("file", str(tmp_path / "rows.parquet"))
    assert source["inputFacets"]["inputStatistics"]["rowCount"] == COUNT
    assert [
        (field["name"], field["description"]) for field in source["facets"]["schema"]["fields"]
    ] == [
        ("at", "time"),
        ("flow", "channel"),
        ("heat", "channel"),
    ]
    written = {Path(one["name"]).name: one for one in ended["outputs"]}
    assert written.keys() == {"features", "failures", "snapshots", "episodes"}
    features = written["features"]
    assert features["outputFacets"]["outputStatistics"]["rowCount"] == COUNT
    names = [field["name"] for field in features["facets"]["schema"]["fields"]]
    assert names == pq.read_table(tmp_path / "out" / "features").column_names


def test_a_second_run_is_another_and_its_events_are_added(tmp_path: Path) -> None:
    assert track(tmp_path) == 0
    assert track(tmp_path, "--overwrite") == 0
    found = read(tmp_path)
    assert [event["eventType"] for event in found] == ["START", "COMPLETE"] * 2
    assert len({event["run"]["runId"] for event in found}) == 2
    assert len({event["job"]["name"] for event in found}) == 1


def test_a_job_that_breaks_off_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise OSError("no room left")

    monkeypatch.setattr(job, "write_report", broken)
    assert track(tmp_path) == 1
    begun, ended = read(tmp_path)
    assert ended["eventType"] == "FAIL"
    assert ended["run"]["facets"]["errorMessage"]["message"] == "no room left"
    assert without_empty(as_written_by_them(ended)) == without_empty(ended)
    assert begun["run"]["runId"] == ended["run"]["runId"]


def test_what_is_refused_beforehand_tells_nothing(tmp_path: Path) -> None:
    assert track(tmp_path, "--rank", "0") == 2
    assert not (tmp_path / "events.json").exists()
