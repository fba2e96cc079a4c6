"""Runs a history through the keyed step, and holds all that comes out against the core."""

from __future__ import annotations

import dataclasses
import importlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeAlias
from unittest.mock import patch

import numpy as np

from kerneltrack import codec
from kerneltrack.fleet.begin import begin
from kerneltrack.fleet.model import Work
from kerneltrack.fleet.states import encode
from kerneltrack.learners import LearnerSpec, PegasosSpec, POLKSpec, RidgeSpec
from kerneltrack.monitor import quiet
from kerneltrack.monitor.feedback import Said, entry_of
from kerneltrack.monitor.likeness import channel
from kerneltrack.monitor.periods import running
from kerneltrack.monitor.periods.spec import PeriodsSpec
from kerneltrack.snapshots.folder import SnapshotFolder, specs_of, write_singly
from kerneltrack.snapshots.header import packed_state
from kerneltrack.time_units import NANOSECONDS
from tests.simulation.alone import Alone, Asked
from tests.simulation.beam import (
    CODERS,
    END,
    IDLE,
    SILENT,
    UNHEARD,
    Clock,
    Died,
    Fired,
    Item,
    Output,
    State,
    Worker,
)
from tests.simulation.history import (
    PERIOD,
    PLAIN,
    Action,
    Answer,
    Bundle,
    Checkpoint,
    Die,
    Entry,
    History,
    Label,
    Quiet,
    Row,
    Savepoint,
    Setup,
    Wait,
)
from tests.simulation.values import chunk_of, labels_of, values
from tests.unit.test_rounds import SECOND, work_of
from transforms.chunks import Chunk
from transforms.keyed import commands, timers
from transforms.keyed.expiry import Expiry
from transforms.keyed.silence import SilentAfter
from transforms.learn.inputs import narrow_labels
from transforms.learn.late_labels import LateLabels
from transforms.learn.plan import LearnLabels
from transforms.outputs import FAILURES, LATE, LOST_LABELS, SNAPSHOTS
from transforms.track import keyed_fn, periods, step
from transforms.track.keyed_fn import with_timers
from transforms.track.log import MOST_ENTRIES
from transforms.track.order import Order
from transforms.track.step import TrackFn

LEARNERS: dict[str, LearnerSpec] = {
    "ridge": RidgeSpec(task="classification"),
    "pegasos": PegasosSpec(),
    "polk": POLKSpec(warmup=20, budget=12),
    "both": RidgeSpec(task="classification", inputs="both"),
}
LONGEST = 1.5
"""Longest patience of a savepoint's job."""


class Wrong(AssertionError):
    """What came out is not what had to come out."""


class Fed(NamedTuple):
    """What a bundle gave the step."""

    key: str
    what: Chunk | commands.Command | Fired


class Committed(NamedTuple):
    """A bundle that was committed: when, with which patience, and what was in it."""

    now: float
    patience: float
    fed: tuple[Fed, ...]


class Silence(NamedTuple):
    """That nobody said anything for so long, and that all timers had their turn."""

    seconds: float


class Resumed(NamedTuple):
    """That the input ended and another job goes on."""


Line: TypeAlias = Committed | Silence | Resumed


@dataclasses.dataclass
class Kept:
    """What a checkpoint holds."""

    state: State
    outputs: int
    journal: int


def work_for(setup: Setup) -> Work:
    """Return what is done with rows."""
    learner = LEARNERS.get(setup.learner or "")
    own = learner is not None and learner.input_kind != "features"
    work = work_of(setup.tracker, setup.companion)
    periods = PeriodsSpec(first=7, past=8, delay=1) if setup.periods else None
    return dataclasses.replace(work, own=own, periods=periods, drop_overlap=setup.overlap)


