"""The compiled loops: structures as Python and C have them, sums to the bit, builds that agree."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import numpy.typing as npt
import pytest

from kerneltrack.errors import ConfigError
from kerneltrack.kernels import Kernel, gram, make_kernel
from kerneltrack.learners.common.labels import Coded
from kerneltrack.learners.common.prequential import Mode, Predicted
from kerneltrack.monitor.periods.sums import Memory, PeriodSums
from kerneltrack.native import binding
from kerneltrack.registry import LEARNERS
from kerneltrack.trackers.common.state import Outputs
from kerneltrack.trackers.covariance import state as covariance
from kerneltrack.trackers.oana import state as oana
from kerneltrack.trackers.okfeb import state as okfeb

Array = npt.NDArray[np.float64]
Term = Callable[[float, float, float], float]

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(binding.__file__).parent
KINDS = {"double": {"float"}, "int64_t": {"int", "bool"}}
ARRAYS = {
    "vec": np.float64,
    "mat": np.float64,
    "ints": np.int64,
    "int_table": np.int64,
    "flags": np.bool_,
}

STRUCTURES: dict[str, Any] = {
    "kernel": Kernel,
    "outputs": Outputs,
    "okfeb_settings": okfeb.OkfebSettings,
    "okfeb_state": okfeb.SubspaceState,
    "covariance_settings": covariance.CovarianceSettings,
    "covariance_state": covariance.CovarianceState,
    "oana_settings": oana.OanaSettings,
    "oana_state": oana.OANAState,
    "mode": Mode,
    "coded": Coded,
    "predicted": Predicted,
    "period_memory": Memory,
    "period_sums": PeriodSums,
}


def declared(name: str) -> list[tuple[str, str]]:
    """The members of a C structure, in their order: names and types."""
    text = "\n".join(path.read_text("utf-8") for path in sorted(SOURCES.glob("*.[ch]")))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    found = re.findall(r"typedef struct \{([^{}]*)\} (\w+);", text)
    (body,) = [body for body, of in found if of == name]
    members = []
    for line in filter(None, map(str.strip, body.split(";"))):
        kind, names = line.split(maxsplit=1)
        members += [(member.strip(), kind) for member in names.split(",")]
    return members


@pytest.mark.parametrize("name", STRUCTURES)
def test_c_declares_what_python_packs(name: str) -> None:
    of = STRUCTURES[name]
    members = declared(name)
    assert [member for member, _ in members] == list(of._fields)
    hints = get_type_hints(of, include_extras=True)
    for member, kind in members:
        hint = hints[member]
        if kind in ARRAYS:
            (dtype,) = hint.__args__[1].__args__
            assert dtype is ARRAYS[kind], member
        else:
            assert hint.__name__ in KINDS[kind], member


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


@pytest.mark.parametrize("count", [*range(1, 20), 31, 32, 33, 63, 64, 65, 71, 100])
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


def test_a_build_of_another_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(binding.CHOICE, "sparc")
    with pytest.raises(ConfigError, match="KERNELTRACK_NATIVE = 'sparc'"):
        binding.build.__wrapped__()


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
