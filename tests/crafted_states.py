"""Crafted states of every tracker, learner and companion, clocks and landmarks.

Run by `python -m tests.crafted_states`.

Each trial changes some arrays of a real state, or what its header says, reads it as a job reads
bytes from outside, and if it is taken runs rows through it. Under `make sanitize` the
loops check each address.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.transforms.window import SlidingWindows
from safetensors.numpy import load, save

from kerneltrack import codec
from kerneltrack.batch.landmark_spec import LandmarkSpec
from kerneltrack.batch.landmarks import choose_landmarks
from kerneltrack.errors import ConfigError, DataError
from kerneltrack.fleet.begin import begin
from kerneltrack.fleet.devices import known_of
from kerneltrack.fleet.events import next_event
from kerneltrack.fleet.model import Model, Work
from kerneltrack.fleet.restore import decode, frozen
from kerneltrack.fleet.run import run_rows
from kerneltrack.fleet.states import encode
from kerneltrack.learners import LearnerSpec
from kerneltrack.monitor import reference
from kerneltrack.monitor.drift import DriftSpec
from kerneltrack.monitor.reference import BLOCK, ReferenceSpec
from kerneltrack.registry import get_learner, get_tracker, parse_learner_spec, parse_spec
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.common.start import start_from
from pipelines import landmark_file
from tests.oracles.streams import walk
from transforms.chunks import Chunk, matrix_column
from transforms.learn import learner as learning
from transforms.learn.late_labels import LateLabels
from transforms.learn.learners import Learners
from transforms.learn.plan import Plan
from transforms.metrics import counting
from transforms.read.sample import Sample
from transforms.track.clock import Clock
from transforms.track.windows import MeasureMismatch, mismatch_chunk

ROWS = walk(seed=7, count=90, width=4)
TIMES = np.arange(len(ROWS), dtype=np.int64) * 10**9
LABELS = ["inside" if row @ row < 4 else "outside" for row in ROWS]
SECONDS_A_TRIAL = 30

SMALL = {"rank": 3, "warmup": 20, "novelty_window": 100}
TRACKERS: dict[str, dict[str, Any]] = {
    "okfeb": {"budget": 6, "censor": "rate"},
    "okfeb-paper": {
        "budget": 6,
        "rule": "nonparametric",
        "step": "majorised",
        "start": "rank_one",
        "policy": "compensated",
        "censor": "moving",
    },
    "okfeb-following": {"budget": 6, "standardise": "moving", "scale_window": 10},
    "okfe": {"max_rows": 40},
    "covariance": {"budget": 6, "admission": "leverage", "halflife_seconds": 40.0},
    "covariance-chosen": {"budget": 6, "halflife": 40.0, "rank_factor": 1.5},
    "covariance-memories": {"budget": 6, "halflife": "auto"},
    "covariance-following": {
        "budget": 6,
        "halflife": "auto",
        "standardise": "moving",
        "scale_window": 10,
    },
    "oana": {"budget": 6, "threshold": 0.2},
    "rows": {"rank": 4},
    "rows-following": {"rank": 4, "standardise": "moving", "scale_window": 10},
    "dskpca": {"budget": 24, "feature_batch": 4, "row_batch": 7},
    "dspair": {"budget": 24, "feature_batch": 8, "row_batch": 10, "first_view": 2},
    "dspair-newton": {
        "budget": 24,
        "feature_batch": 8,
        "row_batch": 10,
        "first_view": 2,
        "form": "kcca-newton",
    },
}
LEARNERS: dict[str, dict[str, Any]] = {
    "auto": {"budget": 6},
    "auto-mapped": {"budget": 6, "window": 40, "gamma": 0.1},
    "auto-targets": {"task": "regression", "budget": 6, "window": 40, "gamma": 0.1},
    "ridge": {},
    "ridge-targets": {"task": "regression"},
    "logistic": {},
    "hinge": {"decay_rows": 50},
    "pegasos": {"project": True},
    "lms": {},
    "pa": {},
    "polk": {"warmup": 20, "budget": 8, "batch": 3},
    "polk-targets": {"task": "regression", "gamma": 3.0, "budget": 8},
    "bsgd": {"warmup": 20, "budget": 8, "maintenance": "projection"},
    "bsgd-merging": {"gamma": 3.0, "budget": 8},
    "fogd": {"warmup": 20, "budget": 9},
    "nolana": {"warmup": 20, "budget": 8, "rank": 5, "threshold": 0.5},
}

REALS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308, 1e150, 1e16, 1e-308, 5e-324, -1.0, 0.5)
WHOLES = (0, -1, 1, 2, 3, 7, 12, 100, 255, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))
ODD: tuple[Any, ...] = (*WHOLES, 2**70, 1.5, True, None, "x", [], {})


class Case(NamedTuple):
    """A state to change, and how a job goes on from it.

    Attributes:
        data: Its bytes.
        read: Reads bytes as those of others, or as the job's own; a DataError refuses them.
        run: Runs rows through what was read, and writes it again.
    """

    data: bytes
    read: Callable[[bytes, bool], Any]
    run: Callable[[Any], bytes]


def cases() -> dict[str, Callable[[], Case]]:
    """Return what makes a case of each tracker, learner and companion: that compiles its loops."""
    found: dict[str, Callable[[], Case]] = {
        f"tracker {name}": partial(_tracker, _spec(name)) for name in TRACKERS
    }
    found |= {f"learner {name}": partial(_learner, _learner_spec(name)) for name in LEARNERS}
    found |= {f"model {name}": partial(_model, _spec(name)) for name in ("okfeb", "covariance")}
    found["model reference"] = partial(_referred, _spec("okfeb"))
    found["model given"] = partial(_given, _spec("okfeb"))
    found["model moving"] = partial(_moving, _spec("okfeb"))
    found["model of modes"] = partial(_of_modes, _spec("okfeb"))
    found["model of windows"] = partial(_of_windows, _spec("okfeb"))
    found["model of spans"] = partial(_of_spans, _spec("okfeb"))
    found["model of two references"] = partial(_of_two, _spec("okfeb"))
    found["model of moving windows"] = partial(_of_moving_windows, _spec("okfeb"))
    for name in ("auto", "ridge", "ridge-targets", "polk", "nolana", "fogd"):
        found[f"learning {name}"] = partial(_learning, _learner_spec(name))
    return found


def _spec(name: str) -> SubspaceSpec:
    return parse_spec({"tracker": name.partition("-")[0], **SMALL, **TRACKERS[name]})


def _learner_spec(name: str) -> LearnerSpec:
    return parse_learner_spec({"learner": name.partition("-")[0], **LEARNERS[name]})


def _labels(spec: LearnerSpec) -> Any:
    return LABELS if spec.classifies else ROWS[:, 0]


def _tracker(spec: SubspaceSpec) -> Case:
    tracker = get_tracker(spec.tracker)

    def run(state: Any) -> bytes:
        tracker.project(spec, state, ROWS[:5], ("q", "s"))
        state, _ = tracker.update(spec, state, ROWS[:60], ("q", "s"), TIMES[:60])
        return codec.encode(spec, state)

    def read(data: bytes, own: bool) -> Any:
        return codec.decode(data, own=own).state

    return Case(run(tracker.init(spec, ROWS[: spec.rows_to_start], "a")), read, run)


def _learner(spec: LearnerSpec) -> Case:
    learner = get_learner(spec.learner)

    def run(state: Any) -> bytes:
        # A state of one array may be that of rows of another width.
        rows = np.resize(ROWS, (70, learner.width(spec, state)))
        learner.predict(spec, state, rows[:5])
        learner.values(spec, state, rows[:5])
        learner.settled(spec, state)
        state, _ = learner.update(spec, state, rows, _labels(spec)[:70])
        return codec.encode_learner(spec, state)

    def read(data: bytes, own: bool) -> Any:
        return codec.decode_learner(data, own=own).state

    return Case(run(learner.init(spec, ROWS.shape[1])), read, run)


def _model(spec: SubspaceSpec) -> Case:
    measure = MeasureMismatch(SlidingWindows(size=20, period=10), moving=15, most_rows=8).in_ns()
    drift = DriftSpec(settle=20, block=5)
    work = Work(spec=spec, hold=10**9, measure=measure, drift=drift, every=17 * 10**9)

    def run(now: Model) -> bytes:
        begin = 0 if now.time is None else now.time + 10**9
        begin = min(begin, 8 * 10**18)
        now, outcome = run_rows(work, "a", now, ROWS[:30], begin + TIMES[:30], begin)
        next_event(work, now)
        mismatch_chunk(outcome.measured[0], spec, 0.95)
        return encode(work, "a", now)

    def read(data: bytes, own: bool) -> Model:
        return decode(work, data, "state", own)

    return Case(run(begin(work, "a", ROWS[:20])), read, run)


def _referred(spec: SubspaceSpec) -> Case:
    """Return a model whose reference has an open episode, and soon learns a block of rows."""
    asked = ReferenceSpec(rows=2 * BLOCK, learning="gated", lags=3, rank=3, budget=6)
    return _with_reference(spec, asked, 5 * BLOCK - 30)


def _moving(spec: SubspaceSpec) -> Case:
    """Return the same of a reference that moves."""
    asked = ReferenceSpec(
        learning="auto", memory=f"{8 * BLOCK} rows", rows=2 * BLOCK, lags=2, causes=[1]
    )
    return _with_reference(spec, asked, 10 * BLOCK - 30)


def _of_modes(spec: SubspaceSpec) -> Case:
    """Return the same of one with modes."""
    asked = ReferenceSpec(
        learning="auto", memory=f"{8 * BLOCK} rows", rows=2 * BLOCK, lags=2, mode=3, max_modes=2
    )
    return _with_reference(spec, asked, 10 * BLOCK - 30)


def _of_windows(spec: SubspaceSpec) -> Case:
    """Return the same of one with a view of windows."""
    asked = ReferenceSpec(rows=2 * BLOCK, learning="gated", lags=2, rank=3, budget=6, window=16)
    return _with_reference(spec, asked, 5 * BLOCK - 30)


def _of_moving_windows(spec: SubspaceSpec) -> Case:
    """Return the same of one with a view of windows that moves."""
    asked = ReferenceSpec(
        learning="auto", memory=f"{8 * BLOCK} rows", rows=2 * BLOCK, lags=2, causes=[1], window=16
    )
    return _with_reference(spec, asked, 10 * BLOCK - 30)


def _of_spans(spec: SubspaceSpec) -> Case:
    """Return the same of one that judges one row of two."""
    memory = f"{8 * BLOCK} rows"
    asked = ReferenceSpec(learning="auto", memory=memory, rows=2 * BLOCK, lags=2, every="2 seconds")
    return _with_reference(spec, asked, 20 * BLOCK - 30)


def _of_two(spec: SubspaceSpec) -> Case:
    """Return the same of two, one of which judges one row of two."""
    asked = ReferenceSpec(
        learning="auto", memory=f"{8 * BLOCK} rows", rows=2 * BLOCK, lags=2, also_every="2 seconds"
    )
    return _with_reference(spec, asked, 20 * BLOCK - 30)


def _with_reference(spec: SubspaceSpec, asked: ReferenceSpec, count: int) -> Case:
    work = Work(spec=spec, reference=asked)
    seen = walk(seed=8, count=count, width=4)
    if asked.modes:
        seen[:, 3] = np.arange(count) // 40 % 2
    seen[-10:, :3] += 20.0

    times = np.arange(count + 50) * 10**9 if asked.needs_times else None
    before, after = (None, None) if times is None else (times[:count], times[count:])

    def run(now: Model) -> bytes:
        now, _ = run_rows(work, "a", now, ROWS[:50], after, 0)
        if now.reference is not None:
            known_of(work, "a", now)
        return encode(work, "a", now)

    def read(data: bytes, own: bool) -> Model:
        return decode(work, data, "state", own)

    now, _ = run_rows(work, "a", begin(work, "a", seen[:20]), seen, before, 0)
    return Case(encode(work, "a", now), read, run)


def _given(spec: SubspaceSpec) -> Case:
    """Return a snapshot that rows are only scored against, or whose reference others are given."""
    made = _referred(spec)

    def run(now: tuple[bytes, Work, Model]) -> bytes:
        data, work, held = now
        run_rows(work, "a", held, ROWS[:50], None, math.inf)
        if work.reference is not None and held.reference is not None:
            reference.update(work.reference, reference.restarted(held.reference), ROWS[:50])
        return data

    def read(data: bytes, own: bool) -> tuple[bytes, Work, Model]:
        work, held, _ = frozen(data, "state", MeasureMismatch(SlidingWindows(20, 10)).in_ns())
        return data, work, held

    return Case(made.data, read, run)


def _learning(spec: LearnerSpec) -> Case:
    plan = Plan(spec=spec, late=LateLabels(wait=20.0, most_rows=12), window=15 * 10**9)

    def run(now: learning.Learning) -> bytes:
        begin = min(0 if now.time is None else now.time + 10**9, 8 * 10**18)
        times = begin + TIMES[:40]
        label = list(_labels(spec)[:40])
        label[::3] = [None] * len(label[::3])
        columns = {
            "index": now.rows + np.arange(40),
            "time": times,
            "z": matrix_column(ROWS[:40]),
            "label": pa.array(label),
        }
        rows = Chunk(pa.RecordBatch.from_pydict(columns))
        learners = Learners(plan, ["a"], [now])
        learners.take(rows, np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([40]))
        now = learners.now[0]
        with counting():
            learners.end()
            learners.came()
        return learning.encode_working(spec, "a", now)

    def read(data: bytes, own: bool) -> learning.Learning:
        return learning.decode(spec, data, "state", own)

    return Case(run(learning.begin(spec)), read, run)


def crafted(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a state with some numbers, types, shapes or header values changed."""
    arrays = {name: array.copy() for name, array in load(data).items()}
    header = codec.read_header(data)
    for _ in range(int(rng.choice([1, 1, 2, 4]))):
        if rng.random() < 0.15:
            _change_header(header, rng)
            continue
        name = str(rng.choice(sorted(arrays)))
        arrays[name] = _changed(arrays[name], rng)
    text = json.dumps(header)
    return bytes(save(arrays, metadata={codec.KEY: text}))


