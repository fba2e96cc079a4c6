"""Several trackers and learners in one pipeline."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from kerneltrack.learners import LMSSpec, RidgeSpec
from tests.stream.running import SPEC, Element, make_rows
from transforms.chunks import Chunk
from transforms.track.transform import FEATURES, SNAPSHOTS, TrackSubspace
from transforms.train import PREDICTIONS, TrainLinear

SEEN: Counter[tuple[str, str]] = Counter()
"""Rows by output and model; in-process workers share it."""


def note(element: tuple[str, Any], output: str) -> None:
    key, chunk = element
    SEEN[output, key] += len(chunk) if isinstance(chunk, Chunk) else 1


def elements(size: int) -> list[Element]:
    found = []
    for seed, key in enumerate(("m", "n")):
        rows = make_rows(120, seed=seed)
        labelled = dataclasses.replace(rows, label=np.array(["a", "b"] * 60, dtype=object))
        found += [(key, chunk) for chunk in labelled.cut([size] * (120 // size))]
    return found


def test_several_trackers_and_learners_do_not_take_each_others_rows() -> None:
    """The in-process runner fuses them all, and keeps timers by their names alone."""
    SEEN.clear()
    pipeline = beam.Pipeline(runner=FnApiRunner())
    rows = pipeline | "Rows" >> beam.Create(elements(40))
    expected: dict[tuple[str, str], int] = {}
    for number, spec in enumerate((SPEC, dataclasses.replace(SPEC, rank=2))):
        tracked = rows | f"Track {number}" >> TrackSubspace(spec)
        _ = tracked[FEATURES] | f"Features {number}" >> beam.Map(note, f"features {number}")
        _ = tracked[SNAPSHOTS] | f"Snapshots {number}" >> beam.Map(note, f"snapshots {number}")
        for learner in (RidgeSpec(), LMSSpec()):
            name = f"{learner.learner} {number}"
            learned = tracked[FEATURES] | f"Learn {name}" >> TrainLinear(learner)
            _ = learned[PREDICTIONS] | f"Predictions {name}" >> beam.Map(note, name)
            expected |= {(name, key): 120 for key in "mn"}
        expected |= {(f"features {number}", key): 120 for key in "mn"}
        expected |= {(f"snapshots {number}", key): 1 for key in "mn"}
    pipeline.run().wait_until_finish()
    assert dict(SEEN) == expected
