"""What every tracker and learner makes of the same rows, and each call of a loop on the way.

`python -m tests.native.recording [FILE]` prints hashes of the results as JSON; into FILE it records
every call, to be replayed by `replay.c` on a processor for which there is no Python.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerneltrack import codec
from kerneltrack.in_memory import learn_all, run_all
from kerneltrack.learners import HingeSpec, LearnerSpec, LMSSpec
from kerneltrack.learners.common import guesses
from kerneltrack.learners.common.spec import TASKS
from kerneltrack.monitor.moving import ON_A_BUDGET, MovingWindow
from kerneltrack.native import binding
from kerneltrack.registry import LEARNERS, TRACKERS
from kerneltrack.trackers.common.base import loop_of
from kerneltrack.trackers.common.block import FixedBlock, ListBlock
from kerneltrack.trackers.common.loop import Loop

SOURCES = Path(binding.__file__).parent
ROWS, COLUMNS, WARMUP = 150, 5, 50
NUMBER, ARRAY, AGAIN, STRUCTURES = range(4)


def hash_of(parts: list[bytes]) -> str:
    """One hash of many pieces."""
    return hashlib.sha256(b"".join(parts)).hexdigest()


def some_rows() -> npt.NDArray[np.float64]:
    """Rows that wander; from whole numbers, so that no library's logarithm has a say."""
    rng = np.random.default_rng(7)
    noise = rng.integers(-1000, 1000, (2, ROWS, COLUMNS)) / 512.0
    rows: npt.NDArray[np.float64] = np.cumsum(noise[0], axis=0) * 0.25 + noise[1]
    return rows


def of_tracker(name: str, rows: npt.NDArray[np.float64], **more: Any) -> str:
    """Hash the features, the moving mismatch and the state that a tracker comes to."""
    tracker = TRACKERS[name]
    sizes = {"rank": COLUMNS} if name == "rows" else {"rank": 4}
    spec = tracker.spec_type(**sizes, warmup=WARMUP, **more)
    state, features = run_all(spec, rows)
    parts = [np.asarray(features.z).tobytes(), features.loss.tobytes(), features.novelty.tobytes()]
    if isinstance(spec, ON_A_BUDGET) and not more:
        moving = MovingWindow(20)
        begun = tracker.init(spec, rows[:WARMUP])
        measured = moving.update(spec, begun, moving.init(spec, begun), rows)[3]
        parts += [array.tobytes() for array in measured]
    return hash_of([*parts, codec.encode(spec, state)])


def of_learner(name: str, task: str, rows: npt.NDArray[np.float64]) -> str:
    """Hash the predictions and the state that a learner comes to."""
    labels = ["abc"[i % 3] for i in range(ROWS)] if task == "classification" else rows[:, 0]
    state, reported = learn_all(LEARNERS[name].spec_type(task=task), rows, labels)
    value = reported.score if reported.value is None else reported.value
    arrays = [array for array in state if isinstance(array, np.ndarray)]
    return hash_of([np.asarray(value).tobytes(), *(array.tobytes() for array in arrays)])


def of_guesses(task: str, rows: npt.NDArray[np.float64]) -> str:
    """Hash what guesses make of rows, what they come to, and the probabilities of a learner."""
    spec: LearnerSpec = HingeSpec() if task == "classification" else LMSSpec(task=task)
    labels = np.arange(ROWS) % 3 if spec.classifies else rows[:, 0]
    begun, span = [guesses.begin(spec, COLUMNS)], (np.zeros(1, np.int64), np.full(1, ROWS))
    (known,), marks = guesses.guess_each(spec, begun, rows, labels, *span)
    parts = [marks.tobytes()]
    if known is not None:
        parts += [array.tobytes() for array in guesses.arrays_of(known).values()]
    if spec.classifies:
        learner = LEARNERS[spec.learner]
        state, _ = learn_all(spec, rows, ["abc"[code] for code in labels.tolist()])
        parts.append(learner.probabilities(spec, state, rows).tobytes())
    return hash_of(parts)


def everything() -> dict[str, str]:
    """Hashes of what every tracker and learner makes of the same rows, by name."""
    rows = some_rows()
    found = {name: of_tracker(name, rows) for name in TRACKERS}
    found["covariance auto"] = of_tracker("covariance", rows, halflife="auto", budget=6)
    found["okfeb moving scale"] = of_tracker("okfeb", rows, standardise="moving", scale_window=20)
    for name, learner in LEARNERS.items():
        for task in sorted(learner.spec_type.tasks):
            found[f"{name} {task}"] = of_learner(name, task, rows)
    for task in TASKS:
        found[f"guesses {task}"] = of_guesses(task, rows)
    return found


def function_names() -> list[str]:
    """All functions that the sources offer to Python, in the order of their names."""
    texts = [path.read_text("utf-8") for path in sorted(SOURCES.glob("*.c"))]
    declared = [line for text in texts for line in text.splitlines() if line.startswith("KT_API ")]
    return sorted(line.partition("(")[0].split()[-1] for line in declared)


