"""What happens to a simulated live job: drawn from a seed, and plain enough to print and shrink.

A history is a setup and a list of actions. Rows carry no values: these are drawn from the seed by
the row's number, so that a history that has lost some actions still has the same rows.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kerneltrack.monitor.entries import ALL
from kerneltrack.monitor.feedback import FALSE, REAL
from kerneltrack.monitor.quiet import MOST_TOLD, QuietTime
from tests.unit.test_rounds import COMPANIONS, QUIET, SECOND, TRACKERS

PLAIN, GAP, EMPTY, WILD = "plain", "gap", "empty", "wild"
"""What a row's values are like: sound, one missing, all missing, too large."""
LEARNERS = (None, None, "ridge", "pegasos", "polk", "both")


class Row(NamedTuple):
    """A row of a device; `row` is its number in its source, and picks its values."""

    key: str
    time: int
    source: int
    row: int
    sequence: int
    kind: str


class Label(NamedTuple):
    """A delayed label: it names a row by index, or rows of a time, ns."""

    key: str
    at_index: int | None
    at_time: int | None
    row: int
    name: int


class Command(NamedTuple):
    """A device is to begin anew; or, if it `replaces`, with a snapshot."""

    key: str
    replaces: bool


class Answer(NamedTuple):
    """Somebody says whether episodes with one channel to blame, on one side, are false."""

    key: str
    channel: int
    deviation: float
    verdict: str


class Quiet(NamedTuple):
    """A device, or all as far as this one goes, has a quiet time, or not any more if it `cancels`.

    One that `comes` does so each day. `number` is that of the message.
    """

    key: str
    who: str
    start: int
    end: int
    comes: bool
    cancels: bool
    number: int


Entry: TypeAlias = Row | Label | Command | Answer | Quiet


class Bundle(NamedTuple):
    """Entries come, are cut by the seed and run.

    Attributes:
        entries: In the order of their partitions.
        cut: Seed of the cuts and of the order between devices.
        fault: "" or "again": the bundle runs, is not committed and runs again; "dies": the worker
            dies at write number `at` and all goes back to the last checkpoint.
        at: See `fault`.
        after: Seconds since what was before; timers that are due by then fire among the entries.
    """

    entries: tuple[Entry, ...]
    cut: int = 0
    fault: str = ""
    at: int = 0
    after: float = 0.01


class Wait(NamedTuple):
    """Time passes on the worker's own clock; if it `stalls`, timers fire only at its end."""

    seconds: float
    stalls: bool = False


class Checkpoint(NamedTuple):
    """All that is committed is kept."""


class Die(NamedTuple):
    """The job goes back to the last checkpoint, what came since comes again, cut by the seed."""

    cut: int = 0


class Savepoint(NamedTuple):
    """Another job goes on from the state; it waits so many times as long for silent devices."""

    patience: float = 1.0


class Resume(NamedTuple):
    """The input ends, and another job goes on from the snapshots."""


Action: TypeAlias = Bundle | Wait | Checkpoint | Die | Savepoint | Resume


@dataclasses.dataclass(frozen=True)
class Setup:
    """What a simulated job is asked for.

    Attributes:
        seed: That of rows' values.
        tracker: Name in `tests.unit.test_rounds.TRACKERS`.
        companion: Name in `COMPANIONS` there.
        learner: Name in `LEARNERS`; None: none.
        wait: Longest wait for labels, s, and most rows that wait; None: labels come with rows.
        metrics: Length of the metrics' windows, s.
        disorder: `Order.max_disorder`; and so on.
        sequenced: Whether rows have a sequence.
        idle: `Order.idle_flush`.
        expire: `Expiry.after`.
        silent: `SilentAfter.after`; None: no silent devices are asked for.
        periods: Whether periods are asked for, of `PERIOD` seconds each.
        overlap: Whether rows that snapshots have learned are left out rather than refused.
        cached: Whether state comes back as the objects that were written, as of Beam's cache.
        limits: Constants of the step that are smaller than usual, by module and name.
        most_quiet: Quiet times that are kept of a device at most.
    """

    seed: int
    tracker: str = "okfeb"
    companion: str = "alone"
    learner: str | None = None
    wait: tuple[float, int] | None = None
    metrics: float | None = None
    disorder: float = 4.0
    jump: float = float("inf")
    jump_rows: int = 3
    duplicates: str = "keep"
    sequenced: bool = False
    idle: float | None = None
    expire: float | None = None
    silent: float | None = None
    periods: bool = False
    overlap: bool = False
    cached: bool = True
    limits: tuple[tuple[str, str, int], ...] = ()
    most_quiet: int = MOST_TOLD


class History(NamedTuple):
    """A setup and what happens."""

    setup: Setup
    actions: list[Action]


