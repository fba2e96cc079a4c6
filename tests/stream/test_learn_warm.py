"""TrainLinear from snapshots: what an uninterrupted job gives, bit for bit."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kerneltrack import codec
from kerneltrack.errors import ConfigError
from kerneltrack.learners import LearnerSpec, RidgeSpec
from kerneltrack.snapshots.files import snapshot_name
from kerneltrack.snapshots.folder import SnapshotFolder
from kerneltrack.trackers import OKFEBSpec
from tests.oracles.learner_cases import every_spec_in_turn, same_state
from tests.oracles.prequential import core_alone
from tests.parts import some
from tests.stream.learning import (
    SECOND,
    SPEC,
    Element,
    FeatureTable,
    Late,
    Outcome,
    label_chunk,
    make_features,
    train,
    train_stream,
)
from tests.stream.running import about
from transforms.learn.late_labels import LateLabels
from transforms.train import TrainLinear

REGRESSION = RidgeSpec(task="regression")
OPTIONS: dict[str, Any] = {"window": 7.0, "snapshot_every": 11.0}
WAITS = [None, LateLabels(4.0, 100), LateLabels(3.0, 5), LateLabels(None, 15)]


def write_folder(
    folder: Path,
    snapshots: Mapping[str, bytes],
    spec: LearnerSpec | None = SPEC,
    rows: int | None = None,
) -> SnapshotFolder:
    """Write one learner's state a model, beside trackers' that nothing here reads."""
    folder.mkdir()
    models = {}
    for key, data in snapshots.items():
        (folder / snapshot_name(key, kind=codec.LEARNER)).write_bytes(data)
        seen = codec.read_header(data)["about"]["rows"] if rows is None else rows
        entry = {"rows": seen, "time": None, "tracker": snapshot_name(key), "bytes": 0}
        if spec is not None:
            entry["learner"] = snapshot_name(key, kind=codec.LEARNER)
        models[key] = [entry]
    index = {
        "version": 2,
        "tracker": OKFEBSpec().to_dict(),
        "learner": None if spec is None else spec.to_dict(),
        "models": models,
    }
    (folder / "index.json").write_text(json.dumps(index))
    return SnapshotFolder(str(folder), learner=True)


def in_order(outcome: Outcome) -> list[bytes]:
    return sorted(
        outcome.snapshots["m"], key=lambda data: (about(data)["rows"], about(data)["final"])
    )


def rows_waiting(data: bytes) -> int:
    extras = codec.decode_learner(data).extras
    return len(extras["waiting.clock"]) if "waiting.clock" in extras else 0


def apart(
    table: FeatureTable, late: LateLabels | None, by: str = "index"
) -> tuple[FeatureTable, list[Late]]:
    """Half of the labels beside the rows, half in a stream of their own, if there is one."""
    if late is None:
        return table, []
    own = [label if row % 2 else None for row, label in enumerate(table.label)]
    assert table.time is not None
    labels = [
        Late(label, index=row, row=row)
        if by == "index"
        else Late(label, time=int(table.time[row]), row=row)
        for row, label in enumerate(table.label)
        if label is not None and row % 2 == 0
    ]
    return dataclasses.replace(table, label=own), labels


def elements(table: FeatureTable, labels: Sequence[Late], size: int = 13) -> list[Element]:
    rows = [("m", chunk) for chunk in table.cut([size])]
    return [*rows, ("m", label_chunk(labels))] if labels else rows


@pytest.mark.parametrize(
    ("spec", "late"),
    [*((SPEC, late) for late in WAITS), (REGRESSION, WAITS[1])],
    ids=lambda value: getattr(value, "task", str(value)),
)
def test_every_boundary_goes_on_as_if_never_stopped(
    spec: LearnerSpec, late: LateLabels | None, tmp_path: Path
) -> None:
    whole = make_features(140, seed=1, spec=spec)
    table, labels = apart(whole, late)
    uninterrupted = train(elements(table, labels), spec, late=late, **OPTIONS)
    snapshots = in_order(uninterrupted)
    boundaries = snapshots[:-1]
    assert len(boundaries) == 6
    waiting = [rows_waiting(data) for data in boundaries]
    assert min(waiting) > 0 if late else max(waiting) == 0
    for number, data in some(enumerate(boundaries), min(waiting)):
        rows = about(data)["rows"]
        begun = write_folder(tmp_path / f"{number}", {"m": data}, spec)
        rest = [label for label in labels if (label.index or 0) >= rows]
        given = elements(table.part(rows, 140), rest, size=9)
        after = train(given, spec, late=late, warm=begun, **OPTIONS)
        check_rest(after, uninterrupted, rows - waiting[number], snapshots[number:])
        assert after.failures == []


def check_rest(
    after: Outcome, uninterrupted: Outcome, first: int, snapshots: Sequence[bytes]
) -> None:
    """The same rows, from the first that was not settled; the same lines and bytes after them."""
    assert after.predictions["m"] == uninterrupted.predictions["m"][first:]
    lines = after.metrics["m"]
    assert lines == uninterrupted.metrics["m"][-len(lines) :]
    time = uninterrupted.predictions["m"][first]["time"]
    assert lines[0]["start"] <= time < lines[0]["end"]
    assert in_order(after) == list(snapshots)


@pytest.mark.parametrize(
    ("stop", "late"), [*((50, late) for late in WAITS), (1, WAITS[2]), (139, WAITS[2])], ids=str
)
def test_the_end_of_a_job_is_no_end_of_its_learning(
    late: LateLabels | None, stop: int, tmp_path: Path
) -> None:
    """Labels that come with the next job still find the rows that waited when this one ended."""
    table, labels = apart(make_features(140, seed=2), late, by="time")
    assert table.time is not None
    uninterrupted = train(elements(table, labels), late=late, **OPTIONS)
    times = table.time.tolist()
    early = [label for label in labels if (label.time or 0) < times[stop] - 2 * SECOND]
    rest = [label for label in labels if label not in early]
    first = train(elements(table.part(0, stop), early), late=late, **OPTIONS)
    (last,) = in_order(first)[-1:]
    assert about(last) == {**about(last), "final": True, "rows": stop, "time": times[stop - 1]}
    begun = write_folder(tmp_path / "snapshots", {"m": last})
    second = train(elements(table.part(stop, 140), rest), late=late, warm=begun, **OPTIONS)
    assert second.failures == []
    kept = [data for data in in_order(uninterrupted) if about(data)["rows"] >= stop]
    check_rest(second, uninterrupted, stop - rows_waiting(last), kept)
    # What waited came out at the end of the first job, too, as far as it was known then.
    assert [row["index"] for row in first.predictions["m"]] == list(range(stop))


@every_spec_in_turn(2)
def test_every_learner_goes_on(spec: LearnerSpec, tmp_path: Path) -> None:
    table = make_features(80, seed=3, spec=spec)
    first = train([("m", table.part(0, 33).chunk(table.kind))], spec)
    begun = write_folder(tmp_path / "snapshots", {"m": first.snapshots["m"][0]}, spec)
    second = train([("m", table.part(33, 80).chunk(table.kind))], spec, warm=begun)
    state, records = core_alone(spec, table)
    assert first.predictions["m"] + second.predictions["m"] == records
    same_state(codec.decode_learner(second.snapshots["m"][0]).state, state)


def test_a_live_job_goes_on_too(tmp_path: Path) -> None:
    late = LateLabels(4.0, 100)
    table, labels = apart(make_features(100, seed=4), late)
    uninterrupted = train(elements(table, labels), late=late, **OPTIONS)
    data = in_order(uninterrupted)[2]
    rows = about(data)["rows"]
    begun = write_folder(tmp_path / "snapshots", {"m": data})
    rest = [label for label in labels if (label.index or 0) >= rows]
    given = elements(table.part(rows, 100), rest)[::-1]
    live = train_stream([[element] for element in given], late=late, warm=begun, **OPTIONS)
    assert live.scored["m"] == uninterrupted.predictions["m"][rows - rows_waiting(data) :]
    assert live.metrics["m"] == uninterrupted.metrics["m"][-len(live.metrics["m"]) :]


def test_labels_alone_settle_what_waited(tmp_path: Path) -> None:
    late = LateLabels(4.0, 100)
    table = make_features(20, seed=5, missing=0.0)
    bare = dataclasses.replace(table, label=[None] * 20)
    first = train([("m", bare.chunk())], late=late)
    begun = write_folder(tmp_path / "snapshots", {"m": first.snapshots["m"][0]})
    labels = [Late(table.label[row], index=row, row=row) for row in range(20)]
    second = train([("m", label_chunk(labels))], late=late, warm=begun)
    waited = range(12, 20)
    assert [row["index"] for row in second.predictions["m"]] == list(waited)
    assert [row["label"] for row in second.predictions["m"]] == table.label[12:]
    assert [row for _, _, row, _ in second.failures] == list(range(12))
    # The state keeps them waiting, now with their labels.
    assert about(second.snapshots["m"][0])["labels"] == list(dict.fromkeys(table.label[12:]))


def test_a_job_without_late_labels_settles_what_waited_before(tmp_path: Path) -> None:
    late = LateLabels(4.0, 100)
    table = make_features(60, seed=6)
    first = train([("m", table.part(0, 30).chunk())], late=late)
    (data,) = first.snapshots["m"]
    assert rows_waiting(data) == 8
    begun = write_folder(tmp_path / "snapshots", {"m": data})
    second = train([("m", table.part(30, 60).chunk())], warm=begun)
    assert second.predictions["m"][:8] == first.predictions["m"][22:]
    assert [row["index"] for row in second.predictions["m"]] == list(range(22, 60))
    assert rows_waiting(second.snapshots["m"][0]) == 0
    assert second.metrics["m"][-1]["rows"] == 60


def test_models_begin_each_where_they_stopped(tmp_path: Path) -> None:
    tables = {f"m{seed}": make_features(60, seed=seed) for seed in range(3)}
    stops = {"m0": 10, "m1": 31}
    parts = [(key, tables[key].part(0, stop).chunk()) for key, stop in stops.items()]
    first = train(parts)
    begun = write_folder(
        tmp_path / "snapshots", {key: data[0] for key, data in first.snapshots.items()}
    )
    rest = [(key, table.part(stops.get(key, 0), 60).chunk()) for key, table in tables.items()]
    second = train(rest, warm=begun)
    for key, table in tables.items():
        known = first.predictions.get(key, []) + second.predictions[key]
        assert known == core_alone(SPEC, table)[1]


def test_without_a_learners_state_learning_begins_where_the_tracker_goes_on(
    tmp_path: Path,
) -> None:
    table = make_features(50, seed=7)
    first = train([("m", table.part(0, 20).chunk())])
    begun = write_folder(tmp_path / "snapshots", {"m": first.snapshots["m"][0]}, spec=None)
    second = train([("m", table.part(20, 50).chunk())], warm=begun, **OPTIONS)
    state, records = core_alone(SPEC, table.part(20, 50))
    assert second.predictions["m"] == records
    last = codec.decode_learner(in_order(second)[-1])
    same_state(last.state, state)
    assert last.header["about"]["rows"] == 50


def test_windows_of_another_length_begin_anew(tmp_path: Path) -> None:
    table = make_features(60, seed=8)
    first = train([("m", table.part(0, 33).chunk())], window=7.0)
    begun = write_folder(tmp_path / "snapshots", {"m": first.snapshots["m"][0]})
    second = train([("m", table.part(33, 60).chunk())], window=9.0, warm=begun)
    sizes = [(line["start"], line["rows"]) for line in second.metrics["m"]]
    # Rows 33..60, half a second apart: 16.5 s to 29.5 s.
    assert sizes == [(9 * SECOND, 3), (18 * SECOND, 18), (27 * SECOND, 6), (None, 60)]


def test_other_settings_are_refused_at_once(tmp_path: Path) -> None:
    data = train([("m", make_features(9).chunk())]).snapshots["m"][0]
    begun = write_folder(tmp_path / "snapshots", {"m": data})
    for other, field in ((REGRESSION, "task"), (RidgeSpec(forgetting=1.0), "max_classes")):
        with pytest.raises(ConfigError) as caught:
            TrainLinear(other, warm=begun)
        assert caught.value.field == field


def test_files_that_do_not_fit_are_named(tmp_path: Path) -> None:
    table = make_features(40)
    data = train([("m", table.part(0, 20).chunk())]).snapshots["m"][0]
    rest = [("m", table.part(20, 40).chunk())]
    other_rows = write_folder(tmp_path / "rows", {"m": data}, rows=30)
    with pytest.raises(Exception, match=r"learner of model 'm': it has seen 20 rows, .* 30"):
        train(rest, warm=other_rows)
    damaged = write_folder(tmp_path / "damaged", {"m": data})
    (tmp_path / "damaged" / "m@learner.safetensors").write_bytes(data[:-5])
    with pytest.raises(Exception, match=r"damaged, learner of model 'm': damaged state"):
        train(rest, warm=damaged)
    missing = write_folder(tmp_path / "missing", {"m": data})
    (tmp_path / "missing" / "m@learner.safetensors").unlink()
    with pytest.raises(Exception, match=r"m@learner.safetensors: cannot be read"):
        train(rest, warm=missing)
    gap = write_folder(tmp_path / "gap", {"m": data})
    with pytest.raises(Exception, match="rows 20 to 24 never came, row 25 did"):
        train([("m", table.part(25, 40).chunk())], warm=gap)
