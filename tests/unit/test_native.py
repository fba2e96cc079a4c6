"""The compiled loops: structures as Python and C have them, sums to the bit, builds that agree."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.kernels import gram, make_kernel
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.monitor.drift.detector import settings_of
from kerneltrack.monitor.moving import MovingWindow
from kerneltrack.native import binding
from kerneltrack.native import layouts as layouts_of
from kerneltrack.registry import LEARNERS, TRACKERS
from kerneltrack.trackers.common.base import loop_of
from tests import layouts
from tests.native.failed_allocations import operations
from tests.native.recording import some_rows

Array = npt.NDArray[np.float64]
Term = Callable[[float, float, float], float]

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(binding.__file__).parent
COUNTS = [*range(1, 20), 31, 32, 33, 63, 64, 65, 71, 100]
"""Of numbers in a sum: what is left after each of the steps that it is taken in."""
SPECS = {
    name: tracker.spec_type(rank=5 if name == "rows" else 3, warmup=20)
    for name, tracker in TRACKERS.items()
}


def test_the_header_is_that_of_the_named_tuples() -> None:
    assert layouts.FILE.read_text("utf-8") == layouts.header(), "run python -m tests.layouts"


def test_named_tuples_are_packed_as_they_are_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that calls of every loop are given, and the states that come as blocks of many."""
    names = {layouts.tuple_of(name): name for name in layouts.STRUCTURES}
    sizes: dict[str, set[int]] = {}
    plain = binding.packed

    def packed(fields: tuple[Any, ...]) -> bytes:
        data = plain(fields)
        if type(fields) in names:
            sizes.setdefault(names[type(fields)], set()).add(len(data))
        return data

    monkeypatch.setattr(binding, "packed", packed)
    loop_of.cache_clear()
    for run in operations().values():
        run()
    loop_of.cache_clear()
    binding.packed(settings_of(DriftSpec()))
    begun = {name: each.init(SPECS[name], some_rows()[:50]) for name, each in TRACKERS.items()}
    learners = [learner.init(learner.spec_type(), 3) for learner in LEARNERS.values()]
    window = MovingWindow(20).init(SPECS["okfeb"], begun["okfeb"])
    for state in (*begun.values(), *learners, window):
        arrays = tuple(getattr(state, name) for name in layouts.members_of(type(state)))
        sizes.setdefault(names[type(state)], set()).add(len(plain(arrays)))
    assert sizes == {
        name: {8 * layouts.words_of(layouts.tuple_of(name))} for name in layouts.STRUCTURES
    }


@pytest.mark.parametrize(
    "kind",
    [
        NamedTuple("Names", [("classes", tuple[str, ...]), ("sums", layouts_of.FloatVector)]),
        NamedTuple("Plain", [("sums", FloatArray)]),
    ],
)
def test_a_structure_of_anything_else_is_refused(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"does not cross|how many dimensions"):
        layouts.members_of(kind)


def fused(left: float, right: float, total: float) -> float:
    """Multiply and add exactly, then round once."""
    return float(Fraction(left) * Fraction(right) + Fraction(total))


def in_order(term: Term, left: Array, right: Array) -> float:
    """The order of native/vec.h in plain Python: 4 x 8 sums, then 8, folded in halves."""

    def add(start: int, totals: list[float]) -> list[float]:
        pairs = zip(left[start:], right[start:], totals, strict=False)
        return [term(float(a), float(b), total) for a, b, total in pairs]

    count = len(left)
    totals = [[0.0] * 8 for _ in range(4)]
    for start in range(0, count - count % 32, 32):
        totals = [add(start + 8 * i, totals[i]) for i in range(4)]
    lanes: list[float] = [(a + b) + (c + d) for a, b, c, d in zip(*totals, strict=True)]
    for start in range(count - count % 32, count - count % 8, 8):
        lanes = add(start, lanes)
    width = 8
    while width > 1:
        width //= 2
        lanes = [lanes[i] + lanes[i + width] for i in range(width)]
        if count & width:
            lanes = add(count - count % (2 * width), lanes)
    return float(lanes[0])


def distance(kernel: str, left: Array, right: Array) -> float:
    """What is compared of two rows: the pair's entry of the distances."""
    out = np.empty(1)
    binding.call("pair_distances", make_kernel(kernel), np.stack([left, right]), out)
    return float(out[0])


@pytest.mark.parametrize("count", COUNTS)
def test_sums_have_a_stated_order(count: int) -> None:
    rng = np.random.default_rng(count)
    left, right = rng.normal(size=(2, count)) * 10.0 ** rng.integers(-8, 8, size=(2, count))
    found = float(gram(make_kernel("linear"), left[None], right[None])[0, 0])
    assert found == in_order(fused, left, right)

    def square(a: float, b: float, total: float) -> float:
        return fused(a - b, a - b, total)

    def absolute(a: float, b: float, total: float) -> float:
        return total + abs(a - b)

    # The later row of a pair comes first.
    assert distance("gaussian", left, right) == in_order(square, right, left)
    assert distance("laplacian", left, right) == in_order(absolute, right, left)


@pytest.mark.sanitized
def test_functions_keep_within_their_arrays() -> None:
    """Those that no contract calls, too."""
    for run in operations().values():
        run()
    for count in COUNTS:
        test_sums_have_a_stated_order(count)


def test_a_build_of_another_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(binding.CHOICE, "sparc")
    with pytest.raises(ConfigError, match="KERNELTRACK_NATIVE = 'sparc'"):
        binding.build.__wrapped__()


def test_what_this_processor_can_run_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    # The folder of the sanitizers has one build.
    monkeypatch.delenv(binding.FOLDER, raising=False)
    names = binding.builds_here()
    level = ctypes.CDLL(str(binding.path_of(names[0]))).kt_processor_level()
    for name in names[: level + 1]:
        assert binding.path_of(name).is_file()


def test_arrays_that_are_not_contiguous_do_not_cross() -> None:
    with pytest.raises(TypeError, match="contiguous"):
        binding.packed((np.zeros((4, 4))[:, ::2],))


def test_every_function_that_python_calls_is_there() -> None:
    """And every one that is there is called."""
    folders = (SOURCES.parent, ROOT / "tests")
    texts = [path.read_text("utf-8") for folder in folders for path in folder.rglob("*.py")]
    named = set(re.findall(r'"(\w+)"', "\n".join(texts)))
    # A learner's loop is called by its name.
    named |= {f"{name}_run" for name in LEARNERS}
    offered = set(
        re.findall(
            r"KT_API int64_t kt_(\w+)\(",
            "\n".join(path.read_text("utf-8") for path in SOURCES.glob("*.c")),
        )
    )
    assert offered - {"processor_level"} <= named
    library = binding.library()
    assert all(hasattr(library, f"kt_{name}") for name in offered)
