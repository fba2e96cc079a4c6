"""Doors to the core: through each, one function takes the rows; neighbours change no byte.

A model's results are its own however many others are there, in whatever order, whatever becomes of
them: in a partition of files, and in the bundles of a live job.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.pvalue import TaggedOutput

from kerneltrack import Fleet, codec
from kerneltrack.fleet.learn import learn_each
from kerneltrack.fleet.model import Work
from kerneltrack.fleet.run import run_models
from kerneltrack.learners import AutoSpec, LearnerSpec, PegasosSpec, POLKSpec, RidgeSpec
from kerneltrack.learners.common.block import learn_block
from kerneltrack.monitor.drift import block as detectors
from kerneltrack.monitor.moving import MovingWindow
from kerneltrack.monitor.reference import block as references
from kerneltrack.registry import get_tracker
from kerneltrack.snapshots.folder import SnapshotFolder, specs_of, write_singly
from kerneltrack.snapshots.header import packed_state
from kerneltrack.snapshots.references import GivenReferences
from kerneltrack.trackers import OKFEBSpec
from kerneltrack.tuning import Candidate, Stretch, try_out
from tests.parts import crossed, in_turn
from tests.stream.running import SECOND, Element, Step
from tests.unit import test_rounds as rounds
from tests.unit.test_rounds import REFERENCE, TRACKERS, work_of
from transforms.chunks import Chunk, matrix_column
from transforms.inference import SnapshotHandler
from transforms.learn.plan import Plan
from transforms.outputs import FAILURES, SNAPSHOTS
from transforms.partition import blocks
from transforms.partition.grouped import run_partition
from transforms.partition.shuffle import MODEL, sort_rows
from transforms.partition.steps import Steps
from transforms.score import ScoreRows
from transforms.track.emit import named_rows
from transforms.track.keyed_fn import with_timers
from transforms.track.order import Order
from transforms.track.step import TrackFn

COMPANIONS = [*rounds.COMPANIONS, "gated", "auto", "given"]
LENGTHS = (300, 40, 5, 270, 3, 30)
"""Rows of the models where they are held against references: some have too few to make one."""
SHORT = (60, 40, 5, 50, 3, 20)
LEARNERS: tuple[LearnerSpec, ...] = (
    RidgeSpec(intervals=0.8),
    PegasosSpec(),
    AutoSpec(budget=8, inputs="features"),
    POLKSpec(warmup=20, budget=12),
)
Found = dict[str, dict[str, Any]]
"""Of each model what came of it, by output; reals as text that tells -0.0 from 0.0."""


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the references of all models."""
    work, known = Work(spec=OKFEBSpec(rank=3), reference=REFERENCE), models((300,) * len(LENGTHS))
    return write(tmp_path_factory.mktemp("given"), work, states_of(partition(work, known)))


def asked(tracker: str, companion: str, given: str) -> Work:
    if companion in {"gated", "auto"}:
        reference = dataclasses.replace(REFERENCE, learning=companion)
        return Work(spec=TRACKERS[tracker], reference=reference)
    if companion == "given":
        return Work(spec=TRACKERS[tracker], reference=REFERENCE, given=GivenReferences(given))
    return work_of(tracker, companion)


def models(lengths: Sequence[int], seed: int = 3) -> dict[str, Chunk]:
    """Rows of models, in the order in which they come, with a label for most."""
    known, found = rounds.fleet(seed, tuple(lengths)), {}
    for key, x, times in zip(*known, strict=True):
        names = np.array(["still", "walk", "run"])[(x[:, 0] > 0) + (x[:, 1] > 1) * 1]
        columns = {
            "time": pa.array(times),
            "source": pa.array(np.zeros(len(x), np.int32)),
            "row": pa.array(np.arange(len(x))),
            "x": matrix_column(x),
            "label": pa.array(names.tolist(), mask=np.arange(len(x)) % 7 == 3),
        }
        found[key] = Chunk(pa.RecordBatch.from_pydict(columns))
    return found


def order_of(work: Work, max_disorder: float = math.inf) -> Order:
    hold = None if work.hold is None else work.hold / SECOND
    return Order(max_disorder=max_disorder, hold_for=hold)