PERIOD = 3
"""Seconds of a period, which are a day elsewhere: rows of a life reach over many."""
LONG = "normal"
"""A companion that is not drawn: its episodes open after a thousand rows, so its lives are long."""
OF_FILE = [each for each in QUIET.times if isinstance(each, QuietTime) and each.device == ALL]
"""Quiet times that a job knows from its file, and that may be cancelled."""
LIMITS = (
    ("transforms.track.log", "MOST_ENTRIES", (1, 3, 8, 20)),
    ("transforms.track.log", "MOST_APPENDED", (0, 4, 10)),
    ("transforms.track.log", "LEAST_LEFT", (1, 400, 2000)),
    ("transforms.track.keyed_fn", "MOST_HELD", (1, 8, 40)),
    ("transforms.track.keyed_fn", "MOST_BYTES", (1, 4000)),
    ("transforms.track.visits", "MOST_BYTES", (1, 4000)),
    ("transforms.track.visits", "MOST_ROWS", (1, 10, 60)),
    ("transforms.track.slices", "SLICE_ROWS", (1, 5, 30)),
    ("transforms.learn.learners", "SLICE_ROWS", (1, 7, 50)),
    ("transforms.keyed.last_written", "MOST_KEPT", (0, 5000)),
)
"""Constants that decide when the step does what is rare, and small values for them."""


def draw(seed: int, **asked: Any) -> History:
    """Draw a history; `asked` are fields of its setup that are not drawn."""
    rng = np.random.default_rng(seed)
    setup = dataclasses.replace(_setup(rng, seed), **asked)
    return History(setup, _Drawing(rng, setup).actions())


