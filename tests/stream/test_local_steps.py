"""A local job's steps and state: a job that goes on from any checkpoint sends the same messages."""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltrack.errors import DataError
from pipelines.cli.main import read
from pipelines.live.columns import check, label_columns
from pipelines.live.options import topics_from_flags
from pipelines.live.pipeline import Labels, LiveEnds
from pipelines.live.stream import live_job
from pipelines.local.models import Models
from pipelines.local.steps import LocalSteps, Sent
from pipelines.local.store import Bundle, Checkpoint, Saved, Store
from tests.parts import ALL_EXAMPLES, examples
from transforms.kafka.messages import Message
from transforms.keyed.commands import HEADER, RESET
from transforms.track.log import LEAST_LEFT, ModelLog

TOPIC, LABELS = "rows", "labels"
CHANNELS = ("a", "b")
COUNT = 160
BEGIN = 1.7e9
"""Seconds since 1970 at which the first message comes; they are a second apart."""


def flags(tmp: str) -> argparse.Namespace:
    args: argparse.Namespace = read(
        [
            *("stream", "--engine", "local", "--topic", TOPIC, "--output-topic", "out"),
            *("--features", *CHANNELS, "--time", "time", "--time-unit", "s", "--model-id", "id"),
            *("--labels-topic", LABELS, "--label-column", "label", "--label-wait", "5"),
            *("--rank", "2", "--budget", "4", "--warmup", "8", "--learner", "ridge"),
            *("--reference", "first", "--reference-rows", "256", "--reference-per", "200 rows"),
            *("--devices-topic", "devices", "--drift", "--idle-flush", "20", "--max-disorder", "3"),
            *("--snapshots", tmp, "--expire-after", "30", "--silent-after", "25s"),
        ]
    )[1]
    return args


def new(folder: Path) -> tuple[LocalSteps, Models]:
    args = flags(str(folder))
    columns = check(args)
    job, snapshots, expiry = live_job(args, columns)
    topics = topics_from_flags(args)
    ends = LiveEnds(
        topic=TOPIC,
        labels=Labels(topic=LABELS, columns=label_columns(args, columns)),
        topics=topics,
        form="json",
        output_form="json",
        consumer={},
        client={},
        expansion_service="",
        snapshots=snapshots,
        expiry=expiry,
    )
    models = Models()
    steps = LocalSteps(job, ends, models)
    # Rows that a model refuses are fetched from Kafka once more, which is not here.
    steps._fetch.clear()
    return steps, models


def message(
    topic: str, offset: int, value: Any, headers: tuple[tuple[str, bytes], ...] = ()
) -> Message:
    data = None if value is None else json.dumps(value).encode()
    return Message(topic, 0, offset, int(BEGIN * 1000), b"m1", data, headers)


def messages() -> list[tuple[float, Message]]:
    """Rows of three models, one of which pauses, labels, a command, and what is no row."""
    rng = np.random.default_rng(3)
    found, labels = [], 0
    for row in range(COUNT):
        model, at = f"m{row % 3}", BEGIN + row
        if model == "m2" and 40 < row < 110:
            continue
        x = rng.normal(size=(10, 2)) + (9 if model == "m0" and 110 < row < 130 else 0)
        rows = [
            {"id": model, "time": at + place / 16, "a": a, "b": b}
            for place, (a, b) in enumerate(x.tolist())
        ]
        found.append((at, message(TOPIC, row, rows)))
        if row % 4:
            label = {"id": model, "time": at, "label": "up" if x[0, 0] > 0 else "down"}
            found.append((at + 1, message(LABELS, labels, label)))
            labels += 1
    found.append((BEGIN + 90.5, message(TOPIC, COUNT, None, ((HEADER, RESET.encode()),))))
    found.append((BEGIN + 50.5, message(TOPIC, COUNT + 1, "no row")))
    return sorted(found, key=lambda each: each[0])


def bundles(cuts: list[int]) -> list[tuple[list[Message], float]]:
    """Cut the messages into bundles; each runs when its last message has come."""
    all_of_them = messages()
    places = [0, *sorted({cut % len(all_of_them) for cut in cuts} - {0}), len(all_of_them)]
    parts = [all_of_them[a:b] for a, b in itertools.pairwise(places)]
    quiet: list[tuple[list[Message], float]] = [
        ([], BEGIN + COUNT + 25.0),
        ([], BEGIN + COUNT + 60.0),
    ]
    return [*(([m for _, m in part], part[-1][0]) for part in parts), *quiet]


def run(steps: LocalSteps, given: list[tuple[list[Message], float]]) -> list[list[Sent]]:
    return [steps.run(part, now) for part, now in given]


def names(sent: list[list[Sent]]) -> set[str]:
    return {topic.removeprefix("out-") for part in sent for topic, _ in part}


