"""Beam's cache of state measures what its entries take, without looking at every module."""

from __future__ import annotations

import importlib
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker import statecache

from transforms.beam_worker.state_cache import ENTRY, measure_entries
from transforms.chunks import Chunk
from transforms.track.clock import Clock
from transforms.track.log import Expired, Spilled, Waiting, Watch
from transforms.track.packed import Packed

MOST = 4 << 20
TRANSFORM = "ref_AppliedPTransform_Track-ParDo-TrackFn-_31"
ROWS = pa.RecordBatch.from_pydict({"time": np.arange(3), "x": np.arange(3.0)})
BagUserState = beam_fn_api_pb2.StateKey.BagUserState
KEPT: list[Any] = [
    [],
    [b"bytes of a model", Clock(), Chunk(ROWS), Chunk(ROWS.slice(1))],
    [Spilled(3), Chunk(ROWS)],
    [Expired(b"name")],
    [b"learner"],
    [3],
    [
        Packed(0, None, 10**18, 3, bytes(14_000), bytes(40_000), known=True),
        Waiting(bytes(900), 1, 10**18),
        Clock(10**18, 10**18, 2, True, ahead=(10**18 + 5, 10**18 + 7)),
        Watch(1e9, 2e9, 3e9),
    ],
    [[b"nested"], {"a": 1}],
    [(b"a", [b"list"])],
    {"no": "list"},
]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam as it comes, whatever was done to it before."""
    monkeypatch.setattr(statecache, "objsize", importlib.import_module("objsize"))


@pytest.mark.parametrize("value", KEPT)
def test_sizes_are_those_that_beam_finds_and_the_entrys(slow: None, value: Any) -> None:
    expected = statecache.get_deep_size(value)
    measure_entries()
    # Arrow's batches make what they are asked for (a schema) when they are asked.
    slack = 120 * sum(isinstance(entry, Chunk) for entry in value)
    assert abs(statecache.get_deep_size(value) - ENTRY - expected) <= slack
    assert expected > 0


def test_what_the_cache_takes_is_bounded(slow: None) -> None:
    """Of cells that are empty nearly all is their entries'."""
    measure_entries()
    cache, token = statecache.StateCache(MOST), bytes(36)
    tracemalloc.start()
    for number in range(3 * MOST // ENTRY):
        state = BagUserState(transform_id=TRANSFORM, user_state_id="log", key=b"model-%d" % number)
        cache.put((beam_fn_api_pb2.StateKey(bag_user_state=state).SerializeToString(), token), [])
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.5 * MOST < taken < 1.2 * MOST


def test_modules_are_not_looked_at(slow: None, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def globals_of_all() -> Iterator[Any]:
        looks.append(1)
        return iter(())

    monkeypatch.setattr("objsize.traverse._iter_modules_globals", globals_of_all)
    cache = statecache.StateCache(1 << 20)
    cache.put("before", [b"x"])
    assert looks
    measure_entries()
    looks.clear()
    cache.put("after", [b"x"])
    assert cache.peek("after") == [b"x"]
    assert not looks


def test_flat_entries_are_added_up_without_objsize(
    slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = KEPT[6]
    wanted = statecache.get_deep_size(kept)

    def walked(*values: Any, **how: Any) -> int:
        raise AssertionError("objsize walks")

    monkeypatch.setattr(vars(statecache)["objsize"], "get_deep_size", walked)
    measure_entries()
    assert statecache.get_deep_size(kept) == ENTRY + wanted