class Simulation:
    """A job's life.

    Args:
        setup: What it is asked for.
        folder: Where files of expired models and snapshots go.
    """

    def __init__(self, setup: Setup, folder: str) -> None:
        self._setup, self._folder = setup, folder
        self.work = work_for(setup)
        self.steps = 0
        self._clock = Clock()
        self._patience = 1.0
        self._warm: SnapshotFolder | None = None
        self._resumes = 0
        self._state = State({}, {})
        self._outputs: list[Output] = []
        self._journal: list[Line] = []
        self._since: list[Entry] = []
        self._worker = self._new_worker()
        self._kept = Kept(self._state.copied(), 0, 0)
        self._replacing = _snapshot(setup, self.work)

    def asked(self, patience: float) -> Asked:
        """Return what a job of this patience is asked for."""
        setup = self._setup
        learner = LEARNERS.get(setup.learner or "")
        plan = None
        if learner is not None:
            late = None if setup.wait is None else LateLabels(*setup.wait)
            asked = LearnLabels(learner, late, setup.metrics, bounded=False)
            every = self.work.every
            plan = asked.plan(None if every is None else every / NANOSECONDS["s"])
        hold = self.work.hold
        order = Order(
            max_disorder=setup.disorder,
            max_jump=setup.jump,
            jump_rows=setup.jump_rows,
            duplicates=setup.duplicates,
            idle_flush=None if setup.idle is None else setup.idle * patience,
            hold_for=None if hold is None else hold / NANOSECONDS["s"],
        )
        expire = None if setup.expire is None else setup.expire * patience
        silent = None if setup.silent is None else setup.silent * patience
        return Asked(self.work, order, plan, expire, silent)

    def _new_worker(self) -> Worker:
        asked = self.asked(self._patience)
        silent = None if asked.silent is None else SilentAfter(asked.silent)
        made = with_timers(TrackFn, "simulated", live=True, listens=silent is not None)
        expiry = Expiry(f"{self._folder}/idle", asked.expire)
        fn = made(asked.work, asked.order, self._warm, expiry, asked.plan, silent)
        return Worker(fn, self._setup.cached)

    # ---- what happens ----

    def run(self, actions: Sequence[Action]) -> None:
        """Let all happen, and look at what came out."""
        with ExitStack() as stack:
            for module in (timers, keyed_fn, step):
                stack.enter_context(patch.object(module, "wall_clock", self._clock.time))
            for module in (running, periods):
                stack.enter_context(patch.object(module, "DAY", PERIOD))
            stack.enter_context(patch.object(quiet, "MOST_TOLD", self._setup.most_quiet))
            for module_name, name, value in self._setup.limits:
                module_now = importlib.import_module(module_name)
                stack.enter_context(patch.object(module_now, name, value))
            for action in actions:
                self.steps += 1
                self._do(action)
            self._end()
        with (
            patch.object(periods, "DAY", PERIOD),
            patch.object(quiet, "MOST_TOLD", self._setup.most_quiet),
        ):
            compare(self)

    def _do(self, action: Action) -> None:
        if isinstance(action, Bundle):
            self._bring(action)
        elif isinstance(action, Wait):
            self._wait(action)
        elif isinstance(action, Checkpoint):
            self._checkpoint()
        elif isinstance(action, Die):
            self._die(action.cut)
        elif isinstance(action, Savepoint):
            self._checkpoint()
            self._patience = action.patience
            self._restart()
        else:
            self._resume()

    def _bring(self, bundle: Bundle) -> None:
        self._clock.now += bundle.after
        if bundle.fault == "again":
            # It runs to its end, and what it wrote is not taken.
            self._run(list(self._cut(bundle.entries, bundle.cut)), None, commits=False)
        dies_at = bundle.at if bundle.fault == "dies" else None
        try:
            self._run(list(self._cut(bundle.entries, bundle.cut + 1)), dies_at)
        except Died:
            self._since += bundle.entries
            self._die(bundle.cut)
        else:
            self._since += bundle.entries

    def _run(self, fed: list[Fed], dies_at: int | None = None, commits: bool = True) -> None:
        """Run a bundle."""
        items: list[Item] = []
        fired = {(each.key, each.what.name) for each in fed if isinstance(each.what, Fired)}
        for key, what in fed:
            if isinstance(what, commands.Command):
                items.append((key, commands.as_chunk(what)))
            else:
                items.append(what if isinstance(what, Fired) else (key, what))
        self.steps += len(items)
        before = self._state.copied()
        for at in fired:
            before.timers.pop(at, None)
        state, outputs = self._worker.run(before, items, dies_at)
        if commits:
            self._state = state
            self._outputs += outputs
            self._journal.append(Committed(self._clock.now, self._patience, tuple(fed)))
            self._look()

    def _look(self) -> None:
        """Look at what is kept of each device."""
        for key in {key for key, _ in self._state.cells}:
            log, buffer, kept, past = (
                self._state.cells.get((key, name), ()) for name in ("log", "buffer", "kept", "past")
            )
            expired = [data for data, _ in log if data[:1] == b"e"]
            more = [data for data, _ in log if data[:1] not in (b"e", b"h", b"f", b"q")]
            if expired and (more or buffer or kept or past):
                raise Wrong(f"{key}: more is kept of a model that has expired than its file's name")
            if len(log) > MOST_ENTRIES + 8:
                raise Wrong(f"{key}: a log of {len(log)} entries")
            if kept and not any(data[:1] == b"p" for data, _ in log):
                raise Wrong(f"{key}: a part of a model is kept that is no more")

    def _cut(self, entries: Sequence[Entry], cut: int) -> Iterator[Fed]:
        """Cut entries into chunks; those of a device stay in order, devices do not."""
        rng = np.random.default_rng(cut)
        queues: dict[str, list[Fed]] = {}
        for key in dict.fromkeys(entry.key for entry in entries):
            queues[key] = list(self._chunks([e for e in entries if e.key == key], rng))
        due = [Fed(key, Fired(key, name, at)) for key, name, at in self._due()]
        if due and rng.random() < 0.5:
            # Timers fire among the elements.
            for fed in due:
                own = queues.setdefault(fed.key, [])
                own.insert(int(rng.integers(len(own) + 1)), fed)
        if rng.random() < 0.3:
            for own in queues.values():
                yield from own
            return
        while queues:
            key = list(queues)[int(rng.integers(len(queues)))]
            yield queues[key].pop(0)
            if not queues[key]:
                del queues[key]

    def _chunks(self, entries: list[Entry], rng: np.random.Generator) -> Iterator[Fed]:
        start, most = 0, int(rng.choice([1, 3, 1000]))
        while start < len(entries):
            first, stop = entries[start], start + 1
            many = int(rng.integers(1, most + 1))
            while stop < len(entries) and stop - start < many and _alike(first, entries[stop]):
                stop += 1
            yield from self._fed(entries[start:stop])
            start = stop

    def _fed(self, entries: Sequence[Any]) -> Iterator[Fed]:
        setup, first = self._setup, entries[0]
        if isinstance(first, Row):
            labelled = setup.learner is not None and setup.wait is None
            yield Fed(first.key, chunk_of(setup, entries, labelled))
        elif isinstance(first, Label):
            for chunk in labels_of(entries):
                yield Fed(*narrow_labels((first.key, chunk), LEARNERS[str(setup.learner)]))
        elif isinstance(first, Answer):
            yield Fed(first.key, commands.Command(None, None, _line_of(first)))
        elif isinstance(first, Quiet):
            place = 3, first.number
            line = _quiet_line(first)
            yield Fed(first.key, commands.Command(None, None, line, commands.QUIET, *place))
        else:
            data = self._replacing if first.replaces else None
            yield Fed(first.key, commands.Command(data, None))

    def _due(self) -> list[tuple[str, str, float]]:
        """Return the timers of the worker's own time that are due, in order."""
        found = [
            (key, name, due)
            for (key, name), due in self._state.timers.items()
            if name != END and due <= self._clock.now
        ]
        return sorted(found, key=lambda line: (line[2], line))

    def _fire(self) -> None:
        """Let timers fire that are due: each that is set anew meanwhile is due later."""
        due = self._due()
        if due:
            self._run([Fed(key, Fired(key, name, at)) for key, name, at in due])

    def _wait(self, wait: Wait) -> None:
        until = self._clock.now + wait.seconds
        if wait.stalls:
            self._clock.now = until
            self._fire()
            return
        while True:
            later = [due for (_, name), due in self._state.timers.items() if name != END]
            if not later or min(later) > until:
                break
            # Runners count in whole milliseconds.
            self._clock.now = max(self._clock.now, int(min(later) * 1000) / 1000)
            if not self._due():
                self._clock.now = min(later)
            self._fire()
        self._clock.now = until
        self._journal.append(Silence(wait.seconds))

    def _checkpoint(self) -> None:
        self._kept = Kept(self._state.copied(), len(self._outputs), len(self._journal))
        self._since = []

    def _restart(self) -> None:
        """Go on from the last checkpoint on a new worker, which knows bytes alone."""
        cells = {
            at: tuple((data, _read(at[1], data)) for data, _ in cell)
            for at, cell in self._kept.state.cells.items()
        }
        self._state = State(cells, dict(self._kept.state.timers))
        del self._outputs[self._kept.outputs :]
        del self._journal[self._kept.journal :]
        self._worker = self._new_worker()

    def _die(self, cut: int) -> None:
        rng = np.random.default_rng(cut)
        again, self._since = self._since, []
        self._restart()
        self._clock.now += float(rng.choice([0.1, 1.0, 5.0]))
        if rng.random() < 0.5:
            self._fire()
        while again:
            many = int(rng.integers(1, len(again) + 1))
            self._run(list(self._cut(again[:many], int(rng.integers(1 << 30)))))
            self._since += again[:many]
            again = again[many:]

    def _end_of_input(self) -> None:
        keys = [key for key, name in self._state.timers if name == END]
        self._run([Fed(key, Fired(key, END, 0.0)) for key in keys])

    def _end(self) -> None:
        self._end_of_input()

    def _resume(self) -> None:
        self._end_of_input()
        self._journal.append(Resumed())
        states = last_states(self._outputs)
        self._resumes += 1
        place = f"{self._folder}/snapshots-{self._resumes}"
        packed = [
            packed_state(data, key) for key, kind in sorted(states) for data in [states[key, kind]]
        ]
        learner = LEARNERS.get(self._setup.learner or "")
        write_singly(place, specs_of(self.work.spec, learner, self.work.reference), packed)
        self._warm = SnapshotFolder(place, learner=learner is not None)
        self._state = State({}, {})
        self._worker = self._new_worker()
        self._checkpoint()

    @property
    def outputs(self) -> list[Output]:
        """What came out."""
        return self._outputs

    @property
    def journal(self) -> list[Line]:
        """What was committed."""
        return self._journal