def kept(found: Found, key: str, part: str, what: Any) -> None:
    lines = found.setdefault(key, {}).setdefault(part, [])
    lines += map(repr, what.to_pylist()) if isinstance(what, pa.RecordBatch) else [what]


def partition(
    work: Work,
    known: dict[str, Chunk],
    learner: LearnerSpec | None = None,
    warm: SnapshotFolder | None = None,
) -> Found:
    """Run models as a partition of files does; only live jobs tell of devices."""
    work = dataclasses.replace(work, devices=False)
    plan = None if learner is None else Plan(spec=learner)
    steps = Steps(TrackFn(work, order_of(work), warm, plan=plan), order_of(work))
    batches = [
        chunk.batch.append_column(MODEL, pa.array([key] * len(chunk), pa.string()))
        for key, chunk in known.items()
    ]
    rows = sort_rows(pa.Table.from_batches(batches), steps.keys)
    found: Found = {}
    for output in run_partition(steps, rows, {}):
        if isinstance(output, TaggedOutput) and output.tag == SNAPSHOTS:
            key, data = output.value
            kept(found, key, codec.kind_of(codec.read_header(data)), data)
            continue
        part, batch = named_rows(output)
        failed = part == FAILURES
        key = batch.column("model_id")[0].as_py() if failed else _value_of(output)[0]
        kept(found, key, part, batch)
    return found


def _value_of(output: Any) -> Any:
    return output.value if isinstance(output, TaggedOutput) else output


class Live(Step):
    """The keyed step of a live job, with whatever is asked of it."""

    def __init__(self, work: Work, warm: SnapshotFolder | None = None) -> None:
        super().__init__(spec=work.spec)
        step = with_timers(TrackFn, "end", live=False)
        self._step = step(work, order_of(work, max_disorder=3.0), warm)

    def found(self, keys: Iterable[str]) -> Found:
        """Return what came of models."""
        out = self.finish()
        found: Found = {}
        for key in keys:
            for chunk in out.features.get(key, ()):
                kept(found, key, "features", chunk.batch)
            for name in ("mismatch", "alerts", "episodes", "devices"):
                found.setdefault(key, {})[name] = repr(getattr(out, name).get(key))
            for name in ("snapshots", "late", "failures"):
                found[key][name] = [line for line in getattr(out, name) if line[0] == key]
        return found


def live(work: Work, known: dict[str, Chunk], seed: int, warm: SnapshotFolder | None = None) -> Any:
    """Run models bundle by bundle; where the bundles end, and their order, depend on the seed."""
    rng, step = np.random.default_rng(seed), Live(work, warm)
    left = {key: 0 for key in known}
    while left:
        bundle: list[Element] = []
        for key in rng.permutation([*left]).tolist()[: int(rng.integers(1, len(left) + 1))]:
            start, stop = left[key], min(left[key] + int(rng.integers(1, 90)), len(known[key]))
            bundle.append((key, known[key].slice(start, stop)))
            left[key] = stop
            if stop == len(known[key]):
                del left[key]
        step.push_all(bundle)
    return step.found(known)


def states_of(found: Found) -> dict[str, list[bytes]]:
    return {
        key: [data for kind in (codec.TRACKER, codec.LEARNER) for data in parts.get(kind, ())]
        for key, parts in found.items()
    }


def write(
    folder: Path, work: Work, states: dict[str, list[bytes]], learner: LearnerSpec | None = None
) -> str:
    packed = [packed_state(data, key) for key, each in sorted(states.items()) for data in each]
    write_singly(str(folder), specs_of(work.spec, learner, work.reference), packed)
    return str(folder)


