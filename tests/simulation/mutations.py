"""Mistakes that somebody could make in the keyed step; the simulator has to find each of them.

A mutation replaces some text of one function, wherever that function is used.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from tests.simulation.history import PLAIN, Bundle, Command, Entry, History, Row, Setup, draw
from tests.unit.test_rounds import SECOND


def life_with_a_reset(cut: int) -> History:
    """Return a life in which rows wait as the model is reset, and the next is from before them.

    Args:
        cut: Seed of the cuts.
    """
    times = (*range(12), 2, 14)
    before = [Row("m0", time * SECOND, 0, row, row, PLAIN) for row, time in enumerate(times)]
    entries: list[Entry] = [*before[:-2], Command("m0", replaces=False), *before[-2:]]
    return History(Setup(seed=1, disorder=2.0), [Bundle(tuple(entries), cut)])


class Mutation(NamedTuple):
    """A mistake.

    Attributes:
        name: What is wrong.
        place: Module and function, or class and method.
        old: Text of the function, which stands there once.
        new: What it becomes.
        asked: Fields of the setup of the histories that it is looked for in.
        lives: Where it is looked for first: what it takes is seldom drawn.
    """

    name: str
    place: str
    old: str
    new: str
    asked: dict[str, Any] = {}  # noqa: RUF012 - nobody writes to it
    lives: tuple[History, ...] = ()

    @contextmanager
    def made(self) -> Iterator[None]:
        """Make the mistake meanwhile."""
        function = self.function()
        before = function.__code__
        function.__code__ = self._mutated(function)
        try:
            yield
        finally:
            function.__code__ = before

    def histories(self, first: int) -> Iterator[History]:
        """Yield histories that it is looked for in, those of seeds from the first on at last."""
        yield from self.lives
        for seed in itertools.count(first):
            yield draw(seed, **{"companion": "alone", "tracker": "okfeb", **self.asked})

    def function(self) -> FunctionType:
        """Return the function.

        Raises:
            AttributeError: if it is gone.
        """
        module, _, path = self.place.partition(":")
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = inspect.getattr_static(found, name)
        found = getattr(found, "__func__", getattr(found, "fget", found))
        if not isinstance(found, FunctionType):
            raise TypeError(f"{self.place} is no function")
        return found

    def _mutated(self, function: FunctionType) -> CodeType:
        source = textwrap.dedent(inspect.getsource(function))
        if source.count(self.old) != 1:
            raise ValueError(f"{self.place} has {self.old!r} {source.count(self.old)} times")
        text = source.replace(self.old, self.new)
        whole = compile("from __future__ import annotations\n" + text, self.place, "exec")
        for code in whole.co_consts:
            if isinstance(code, CodeType) and code.co_name == function.__name__:
                return code
        raise ValueError(f"{self.place} has no code")


_STEP = "transforms.track.step:TrackFn"
_KEYED = "transforms.track.keyed_fn:KeyedFn"
_LOG = "transforms.track.log:ModelLog"
_CLOCK = "transforms.track.clock"
_ARRIVAL = "transforms.track.arrival"
_VISITS = "transforms.track.visits"
_QUIET = "kerneltrack.monitor.quiet:QuietTimes"

MUTATIONS = (
    Mutation(
        "a new model sets no timer for the end of the input",
        f"{_KEYED}.run_pending",
        "logs[key].begins and not each.flush",
        "logs[key].begins and each.flush",
    ),
    Mutation(
        "the timer of idle_flush is forgotten",
        f"{_KEYED}._watch",
        "idle = set_within(timers.idle, idle, now, self._idle_flush)",
        "idle = now + self._idle_flush",
        {"idle": 2.0},
    ),
    Mutation(
        "the timer of expiry is forgotten",
        f"{_KEYED}._watch",
        "silent = set_within(timers.silent, silent, now, self._expire_after)",
        "silent = now + self._expire_after",
        {"expire": 9.0},
    ),
    Mutation(
        "the timer of devices that send nothing is forgotten",
        f"{_STEP}._listen",
        "due = set_within(timers.unheard, due, now, span)",
        "due = now + span",
        {"companion": "devices", "silent": 5.0},
    ),
    Mutation(
        "a device that was silent is not told of with its next row",
        f"{_STEP}._speaks",
        "log.put_heard(log.heard._replace(rows=-1, since=NO_TIME))",
        "pass",
        {"companion": "devices", "silent": 5.0},
    ),
    Mutation(
        "a timer that fires too early is not set anew",
        "transforms.keyed.timers:in_time",
        "timer.set(Timestamp.of(now + span if silent else min(seen, now) + span))",
        "pass",
        {"expire": 9.0},
    ),
    Mutation(
        "a timer that fires long after its time counts",
        "transforms.keyed.timers:in_time",
        "silent and now - float(due) <= span",
        "silent",
        {"idle": 2.0},
    ),
    Mutation(
        "a silence does not run what the bundle has brought before",
        f"{_KEYED}.fall_silent",
        "if key in self.pending:",
        "if False:",
        {"idle": 2.0},
    ),
    Mutation(
        "a model expires before what the bundle has brought has run",
        f"{_KEYED}.expire",
        "yield from self.run_pending()",
        "yield from ()",
        {"expire": 9.0},
    ),
    Mutation(
        "labels that come after rows are taken before them",
        f"{_KEYED}.bring",
        "pending.flush or pending.ends_with(chunk, named)",
        "pending.flush",
        {"learner": "ridge", "wait": (25.0, 1000)},
    ),
    Mutation(
        "the part of a model with a cell of its own stays when the model is gone",
        f"{_LOG}.commit",
        "elif self._keeps:",
        "elif False:",
        {"companion": "reference"},
    ),
    Mutation(
        "the part of a model with a cell of its own is not written",
        f"{_LOG}.commit",
        "if self._writes_kept:",
        "if self._writes_kept and not self._keeps:",
        {"companion": "reference"},
    ),
    Mutation(
        "rows that wait are lost when a model comes back",
        f"{_LOG}.wake",
        "list(kept.waiting), 0",
        "[], 0",
        {"expire": 9.0},
    ),
    Mutation(
        "a learner is lost when its model expires",
        f"{_LOG}.wake",
        "self.learner, self.expired = kept.learner, None",
        "self.learner, self.expired = None, None",
        {"learner": "ridge", "expire": 9.0},
    ),
    Mutation(
        "progress is a nanosecond ahead",
        f"{_CLOCK}:progress_at",
        "order.wait, taken",
        "order.wait + 1, taken",
    ),
    Mutation(
        "rows that are not ready are lost once others run",
        f"{_VISITS}:_write",
        "elif stop > start:",
        "elif False:",
    ),
    Mutation(
        "rows that have run still count as waiting",
        f"{_VISITS}:_write",
        "each.clock.waiting - gone",
        "each.clock.waiting",
    ),
    Mutation(
        "rows that are late count",
        f"{_ARRIVAL}:clock_after",
        "last - newest > reach or first < progress_at(order, newest, clock.flushed)",
        "last - newest > reach",
    ),
    Mutation(
        "rows that jump ahead count at once",
        f"{_ARRIVAL}:clock_after",
        "last - newest > reach or first < progress_at(order, newest, clock.flushed)",
        "first < progress_at(order, newest, clock.flushed)",
        {"jump": 20.0},
    ),
    Mutation(
        "which row shows the time after a reset depends on how rows are cut",
        f"{_ARRIVAL}:_look",
        "while was_reset(now) and",
        "while False and",
        lives=tuple(map(life_with_a_reset, range(1, 4))),
    ),
    Mutation(
        "rows that wait are not looked at again after a reset",
        f"{_ARRIVAL}:_admit",
        "if unwanted or anew:",
        "if unwanted:",
    ),
    Mutation(
        "a model that is reset counts its rows from 0 again",
        f"{_VISITS}:_begin",
        "begin(work, visit.key, first, clock.before)",
        "begin(work, visit.key, first)",
    ),
    Mutation(
        "rows that come twice both count",
        f"{_CLOCK}:without_duplicates",
        "if again.any():",
        "if False:",
        {"duplicates": "drop", "disorder": 4.0},
    ),
    Mutation(
        "what was said of a device's episodes is forgotten when it expires",
        f"{_LOG}.entries",
        "always += [Told(self.told)] if self.told else []",
        "always += [Told(self.told)] if self.told and self.expired is None else []",
        {"companion": "feedback", "expire": 9.0},
    ),
    Mutation(
        "what was said of a device's episodes does not count",
        f"{_STEP}.hear",
        "log.told",
        'b""',
        {"companion": "feedback"},
    ),
    Mutation(
        "quiet times that the job is told of are forgotten when a device expires",
        f"{_LOG}.entries",
        "always += [QuietBytes(self.quiet)] if self.quiet else []",
        "always += [QuietBytes(self.quiet)] if self.quiet and self.expired is None else []",
        {"companion": "quiet", "expire": 9.0},
    ),
    Mutation(
        "quiet times that the job is told of do not count",
        f"{_STEP}.hear",
        "log.quiet",
        'b""',
        {"companion": "quiet"},
    ),
    Mutation(
        "a quiet time counts as it did before the job was told of another",
        f"{_QUIET}.tell",
        "self._known.pop((device, self.groups.get(device)), None)",
        "pass",
        {"companion": "quiet"},
    ),
    Mutation(
        "quiet times that are still to come make place for others",
        f"{_QUIET}.told_with",
        "<= ran",
        "< math.inf",
        {"companion": "quiet", "most_quiet": 3},
    ),
    Mutation(
        "nothing is over for a device that has expired",
        f"{_STEP}._note_quiet",
        "now is None and log.expired is not None",
        "False",
        {"companion": "quiet", "most_quiet": 1, "expire": 9.0},
    ),
    Mutation(
        "days that are over are not kept",
        f"{_LOG}.commit",
        "for day in self._days:",
        "for day in self._days[:-1]:",
        {"periods": True, "disorder": 4.0},
    ),
    Mutation(
        "a device's days are forgotten when its model expires",
        f"{_LOG}.wake",
        "self.periods, self._days = kept.periods, kept.days",
        'self.periods, self._days = b"", ()',
        {"periods": True, "disorder": 4.0, "expire": 9.0},
    ),
    Mutation(
        "rows in the buffer of a backlog are forgotten",
        f"{_LOG}.drain",
        "if self._spilled:",
        "if False:",
    ),
)