def _read(name: str, data: bytes) -> Any:
    return CODERS[name].decode(data)


def _alike(first: Entry, other: Entry) -> bool:
    """Check whether two entries of a device can travel together: rows of one source, or labels."""
    if isinstance(first, Row) and isinstance(other, Row):
        return first.source == other.source
    return isinstance(first, Label) and isinstance(other, Label)


def _snapshot(setup: Setup, work: Work) -> bytes:
    """Return a snapshot of some device, for commands."""
    rows = [Row("other", 0, 0, row, 0, PLAIN) for row in range(work.rows_to_start)]
    model = begin(work, "other", np.array([values(setup, row) for row in rows]))
    return encode(work, "other", model, final=True)


def last_states(outputs: Sequence[Output]) -> dict[tuple[str, str], bytes]:
    """Return the last snapshot of each device's tracker and learner.

    A learner's of another row than its tracker's is older: it began anew and has learned nothing.
    """
    found, rows = {}, {}
    for key, data in (value for name, value in outputs if name == SNAPSHOTS):
        header = codec.read_header(data)
        at = key, codec.kind_of(header)
        found[at], rows[at] = data, header["about"]["rows"]
    return {
        (key, kind): data
        for (key, kind), data in found.items()
        if rows[key, kind] == rows.get((key, codec.TRACKER), rows[key, kind])
    }


