"""What learners of a job are counted by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kerneltrack.learners import LearnerSpec
from kerneltrack.learners.common.base import CARRIED
from kerneltrack.registry import get_learner
from transforms.learn.learner import Learning
from transforms.metrics import count

_NAMES = ("scored", "correct", "learned", "unusable")


def count_learned(spec: LearnerSpec, changes: Iterable[tuple[Learning, Learning]]) -> None:
    """Count the rows that learners predicted from one state to another, and what came of them."""
    learner, totals = get_learner(spec.learner), Counter[str]()
    for before, now in changes:
        totals["predicted"] += now.rows - before.rows
        for known, sign in ((now, 1), (before, -1)):
            counters = {} if known.state is None else learner.counters(known.state)
            for name, value in counters.items():
                if name in _NAMES or name.startswith(CARRIED):
                    totals[name] += sign * int(value)
    for name, amount in totals.items():
        count(name, amount)
