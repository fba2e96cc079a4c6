"""Beam's cache of state measures our values as it did, without looking at every module."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.worker import statecache

from transforms.chunks import Chunk
from transforms.clock import Clock
from transforms.model_log import Expired, Spilled
from transforms.state_cache import measure_values_only

ROWS = pa.RecordBatch.from_pydict({"time": np.arange(3), "x": np.arange(3.0)})
KEPT: list[Any] = [
    [],
    [b"bytes of a model", Clock(), Chunk(ROWS), Chunk(ROWS.slice(1))],
    [Spilled(3), Chunk(ROWS)],
    [Expired(b"name")],
    [b"learner"],
    [3],
]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam as it comes, whatever was done to it before."""
    monkeypatch.setattr(statecache, "objsize", importlib.import_module("objsize"))


@pytest.mark.parametrize("value", KEPT)
def test_sizes_are_those_that_beam_finds(slow: None, value: Any) -> None:
    expected = statecache.get_deep_size(value)
    measure_values_only()
    assert statecache.get_deep_size(value) == expected > 0


def test_modules_are_not_looked_at(slow: None, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def globals_of_all() -> Iterator[Any]:
        looks.append(1)
        return iter(())

    monkeypatch.setattr("objsize.traverse._iter_modules_globals", globals_of_all)
    cache = statecache.StateCache(1 << 20)
    cache.put("before", [b"x"])
    assert looks
    measure_values_only()
    looks.clear()
    cache.put("after", [b"x"])
    assert cache.peek("after") == [b"x"]
    assert not looks
