"""Row loops that get no memory: no crash, nothing kept, and an error that says so.

After `rax-oom-test.c` of redis' rax. `failing_allocator.h` is compiled into a build of the loops;
each operation here runs with its first request for memory refused, then with the second, and so on
until all are granted; then once more, and the result is what it was before. `python -m
tests.native.failed_allocations` prints, as JSON, the functions that were refused memory;
`KERNELTRACK_NATIVE_FOLDER` names the build.
"""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneltrack import codec
from kerneltrack.batch import row_sparse
from kerneltrack.kernels import gram, make_kernel
from kerneltrack.monitor import reference
from kerneltrack.monitor.mismatch import window_mismatch
from kerneltrack.monitor.periods.device import numbers_of
from kerneltrack.monitor.periods.spec import PeriodsSpec
from kerneltrack.monitor.periods.sums import SECOND, DeviceSums
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.monitor.reference.run import end_stretch
from kerneltrack.native import binding
from kerneltrack.registry import get_tracker
from kerneltrack.tracker import Tracker
from kerneltrack.trackers import DSKPCASpec, OKFEBSpec
from kerneltrack.trackers.doubly.random_features import feature_rows, make_feature_map
from tests.crafted_states import Case, cases
from tests.native.recording import of_guesses, of_tracker, some_rows

Array = npt.NDArray[np.float64]

NO_ROOM = re.compile(r"no room for the scratch space of (\w+)")
SPEC = OKFEBSpec(rank=3, budget=6, warmup=20)
DAY = 86_400


def operations() -> dict[str, Callable[[], Any]]:
    """Return what is run, each from its beginning as often as it is called."""
    rows = some_rows()
    found: dict[str, Callable[[], Any]] = {}
    found |= {name: _from_bytes(make()) for name, make in cases().items()}
    found |= {f"moving {name}": partial(of_tracker, name, rows) for name in ("okfeb", "covariance")}
    found["probabilities"] = partial(of_guesses, "classification", rows)
    for run in (_row, _start, _mismatch, _overlap, _features, _periods, _stretch, _descent):
        found[run.__name__] = partial(run, rows)
    return found


def _from_bytes(case: Case) -> Callable[[], bytes]:
    return lambda: case.run(case.read(case.data, True))


def _row(rows: Array) -> bytes:
    tracker = Tracker(SPEC)
    for row in rows[:22]:
        tracker.learn(row)
    return codec.encode(SPEC, tracker.state)


def _start(rows: Array) -> bytes:
    spec = DSKPCASpec(rank=3, budget=24, feature_batch=4, row_batch=7, warmup=20)
    return bytes(get_tracker("dskpca").init(spec, rows[:20]).factor.tobytes())


def _mismatch(rows: Array) -> Any:
    state = get_tracker("okfeb").init(SPEC, rows[:20])
    return window_mismatch(SPEC, state, rows[20:60])


def _overlap(rows: Array) -> bytes:
    part, basis, out = rows[:10], np.ascontiguousarray(rows[:10, :3].T), np.empty(1)
    binding.call("overlaps", make_kernel("gaussian", 2.0), part, basis, part, basis, out)
    return out.tobytes()


def _features(rows: Array) -> bytes:
    return feature_rows(make_feature_map("gaussian", seed=1), rows, 0, 8).tobytes()


def _periods(rows: Array) -> bytes:
    sums = DeviceSums(rows.shape[1], DAY)
    many = np.resize(rows, (20 * 48, rows.shape[1]))
    sums.add(np.arange(len(many)) * (DAY // 48) * SECOND, many)
    found = numbers_of(PeriodsSpec(), sums)
    return b"".join(np.asarray(part).tobytes() for part in found)


def _stretch(rows: Array) -> bytes:
    many = np.resize(rows, (600, rows.shape[1])) + np.linspace(0, 1, 600)[:, None]
    spec = ReferenceSpec(rows=256, lags=2, rank=3, budget=6, until="1970-01-01T00:10:00")
    state = reference.init(spec, many[:256])
    state, _, _ = reference.update(spec, state, many[:512], np.arange(512) * SECOND)
    state = end_stretch(spec, state)
    return b"".join(array.tobytes() for array in reference.arrays(state).values())


def _descent(rows: Array) -> bytes:
    part = rows[:30]
    descent = row_sparse.start_descent(gram(make_kernel("gaussian", 2.0), part, part), part[:, :3])
    row_sparse.sweep(descent, row_sparse.EXACT, 0.1, 0.1)
    row_sparse.solve_q(descent, 0.1)
    return descent.q.tobytes()


class Memory:
    """The memory of the loops' scratch space, which may run out."""

    def __init__(self) -> None:
        """Find its counts in the build that is loaded."""
        names = ("kt_asked", "kt_taken", "kt_fails_at")
        self._asked, self._taken, self._fails_at = (
            ctypes.c_int64.in_dll(binding.library(), name) for name in names
        )

    def refused(self, run: Callable[[], Any], at: int) -> str | None:
        """Run something whose request `at` is refused; return the function that says so.

        Returns:
            None if there were fewer requests, and all was well.

        Raises:
            RuntimeError: if memory is kept, or nothing says that there was none.
        """
        self._asked.value, self._fails_at.value = 0, at
        name = None
        try:
            run()
        except MemoryError as error:
            text = NO_ROOM.fullmatch(str(error))
            if text is None:
                raise RuntimeError(f"request {at}: not clear: {error}") from error
            name = text[1]
        finally:
            self._fails_at.value = 0
        if self._taken.value:
            raise RuntimeError(f"request {at}: {name} keeps {self._taken.value} blocks")
        if (name is None) != (self._asked.value < at):
            raise RuntimeError(f"request {at} of {self._asked.value} was refused: {name} says so")
        return name


def main() -> None:
    """Run all operations, and print what was refused."""
    memory = Memory()
    found: set[str] = set()
    for operation, run in operations().items():
        wanted, at = run(), 1
        while (name := memory.refused(run, at)) is not None:
            found.add(name)
            at += 1
        if run() != wanted:
            raise RuntimeError(f"{operation}: other results than before")
    print(json.dumps(sorted(found)))


if __name__ == "__main__":
    main()