def _setup(rng: np.random.Generator, seed: int) -> Setup:
    def of(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    learner, disorder = of(*LEARNERS), of(0.0, 1.5, 4.0, 4.0, 10.0)
    limits = [(module, name, of(*values)) for module, name, values in LIMITS if rng.random() < 0.25]
    idle = of(None, 2.0)
    companion = of(*["alone"] * 8, *(name for name in COMPANIONS if name != LONG))
    return Setup(
        seed=seed,
        tracker=of("okfeb", "okfeb", "okfeb", *TRACKERS),
        companion=companion,
        learner=learner,
        wait=of(None, (6.0, 30), (25.0, 1000)) if learner else None,
        metrics=of(None, 7.0),
        disorder=disorder,
        jump=of(float("inf"), 20.0, 60.0),
        jump_rows=of(2, 3, 5),
        duplicates=of("keep", "drop", "merge") if disorder else "keep",
        sequenced=bool(rng.random() < 0.3),
        idle=idle,
        expire=of(None, 9.0),
        silent=of(None, 5.0, 20.0) if "reference" in COMPANIONS[companion] else None,
        periods=bool(disorder and seed % 3 == 0),
        overlap=bool(rng.random() < 0.3),
        cached=bool(rng.random() < 0.7),
        limits=tuple(limits),
        most_quiet=of(1, 3, 64) if "quiet" in COMPANIONS[companion] else MOST_TOLD,
    )


class _Drawing:
    """Draws the actions; which kinds of them there are is drawn too, once for a history."""

    def __init__(self, rng: np.random.Generator, setup: Setup) -> None:
        self._rng, self._setup = rng, setup
        self._keys = [f"m{number}" for number in range(int(rng.integers(1, 6)))]
        self._clock = {key: int(rng.integers(100)) * SECOND for key in self._keys}
        self._given = dict.fromkeys(self._keys, 0)
        self._sequence = 0

        def some(share: float) -> float:
            return share if rng.random() < 0.6 else 0.0

        self._late, self._ahead, self._same = some(0.04), some(0.02), some(0.15)
        self._gap, self._wild, self._silence = some(0.05), some(0.01), some(0.03)
        self._command, self._second = some(0.04), some(0.3)
        self._faults, self._waits, self._resumes = some(0.08), some(0.3), some(0.03)
        self._long = 15 if "reference" in COMPANIONS[setup.companion] else 1
        if setup.companion == LONG:
            self._long = 60
        self._labels: list[Label] = []
        self._quiets: list[Quiet] = []

    def actions(self) -> list[Action]:
        rng = self._rng
        actions: list[Action] = []
        for _ in range(int(rng.integers(5, 25))):
            actions.append(self._bundle())
            while rng.random() < self._waits:
                actions.append(self._wait())
            if rng.random() < 0.2:
                actions.append(Checkpoint())
            if rng.random() < self._faults:
                actions.append(Die(self._seed()))
            if rng.random() < self._resumes:
                actions.append(Resume() if rng.random() < 0.5 else self._savepoint())
        return actions

    def _seed(self) -> int:
        return int(self._rng.integers(1 << 30))

    def _savepoint(self) -> Savepoint:
        return Savepoint(float(self._rng.choice([0.5, 1.0, 1.5])))

    def _wait(self) -> Wait:
        rng = self._rng
        seconds = float(rng.choice([0.3, 1.0, 2.5, 12.0, 50.0]))
        return Wait(seconds, bool(rng.random() < 0.25))

    def _bundle(self) -> Bundle:
        rng = self._rng
        entries: list[Entry] = []
        for key in self._keys:
            if rng.random() < 0.7:
                for _ in range(int(rng.integers(1, 6)) * self._long):
                    entries += self._next(key)
            if rng.random() < self._command:
                entries.append(Command(key, bool(rng.random() < 0.4)))
            if self._setup.companion == "feedback" and rng.random() < 0.2:
                entries.append(self._answer(key))
            while "quiet" in COMPANIONS[self._setup.companion] and rng.random() < 0.3:
                entries.append(self._quiet(key))
        entries += self._labels_due()
        if rng.random() < 0.5 and entries:
            # Devices come in turn or mixed; the rows of one stay in order.
            order = rng.permutation([entry.key for entry in entries]).tolist()
            queues = {key: [e for e in entries if e.key == key] for key in self._keys}
            entries = [queues[key].pop(0) for key in order]
        fault = ""
        if rng.random() < self._faults:
            fault = "again" if rng.random() < 0.4 else "dies"
        after = float(rng.choice([0.3, 2.5, 12.0])) if rng.random() < 0.2 else 0.01
        return Bundle(tuple(entries), self._seed(), fault, int(rng.integers(1, 40)), after)

    def _answer(self, key: str) -> Answer:
        rng = self._rng
        channel, deviation = int(rng.choice([1, 2, 2, 2])), float(rng.choice([-8.0, 8.0, 8.0]))
        return Answer(key, channel, deviation, FALSE if rng.random() < 0.7 else REAL)

    def _quiet(self, key: str) -> Quiet:
        rng = self._rng
        known = [each for each in self._quiets if each.key == key]
        if known and rng.random() < 0.4:
            found = known[int(rng.integers(len(known)))]._replace(cancels=bool(rng.random() < 0.8))
        elif rng.random() < 0.2:
            of_file = OF_FILE[int(rng.integers(len(OF_FILE)))]
            found = Quiet(key, "*", of_file.start, of_file.end, False, True, 0)
        else:
            start = self._clock[key] // SECOND + int(rng.choice([-40, -5, 0, 2, 10, 60]))
            end = start + int(rng.choice([1, 5, 20, 80]))
            who = key if rng.random() < 0.7 else "*"
            comes = bool(rng.random() < 0.2)
            found = Quiet(key, who, start * SECOND, end * SECOND, comes, False, 0)
        self._quiets.append(found._replace(number=len(self._quiets)))
        return self._quiets[-1]

    def _next(self, key: str) -> list[Entry]:
        """Draw the next row of a device, and now and then labels for rows."""
        rng, setup = self._rng, self._setup
        step = 0 if rng.random() < self._same else float(rng.choice([0.25, 0.5, 1.0, 3.0]))
        if rng.random() < self._silence:
            step = float(rng.choice([15.0, 50.0, 300.0]))
        clock = self._clock[key] = self._clock[key] + int(step * SECOND)
        back = rng.random() * setup.disorder * 0.9 if rng.random() < 0.4 else 0.0
        time = clock - int(back * 2) * (SECOND // 2)
        if rng.random() < self._late:
            time -= int(rng.choice([5, 30, 4000])) * SECOND
        elif rng.random() < self._ahead:
            time += int(rng.choice([30, 100, 9000])) * SECOND
        kind = PLAIN
        if rng.random() < self._gap:
            kind = GAP if rng.random() < 0.8 else EMPTY
        elif rng.random() < self._wild:
            kind = WILD
        self._sequence += int(rng.random() < 0.8)
        source = int(rng.random() < self._second)
        number = self._given[key]
        self._given[key] += 1
        if setup.wait is not None and rng.random() < 0.6:
            by_index = bool(rng.random() < 0.4)
            named = number if by_index else None, None if by_index else time
            self._labels.append(Label(key, named[0], named[1], number, int(rng.integers(3))))
        return [Row(key, time, source, number, self._sequence, kind)]

    def _labels_due(self) -> list[Label]:
        """Draw which of the labels come now; some come twice."""
        come = [label for label in self._labels if self._rng.random() < 0.3]
        self._labels = [label for label in self._labels if label not in come]
        return come + [label for label in come if self._rng.random() < 0.1]
