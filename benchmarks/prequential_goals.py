"""What the prequential benchmark holds the tracked features to, and what is known to be missed.

Every goal is for recursive ridge on tracked features at r = B, the largest budget that is tried on
the set, and compares means over the seeds in one run. A gain is in accuracy, or in standard
deviations of the target where it is an RMSE.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks import prequential_ours as ours
from benchmarks import prequential_peers as peers
from benchmarks.prequential_sets import DRIFTING, ORDERED, SHUFFLED, SOURCES

ALL = (SHUFFLED, ORDERED, DRIFTING)


@dataclass(frozen=True)
class Goal:
    """One goal.

    Attributes:
        name: What is to be beaten, as the verdict prints it.
        against: The method.
        kinds: The streams' kinds that it is for.
        slack: How far below the method is still good.
    """

    name: str
    against: str
    kinds: tuple[str, ...] = ALL
    slack: float = 0.0


GOALS = (
    Goal("beats Nystroem+SGD", peers.SGD),
    Goal("beats Nystroem+SGD, tuned", peers.SGD_TUNED),
    Goal("beats River's logistic or linear regression", peers.RIVER),
    Goal("beats River's passive-aggressive learner", peers.RIVER_PA),
    Goal("beats the fixed map", ours.FIXED, (ORDERED, DRIFTING)),
    Goal("within .02 of the fixed map", ours.FIXED, (SHUFFLED,), 0.02),
)
WATCH_GOAL = 0.60
"""Accuracy on shuffled watch at r = B = 160."""
WATCH = "accuracy of at least .60"

_AGGRESSIVE = (
    "neighbouring rows share their label; a step that puts the last row right uses that more than "
    "any window of rows does, without a map too"
)
NOT_REACHED: dict[tuple[str, str], str] = {
    ("beats Nystroem+SGD, tuned", "a9a"): (
        "hinge loss with averaged weights against squared loss; the linear ridge is ahead of both, "
        "raw rows and tracked features together as good as it"
    ),
    ("beats River's passive-aggressive learner", "elec2"): _AGGRESSIVE,
    ("beats River's passive-aggressive learner", "gas_drift"): _AGGRESSIVE,
    ("beats River's passive-aggressive learner", "motionsense"): _AGGRESSIVE,
    ("beats the fixed map", "motionsense_mixed"): (
        "the first subject's rows serve the others as well: a moving subspace gains nothing on "
        "rows in random order and costs the ridge its memory, a still one is the fixed map"
    ),
}
"""Goal and set to why it is known to be missed."""


@dataclass(frozen=True)
class Verdict:
    """How a goal came out on a set: reached if `gain` is above `-slack`."""

    goal: str
    source: str
    gain: float
    slack: float

    @property
    def reached(self) -> bool:
        """Whether the goal was reached."""
        return self.gain > -self.slack

    @property
    def reason(self) -> str | None:
        """Why the goal is known to be missed; None if it is not."""
        return NOT_REACHED.get((self.goal, self.source))

    @property
    def fails(self) -> bool:
        """Whether the benchmark is to fail: missed, and not known to be."""
        return not self.reached and self.reason is None

    def __str__(self) -> str:
        """Return the verdict's line."""
        state = "reached" if self.reached else "MISSED" if self.fails else "not reached"
        line = f"{state:11s} {self.source:17s} {self.goal}: {self.gain:+.4f}"
        if self.reason is not None:
            line += f" ({'listed as missed: ' if self.reached else ''}{self.reason})"
        return line


def judge(merits: Mapping[tuple[str, str], float]) -> Iterator[Verdict]:
    """Judge the goals of every set that was measured.

    Args:
        merits: (set, method) to its mean merit at the set's largest budget.
    """
    for goal in GOALS:
        for source, about in SOURCES.items():
            if about.kind in goal.kinds and (source, ours.TRACKED) in merits:
                gain = merits[source, ours.TRACKED] - merits[source, goal.against]
                yield Verdict(goal.name, source, gain, goal.slack)
    if ("watch", ours.TRACKED) in merits:
        yield Verdict(WATCH, "watch", merits["watch", ours.TRACKED] - WATCH_GOAL, 0.0)