def _changed(array: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[Any]:
    """Return an array with one number, or all, or its type or shape changed."""
    way = rng.random()
    if way < 0.05:
        return array.astype(np.float64 if array.dtype == np.int64 else np.float32)
    if way < 0.1:
        return np.resize(array, (*array.shape[:-1], int(rng.integers(0, 12))))
    if not array.size:
        return array
    whole = array.dtype == np.int64
    special = WHOLES if whole else REALS
    value = special[int(rng.integers(len(special)))]
    if way < 0.25:
        return np.full_like(array, value)
    flat = array.reshape(-1)
    place = int(rng.integers(flat.size))
    if way < 0.5:
        # Near misses: what a limit that is off by one would let in.
        flat[place] += flat.dtype.type(rng.integers(-3, 4))
    else:
        flat[place] = value
    return array


def _change_header(header: dict[str, Any], rng: np.random.Generator) -> None:
    about = header["about"]
    value = ODD[int(rng.integers(len(ODD)))]
    field = str(rng.choice(["rows", "time", "until", "before", "model_id", "early", "labels"]))
    if rng.random() < 0.05 or not isinstance(about, dict):
        header["about"] = value
    elif rng.random() < 0.1:
        about.pop(field, None)
    else:
        about[field] = value


@contextmanager
def _alarm(seconds: int) -> Iterator[None]:
    """Raise a TimeoutError in what takes the processor longer."""

    def ring(number: int, frame: Any) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def trial(case: Case, seed: int) -> bool:
    """Go on from a crafted state; return whether it was taken.

    Raises:
        Exception: of any kind, if it was taken and did not go well.
    """
    with _alarm(SECONDS_A_TRIAL), np.errstate(all="ignore"):
        data = crafted(case.data, np.random.default_rng(seed))
        try:
            state = case.read(data, False)
        except DataError:
            return False
        for _ in range(2):
            state = case.read(case.run(state), True)
    return True


def clock_trial(seed: int) -> bool:
    """Read a crafted clock; return whether it was taken."""
    rng = np.random.default_rng(seed)
    values = json.loads(Clock(newest=5, waiting=2, started=True).encode())
    name = str(rng.choice(sorted(values)))
    values[name] = ODD[int(rng.integers(len(ODD)))]
    try:
        clock = Clock.decode(json.dumps(values).encode())
    except DataError:
        return False
    assert Clock.decode(clock.encode()) == clock
    return True


def landmarks_trial(seed: int) -> bool:
    """Begin a model from a crafted file of landmarks; return whether they were taken."""
    rng = np.random.default_rng(seed)
    values = json.loads(_landmarks())
    for _ in range(int(rng.choice([1, 1, 2]))):
        name = str(rng.choice(["rows", "shift", "scale", "gamma", "spec", "version"]))
        value = (*ODD, *REALS)[int(rng.integers(len(ODD) + len(REALS)))]
        if name == "spec":
            values[name][str(rng.choice(["kernel", "standardise"]))] = value
        elif isinstance(values[name], list) and values[name] and rng.random() < 0.9:
            inner = values[name][0] if name == "rows" and rng.random() < 0.9 else values[name]
            if isinstance(inner, list) and inner:
                inner[int(rng.integers(len(inner)))] = value
        else:
            values[name] = value
    spec: Any = _spec("okfeb")
    with np.errstate(all="ignore"):
        try:
            start = landmark_file.decode(json.dumps(values).encode(), "landmarks.json")
            state = start_from(spec, start)
        except (ConfigError, DataError):
            return False
        tracker = get_tracker("okfeb")
        state, _ = tracker.update(spec, state, ROWS[:40])
        codec.decode(codec.encode(spec, state), own=True)
    return True


@cache
def _landmarks() -> bytes:
    """Return a file of landmarks as the command writes it."""
    spec = LandmarkSpec(count=5, rank=3)
    sample = Sample(ROWS, np.zeros(len(ROWS), np.int64), np.arange(len(ROWS)), len(ROWS), 0, {})
    return landmark_file.encode(spec, choose_landmarks(spec, ROWS), sample, ["a.csv"], "a.json")


def main(arguments: list[str] | None = None) -> int:
    """Run trials of every case; print what went wrong, and how many states were taken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000, help="of each case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    args = parser.parse_args(arguments)
    found = 0
    for name, make in cases().items():
        if args.only not in name:
            continue
        case, taken = make(), 0
        for seed in range(args.seed, args.seed + args.trials):
            try:
                taken += trial(case, seed)
            except Exception as error:
                found += 1
                sys.stdout.write(f"{name}, seed {seed}: {type(error).__name__}: {error}\n")
        sys.stdout.write(f"{name}: {taken} of {args.trials} taken\n")
        sys.stdout.flush()
    if args.only in "clock":
        taken = sum(clock_trial(seed) for seed in range(args.trials))
        sys.stdout.write(f"clock: {taken} of {args.trials} taken\n")
    if args.only in "landmarks":
        taken = sum(landmarks_trial(seed) for seed in range(args.trials))
        sys.stdout.write(f"landmarks: {taken} of {args.trials} taken\n")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