@dataclass
class Recorder:
    """Takes the place of what `binding.call` packs and calls with, and writes down both.

    Attributes:
        calls: Recorded calls, each as replay.c reads it.
        after: What each call returned and left in its arrays, as replay.c prints it.
    """

    calls: list[bytes] = field(default_factory=list)
    after: list[bytes] = field(default_factory=list)
    _given: list[list[Any]] = field(default_factory=list)
    _structures: dict[int, list[Any]] = field(default_factory=dict)

    def recorded(self) -> bytes:
        """The whole recording."""
        return struct.pack("=q", len(self.calls)) + b"".join(self.calls)

    def __enter__(self) -> Recorder:
        self._packed, self._function = binding.packed, binding._function
        numbers = {name: number for number, name in enumerate(function_names())}

        def packed(fields: tuple[Any, ...]) -> bytes:
            self._given.append(_flat(fields))
            return self._packed(fields)

        def function(name: str) -> Callable[..., int]:
            return lambda *given: self._run(numbers[f"kt_{name}"], self._function(name), given)

        binding.packed, binding._function = packed, function  # type: ignore[assignment]
        self._patched = pytest.MonkeyPatch()
        for kind in (FixedBlock, ListBlock):
            self._patched.setattr(kind, "words", self._words_of(kind.words))
        # What a spec comes to is laid out in each call, so that each is seen whole.
        self._patched.setattr(Loop, "laid_out", lambda loop: loop)
        loop_of.cache_clear()
        return self

    def __exit__(self, *_: object) -> None:
        binding.packed, binding._function = self._packed, self._function
        self._patched.undo()
        loop_of.cache_clear()

    def _words_of(self, words: Callable[..., Any]) -> Callable[..., Any]:
        """Remember the arrays that states' structures, addresses otherwise, are of."""

        def remembering(block: Any, models: Any = None) -> Any:
            made, states = words(block, models).copy(), block.states()
            chosen = range(len(states)) if models is None else models.tolist()
            self._structures[made.ctypes.data] = [made, *(states[place] for place in chosen)]
            return made

        return remembering

    def _run(self, number: int, run: Callable[..., int], given: tuple[bytes, ...]) -> int:
        arguments, self._given = self._given, []
        arrays: list[npt.NDArray[Any]] = []
        call = [struct.pack("=qq", number, len(arguments))]
        for words in arguments:
            pieces = [piece for word in words for piece in self._pieces(word, arrays)]
            call += [struct.pack("=q", sum(map(_words, words))), *pieces]
        result = run(*given)
        self.calls.append(b"".join(call))
        self.after += [struct.pack("=q", result), *(array.tobytes() for array in arrays)]
        self._structures.clear()
        return result

    def _pieces(self, value: Any, arrays: list[npt.NDArray[Any]]) -> list[bytes]:
        made = self._structures.get(value.ctypes.data) if isinstance(value, np.ndarray) else None
        if made is None:
            return _pieces(value, arrays)
        members = [part for state in made[1:] for array in state for part in _pieces(array, arrays)]
        lengths = [struct.pack("=qq", NUMBER, length) for length in value.shape]
        return [struct.pack("=qq", STRUCTURES, value.size), *members, *lengths]


def _flat(fields: tuple[Any, ...]) -> list[Any]:
    nested = [_flat(item) if isinstance(item, tuple) else [item] for item in fields]
    return [item for items in nested for item in items]


def _words(value: Any) -> int:
    return 1 + value.ndim if isinstance(value, np.ndarray) else 1


def _pieces(value: Any, arrays: list[npt.NDArray[Any]]) -> list[bytes]:
    """One field as replay.c reads it; an array is remembered behind `arrays`."""
    if isinstance(value, (float, np.floating)):
        return [struct.pack("=qd", NUMBER, value)]
    if not isinstance(value, np.ndarray):
        return [struct.pack("=qq", NUMBER, int(value))]
    known = next((i for i, array in enumerate(arrays) if _same(array, value)), None)
    lengths = [struct.pack("=qq", NUMBER, length) for length in value.shape]
    if known is not None:
        return [struct.pack("=qq", AGAIN, known), *lengths]
    arrays.append(value)
    return [struct.pack("=qq", ARRAY, value.nbytes), value.tobytes(), *lengths]


def _same(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> bool:
    return bool(left.size) and left.ctypes.data == right.ctypes.data


def main() -> None:
    """Print the hashes, and record the calls if a file is named."""
    if len(sys.argv) == 1:
        print(json.dumps(everything()))
        return
    with Recorder() as recorder:
        found = everything()
    Path(sys.argv[1]).write_bytes(recorder.recorded())
    print(json.dumps({**found, "calls": hash_of(recorder.after)}))


if __name__ == "__main__":
    main()