# ---- what must come out ----


def compare(simulation: Simulation) -> None:
    """Hold what came out against the core.

    Raises:
        Wrong: saying what differs first.
    """
    wanted = expected(simulation)
    found, must = _by_device(simulation.outputs), _by_device(wanted)
    for at in sorted({*found, *must}):
        left, right = found.get(at, []), must.get(at, [])
        if left == right:
            continue
        for place, (one, other) in enumerate(zip(left, right, strict=False)):
            if one != other:
                raise Wrong(f"{at}: line {place} of {len(left)} is\n  {one}\nnot\n  {other}")
        more = (left + right)[min(len(left), len(right))]
        raise Wrong(f"{at}: {len(left)} lines came, {len(right)} had to; next {more}")


def expected(simulation: Simulation) -> list[Output]:
    """Return what the core makes of what was committed."""
    asked = simulation.asked(1.0)
    devices: dict[str, Alone] = {}
    done: list[Output] = []
    states: dict[tuple[str, str], bytes] = {}
    for line in simulation.journal:
        if isinstance(line, Silence):
            _check_silence(line, asked, devices)
        elif isinstance(line, Resumed):
            for device in devices.values():
                done += device.out
            states, devices = last_states(done), {}
        else:
            now = simulation.asked(line.patience)
            for key, what in line.fed:
                if key not in devices:
                    known = states.get((key, codec.TRACKER)), states.get((key, codec.LEARNER))
                    devices[key] = Alone(now, key, known)
                _give(devices[key], now, what, line.now)
    for device in devices.values():
        done += device.out
    return done


