"""Models that lie abreast between bundles send what they send one by one, and keep the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.cli.main import read
from pipelines.live.columns import check
from pipelines.live.options import topics_from_flags
from pipelines.live.pipeline import LiveEnds
from pipelines.live.stream import live_job
from pipelines.local.models import IDLE, SILENT, Models
from pipelines.local.steps import LocalSteps
from pipelines.local.store import Saved
from tests.parts import examples
from transforms.chunks import Chunk
from transforms.kafka.messages import Message
from transforms.keyed.commands import HEADER, RESET
from transforms.metrics import CALLS
from transforms.track import abreast
from transforms.track.abreast import Abreast
from transforms.track.log import Waiting

MODELS, LEAST = 36, 8
BEGIN = 1_700_000_000
DISORDER = 3
BUNDLES = 48
LOSS = "loss_millionths"

Bundle = tuple[list[Message], float]
ASKED = {
    "plain": (),
    "drift": ("--drift",),
    "hold": ("--missing", "hold", "--hold-for", "5"),
    "drop": ("--duplicates", "drop"),
    "merge": ("--duplicates", "merge"),
}


def new(folder: Path, asked: tuple[str, ...]) -> tuple[LocalSteps, Models]:
    args = read(
        [
            *("stream", "--engine", "local", "--topic", "rows", "--output-topic", "out"),
            *("--features", "a", "b", "--time", "time", "--time-unit", "s", "--label", "label"),
            *("--rank", "2", "--budget", "4", "--warmup", "6", "--max-jump", "100"),
            *("--max-disorder", str(DISORDER), "--idle-flush", "9", "--expire-after", "14"),
            *("--snapshots", str(folder), "--seed", "5", *asked),
        ]
    )[1]
    job, snapshots, expiry = live_job(args, check(args))
    ends = LiveEnds(
        topic="rows",
        labels=None,
        topics=topics_from_flags(args),
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


def life(seed: int) -> list[Bundle]:
    """Bundles a second apart of models that mostly send, in and out of order; odd ones among them.

    Some pause for longer than it takes to flush their rows, and to expire; one is reset.
    """
    rng = np.random.default_rng(seed)
    pauses = {
        int(model): (int(start), int(start + length))
        for model, start, length in zip(
            rng.choice(MODELS, 5, replace=False),
            rng.integers(15, 30, 5),
            rng.choice([3, 11, 18], 5),
            strict=True,
        )
    }
    odd = rng.choice(MODELS, 4, replace=False).tolist()
    found: list[Bundle] = []
    offset = 0
    for number in range(BUNDLES):
        own: list[Message] = []
        # Now and then a few of them send, or half.
        part = rng.choice([1.0, 0.6, 0.1], p=[0.8, 0.15, 0.05])
        for model in rng.permutation(MODELS).tolist():
            start, stop = pauses.get(model, (0, 0))
            if start <= number < stop or rng.random() > part:
                continue
            for _ in range(int(rng.integers(1, 4))):
                at = BEGIN + number - round(rng.uniform(0, DISORDER - 1) * 8) / 8
                a, b = rng.normal(size=2).tolist()
                row: dict[str, Any] = {"time": at, "a": a, "b": b, "label": "up"}
                if rng.random() < 0.3:
                    row["label"] = None
                if model in odd and rng.random() < 0.1:
                    change = {"time": at + float(rng.choice([-20, 500]))}, {"a": None}, {"a": 1e300}
                    row |= change[int(rng.integers(3))]
                own.append(message(offset, model, json.dumps(row).encode()))
                offset += 1
        if number == BUNDLES // 2:
            own.append(message(offset, odd[0], None, ((HEADER, RESET.encode()),)))
            offset += 1
        found.append((own, BEGIN + number + 0.5))
    return found


def message(
    offset: int, model: int, value: bytes | None, headers: tuple[tuple[str, bytes], ...] = ()
) -> Message:
    return Message("rows", model % 2, offset, BEGIN * 1000, b"m%d" % model, value, headers)


def run(steps: LocalSteps, given: list[Bundle]) -> list[list[str]]:
    """What each bundle sends: between models there is no order."""
    return [sorted(map(repr, steps.run(part, now))) for part, now in given]


def counted(steps: LocalSteps) -> dict[str, int]:
    """What was counted, but for calls, and what is rounded with each of them."""
    own = steps.counts.items()
    return {name: total for name, total in own if total and name not in {CALLS, LOSS}}


def kept(models: Models) -> list[Any]:
    """What is written of models; it does not matter in how many pieces rows wait."""
    found: list[Any] = []
    for key in sorted(models._models):
        cells, _ = models._model(key)
        rows, others = list[Chunk](), list[Any]()
        for entry in cells.log.read():
            wait = isinstance(entry, Chunk | Waiting)
            (rows if wait else others).append(
                entry.chunk() if isinstance(entry, Waiting) else entry
            )
        waiting = Chunk.concat(rows).in_order().encode() if rows else b""
        timers = [models._due.get((key, name)) for name in (IDLE, SILENT)]
        found.append((key, others, waiting, timers, cells.buffer.read(), cells.kept.read()))
    return found


@settings(max_examples=examples(4))
@given(
    seed=st.integers(0, 10_000),
    asked=st.sampled_from(sorted(ASKED)),
    killed=st.integers(1, BUNDLES),
)
def test_they_send_and_keep_what_they_do_one_by_one(
    seed: int, asked: str, killed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also those of a job that goes on from what was written of them."""
    folder, given, flags = tmp_path_factory.mktemp("abreast"), life(seed), ASKED[asked]
    (folder / "together").mkdir()
    with patch.object(abreast, "LEAST_MODELS", MODELS + 1):
        steps, models = new(folder / "alone", flags)
        alone = run(steps, given)
    ran: list[int] = []
    with (
        patch.object(abreast, "LEAST_MODELS", LEAST),
        patch.object(Abreast, "run", autospec=True, side_effect=Abreast.run) as runs,
    ):
        together, others = new(folder / "together", flags)
        assert run(together, given[:killed]) == alone[:killed]
        ran += [len(call.args[1]) for call in runs.call_args_list]
        shutil.copytree(folder / "together", folder / "again", dirs_exist_ok=True)
        again, after = new(folder / "again", flags)
        # What was written does not change what those do that it was written of.
        for _ in range(2):
            written = [(key, others._encode(key)) for key in sorted(others._models)]
        for key, data in written:
            if data is not None:
                after.take(Saved(key, 0, data), "here")
        rest = run(together, given[killed:])
        assert rest == alone[killed:]
        if killed < BUNDLES:
            assert run(again, given[killed:]) == rest
    assert killed < 25 or sum(ran) > 5 * MODELS
    assert counted(together) == counted(steps)
    assert kept(others) == kept(models)
    assert [*others.changed.items()] == [*models.changed.items()]