@pytest.mark.parametrize("least", [LEAST_LEFT, 100])
def test_a_log_that_stays_in_memory_is_what_one_that_is_read_anew_is(
    least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where so many rows wait that they are left where they are, and models appended."""
    parts = bundles([*range(1, 1000, 3 if ALL_EXAMPLES else 7)])
    monkeypatch.setattr("transforms.track.log.LEAST_LEFT", least)

    def sent_and_written(folder: Path) -> list[Any]:
        steps, models = new(folder)
        found: list[Any] = []
        for number, (part, now) in enumerate(parts, 1):
            models.bundle = number
            sent = steps.run(part, now)
            found.append((sent, [models.save(key) for key in sorted(models.changed)]))
        return found

    appended, append = list[int](), ModelLog.append

    def counted(log: ModelLog, *args: Any) -> None:
        appended.append(1)
        append(log, *args)

    monkeypatch.setattr(ModelLog, "append", counted)
    stays = sent_and_written(tmp_path / "stays")
    assert bool(appended) == (least < LEAST_LEFT)
    monkeypatch.setattr("transforms.track.keyed_fn.log_of", ModelLog)
    assert stays == sent_and_written(tmp_path / "anew")


@settings(max_examples=examples(6))
@given(
    cuts=st.lists(st.integers(1, 1000), min_size=3, max_size=25),
    written=st.lists(st.integers(0, 3), min_size=1, max_size=8),
    killed=st.integers(0, 30),
)
def test_a_job_that_was_killed_sends_what_it_would_have(
    cuts: list[int],
    written: list[int],
    killed: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """However many models are written with each bundle."""
    folder = tmp_path_factory.mktemp("local")
    parts = bundles(cuts)
    steps, _ = new(folder / "whole")
    whole = run(steps, parts)
    assert {"out", "predictions", "scored", "episodes", "devices"} <= names(whole)

    killed %= len(parts)
    steps, models = new(folder / "cut")
    store = Store(str(folder))
    store.begin({})
    turns = zip(parts[:killed], whole, itertools.cycle(written), strict=False)
    for number, ((part, now), sent, count) in enumerate(turns, 1):
        some = [models.save(key) for key in list(models.changed)[:count]]
        seen = models.seen
        models.bundle = number
        assert steps.run(part, now) == sent
        store.write(some, seen, Bundle(number, now, {}, {}))

    again, after = new(folder / "cut")
    after.bundle = store.checkpoint().number
    for saved in store.models(-1, after.bundle):
        after.take(saved, "here")
    assert not after.changed
    numbers = [bundle.number for bundle in store.bundles()]
    assert numbers == [*range(after.bundle + 1, killed + 1)]
    for number in numbers:
        after.bundle = number
        again.run_again(*parts[number - 1], store.ahead(number - 1))
        for saved in store.models(number - 1, number):
            after.take(saved, "here")
    assert after.changed == models.changed
    assert run(again, parts[killed:]) == whole[killed:]
    store.close()


def test_messages_of_a_bundle_may_come_in_any_order(tmp_path: Path) -> None:
    ((part, now), *_) = bundles([400])
    steps, _ = new(tmp_path / "a")
    other, _ = new(tmp_path / "b")
    assert steps.run(part, now) == other.run(part[::-1], now)
    assert steps.refused == other.refused == 1
    assert "not an object" in steps.last_reason


def test_the_store_keeps_what_was_written(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    assert not store.holds_job
    store.begin({TOPIC: {0: 7}})
    assert store.checkpoint() == Checkpoint(0, {TOPIC: {0: 7}})
    each = [Bundle(n, 1.5 * n, {TOPIC: {0: n}}, {TOPIC: {0: n + 7}}) for n in (1, 2, 3, 4)]
    store.write([], 0, each[0])
    store.write([Saved("a", 1, b"1"), Saved("b\0é", 1, b"2")], 1, each[1])
    assert store.checkpoint() == Checkpoint(1, {TOPIC: {0: 8}})
    store.write([Saved("a", 2, None)], 1, each[2])
    store.write([], 1, each[3])
    store.forget_after(3)
    store.close()
    store = Store(str(tmp_path))
    assert store.holds_job
    assert store.checkpoint() == Checkpoint(1, {TOPIC: {0: 8}})
    assert store.bundles() == each[1:3]
    assert [*store.models(-1, 1)] == [Saved("b\0é", 1, b"2")]
    assert [*store.models(1, 2)] == [Saved("a", 2, None)]
    assert store.ahead(1) == {"a"}
    store.write([Saved("c", 3, b"3")], 2)
    assert store.checkpoint() == Checkpoint(2, {TOPIC: {0: 9}})
    assert store.bundles() == each[2:3]
    assert [saved.key for saved in store.models(-1, 3)] == ["b\0é", "c"]
    store.close()


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.sqlite3").write_bytes(b"no database" * 100)
    with pytest.raises(DataError, match="file is not a database"):
        Store(str(tmp_path))
    with pytest.raises(DataError, match="the state of model 'a'"):
        Models().take(Saved("a", 0, b"\xc1"), "here")