def _line_of(answer: Answer) -> bytes:
    """Return what somebody says, as a message has it."""
    channels = (channel("abc"[answer.channel], 1.0, answer.deviation),)
    since = (2 * answer.channel + int(answer.deviation > 0)) * SECOND
    said = Said(answer.key, since, 10**18, answer.verdict, 0, "shift", channels)
    return json.dumps(entry_of(said)).encode()


def _quiet_line(told: Quiet) -> bytes:
    """Return a quiet time, or that one is cancelled, as a message has it."""
    texts = [f"{np.datetime64(time, 'ns')}Z" for time in (told.start, told.end)]
    if told.comes:
        # The clock's seconds of a day.
        clocks = [text[11:19] for text in texts]
        texts = [f"every day {clocks[0]}", clocks[1]]
    entry = {"device": told.who, "from": texts[0], "to": texts[1], "cancel": told.cancels}
    return json.dumps(entry).encode()


def _give(device: Alone, asked: Asked, what: Chunk | commands.Command | Fired, now: float) -> None:
    device.asked = device.with_told(asked)
    if isinstance(what, commands.Command):
        device.obey(what, now)
    elif not isinstance(what, Fired):
        (device.take if what.has("x") else device.name)(what, now)
    elif what.name == END:
        device.end()
    else:
        took = {IDLE: device.idle, SILENT: device.silent, UNHEARD: device.unheard}
        took[what.name](now, what.due)


def _check_silence(line: Silence, asked: Asked, devices: dict[str, Alone]) -> None:
    """Check that no device is left waiting that has been silent for long."""
    idle, expire = asked.order.idle_flush, asked.expire
    for key, device in devices.items():
        if idle is not None and line.seconds > 3 * LONGEST * idle and device.idles:
            raise Wrong(f"{key}: rows wait after a silence of {line.seconds} s")
        if asked.silent is not None and line.seconds > 3 * LONGEST * asked.silent and device.speaks:
            raise Wrong(f"{key}: it is not silent after a silence of {line.seconds} s")
        stays = device.visited and not device.expired
        if expire is not None and line.seconds > 3 * LONGEST * expire and stays:
            raise Wrong(f"{key}: it has not expired after a silence of {line.seconds} s")


def _by_device(outputs: Sequence[Output]) -> dict[tuple[str, str], list[str]]:
    """Return lines by output and device: in order, but where that depends on the cuts."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, value in outputs:
        if name in (FAILURES, LOST_LABELS):
            for line in value.batch.to_pylist():
                found.setdefault((name, str(line["model_id"])), []).append(repr(line))
        elif name == SNAPSHOTS:
            kind = codec.kind_of(codec.read_header(value[1]))
            found.setdefault((f"{name} {kind}", value[0]), []).append(repr(value[1]))
        else:
            lines = found.setdefault((name, value[0]), [])
            lines += [repr(line) for line in value[1].batch.to_pylist()]
    for (name, _), lines in found.items():
        if name in (FAILURES, LOST_LABELS, LATE):
            lines.sort()
    return found


def simulate(history: History) -> int:
    """Run a history; return how many steps it had.

    Raises:
        Wrong: if something came out that should not, or did not that should.
    """
    with tempfile.TemporaryDirectory(prefix="simulation-") as folder:
        simulation = Simulation(history.setup, folder)
        simulation.run(history.actions)
        return simulation.steps