@pytest.mark.parametrize(("tracker", "companion"), crossed(TRACKERS, COMPANIONS))
def test_neighbours_change_no_byte(
    tracker: str, companion: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = asked(tracker, companion, given)
    known = models(SHORT if work.reference is None else LENGTHS)
    learner = LEARNERS[(list(TRACKERS).index(tracker) + COMPANIONS.index(companion)) % 4]
    if learner.input_kind != "features":
        work = dataclasses.replace(work, own=True)
    whole = partition(work, known, learner)
    assert {"features", "predictions", codec.TRACKER, codec.LEARNER} <= {*whole["m0"]}
    # Others are there, in another order; blocks end between them; a large model goes by itself.
    monkeypatch.setattr(blocks, "BLOCK_ROWS", len(known["m0"]) - 10)
    some = {key: known[key] for key in ("m5", "m3", "m0")}
    assert partition(work, some, learner) == {key: whole[key] for key in some}
    bundled = live(work, known, 1)
    assert bundled["m0"]["features"]
    for seed, keys in ((2, ("m4", "m0", "m2")), (3, ("m3",))):
        some = {key: known[key] for key in keys}
        assert live(work, some, seed) == {key: bundled[key] for key in keys}


@pytest.mark.parametrize("companion", ["while", "while and quiet"])
def test_what_only_a_condition_is_about_may_be_missing(companion: str) -> None:
    """No row meets the condition then; all else is that of rows which have it."""
    work, known, lacking = work_of("okfeb", companion), models(LENGTHS), {}
    for key, chunk in known.items():
        x = chunk.column("x").copy()
        x[:, 2] = math.nan
        place = chunk.batch.schema.get_field_index("x")
        lacking[key] = Chunk(chunk.batch.set_column(place, "x", matrix_column(x)))
    whole, found = partition(work, known), partition(work, lacking)
    for key in known:
        assert len(found[key]["features"]) >= len(whole[key]["features"])
        assert all("'p': None" in line for line in found[key]["features"])
    bundled = live(work, lacking, 1)
    assert live(work, {"m0": lacking["m0"]}, 2)["m0"] == bundled["m0"]
    assert sum(map(len, bundled["m0"]["features"])) > 0


TWENTY = (12,) * 20
HURT = "m17"


@pytest.mark.parametrize("run", [partition, lambda work, known: live(work, known, 5)])
@pytest.mark.parametrize("companion", ["all", "both", "few"])
def test_a_model_whose_rows_are_refused_costs_only_itself(
    companion: str, run: Callable[..., Found]
) -> None:
    work, known = work_of("okfeb", companion), models(TWENTY)
    whole = run(work, known)
    for first, wrong in ((0, math.nan), (6, 1e300)):
        x = known[HURT].column("x").copy()
        x[first:] = wrong
        place = known[HURT].batch.schema.get_field_index("x")
        rows = known[HURT].batch.set_column(place, "x", matrix_column(x))
        found = run(work, {**known, HURT: Chunk(rows)})
        assert {**found, HURT: None} == {**whole, HURT: None}
        assert len(found[HURT]["failures"]) >= 6


def hurt(data: bytes) -> bytes:
    """A state that is read, and whose numbers lead nowhere."""
    snapshot = codec.decode(data)
    state = snapshot.state._replace(scale=np.full_like(snapshot.state.scale, 1e-250))
    extras = {name.removeprefix(codec.EXTRA): part for name, part in snapshot.extras.items()}
    return codec.encode(snapshot.spec, state, snapshot.header["about"], extras=extras)


@pytest.mark.parametrize("run", [partition, lambda work, known, warm: live(work, known, 5, warm)])
@pytest.mark.parametrize("companion", ["drift", "reference"])
def test_a_model_whose_state_is_damaged_costs_only_itself(
    companion: str, run: Callable[..., Found], tmp_path: Path
) -> None:
    work, known = work_of("okfeb", companion), models(TWENTY)
    states = states_of(partition(work, known))
    later = {
        key: Chunk(
            chunk.batch.set_column(0, "time", pa.array(chunk.column("time") + 10**4 * SECOND))
        )
        for key, chunk in known.items()
    }
    sound = write(tmp_path / "sound", work, states)
    whole = run(work, later, warm=SnapshotFolder(sound))
    last = states[HURT][-1]
    wrong = write(tmp_path / "wrong", work, {**states, HURT: [hurt(last)]})
    found = run(work, later, warm=SnapshotFolder(wrong))
    assert found[HURT] != whole[HURT]
    assert {**found, HURT: None} == {**whole, HURT: None}
    # One that cannot be read costs its model all rows, and is named.
    (file,) = Path(wrong).glob(f"{HURT}.*safetensors")
    file.write_bytes(last[: len(last) // 2])
    found = run(work, later, warm=SnapshotFolder(wrong))
    assert {**found, HURT: None} == {**whole, HURT: None}
    lost = [line for part in found[HURT].values() for line in part if part and part != "None"]
    assert len(lost) == len(later[HURT])
    assert all("damaged state" in str(line) for line in lost)


TAKERS = {
    *(type(get_tracker(spec.tracker)).run_checked for spec in TRACKERS.values()),
    *(MovingWindow.run_checked, references.go_on, detectors.watch_each, learn_block),
}
"""By which states go on with rows."""


class Passed:
    """Counts calls of the core, and names the takers of rows that it calls, and others do."""

    def __init__(self) -> None:
        self._core = {run_models.__code__, learn_each.__code__}
        self._takers = {taker.__code__: taker.__qualname__ for taker in TAKERS}
        self._depth = 0
        self.calls = 0
        self.by_core: set[str] = set()
        self.by_others: set[str] = set()

    def __enter__(self) -> Passed:
        """Begin to count."""
        sys.setprofile(self._look)
        return self

    def __exit__(self, *error: object) -> None:
        """Count no more."""
        sys.setprofile(None)

    def _look(self, frame: Any, event: str, _: Any) -> None:
        if frame.f_code in self._core and event in {"call", "return"}:
            self._depth += 1 if event == "call" else -1
            self.calls += event == "call"
        elif event == "call" and frame.f_code in self._takers:
            calls = self.by_core if self._depth else self.by_others
            calls.add(self._takers[frame.f_code])


def doors(
    work: Work, known: dict[str, Chunk], folder: Path
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield each door that these companions have, by name."""
    yield "partition", lambda: partition(work, known)
    yield "live", lambda: live(work, known, 1)
    learner = RidgeSpec(inputs="features")
    states = states_of(partition(dataclasses.replace(work, measure=None), known, learner))
    place = write(folder, work, states, learner)
    measure = None
    if work.measure is not None:
        measure = dataclasses.replace(work.measure, moving=None) if work.measure.size else None
    score: Any = ScoreRows(SnapshotFolder(place, learner=True)).step()
    score._measure = measure
    score.setup()
    rows = [known["m0"]] if score.in_order else known["m0"]
    yield "score", lambda: [*score.process(("m0", rows))]
    frame: Any = pd.DataFrame(known["m0"].column("x"), columns=["a", "b", "c"])
    frame = frame.assign(t=known["m0"].column("time"), model="m0")
    names: dict[str, Any] = {"model_id": "model", "time": "t", "time_unit": "ns"}
    fleet = Fleet(work.spec, reference=work.reference)
    yield "Fleet", lambda: fleet.update(frame, features=["a", "b", "c"], **names)
    handler = SnapshotHandler(place, features=["a", "b", "c"], model_id="model")
    batch = [{**row, "model": "m0"} for row in frame[:9].to_dict("records")]
    yield "inference", lambda: [*handler.run_inference(batch, handler.load_model())]
    labels = np.array(known["m0"].batch.column("label").to_pylist(), object)
    stretch = Stretch(known["m0"].column("x"), labels, known["m0"].column("time"))
    yield "tuning", lambda: try_out(Candidate("", work.spec, learner), [stretch])


@pytest.mark.parametrize(("tracker", "companion"), in_turn(crossed(TRACKERS, COMPANIONS), 1))
def test_one_function_takes_all_rows(
    tracker: str, companion: str, given: str, tmp_path: Path
) -> None:
    work = asked(tracker, companion, given)
    known = models((60, 20) if work.reference is None else (270, 20))
    taker = type(get_tracker(work.spec.tracker)).run_checked
    for name, go in doors(work, known, tmp_path):
        with Passed() as passed:
            go()
        moving = work.window is not None and name in {"partition", "live"}
        wanted = {(MovingWindow.run_checked if moving else taker).__qualname__}
        wanted |= {"learn_block"} if name == "tuning" else set()
        wanted |= {"go_on"} if work.reference and name in {"partition", "live", "Fleet"} else set()
        wanted |= {"watch_each"} if work.drift and name in {"partition", "live"} else set()
        assert passed.calls > 0, name
        assert (passed.by_others, wanted - passed.by_core) == (set(), set()), name
