"""What references say of the rows of a call: scores, episodes, and how devices are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from kerneltrack.arrays import BoolArray, FloatArray, IntArray
from kerneltrack.fleet.conditions import (
    idle_rows,
    modes_of,
    with_modes,
    without_modes,
    without_unseen,
)
from kerneltrack.fleet.devices import (
    Before,
    PassedBy,
    changes,
    judged,
    may_begin,
    may_last,
    reopened,
)
from kerneltrack.fleet.models import Models
from kerneltrack.fleet.references import Referred, refer_each, rows_that_pass
from kerneltrack.fleet.results import Results
from kerneltrack.fleet.valid_rows import ValidRows
from kerneltrack.monitor.reference import (
    SEEN,
    Episode,
    ReferenceSpec,
    ReferenceState,
    Scores,
    block,
)
from kerneltrack.monitor.reference import paces as references
from kerneltrack.monitor.reference.block import BlockParts
from kerneltrack.monitor.reference.joining import join, takes_over
from kerneltrack.monitor.reference.joint import WATCHES, Joint
from kerneltrack.monitor.reference.left_out import (
    LeftOut,
    Numbering,
    Told,
    leave_out,
    numbering_of,
)
from kerneltrack.monitor.reference.paces import Pace
from kerneltrack.trackers.common.calls import copied

_Known: TypeAlias = tuple[ReferenceSpec, int, BlockParts]
"""References of m models: their settings, their channels, and what they are."""


class Judging:
    """Rows of a call's rounds on their way past references.

    Attributes:
        rows: (n, D) the rows as all else takes them: nothing but references knows of conditions
            and modes.
    """

    def __init__(self, models: Models, rows: FloatArray) -> None:
        """`rows`: (n, D), missing values filled."""
        self._models, self._work, spec = models, models.work, models.work.reference
        self._idle = idle_rows(spec, rows)
        rows = without_unseen(spec, rows)
        self._modes = modes_of(spec, rows)
        self.rows = without_modes(spec, rows)

    def take(self, valid: ValidRows, before: IntArray, results: Results) -> None:
        """Hold rows against references, and note what they say.

        Args:
            valid: The rows.
            before: (k,) rows that each model's tracker had seen before them.
            results: What has come out so far.
        """
        spec, models = self._work.reference, self._models
        if spec is None or models.reference is None:
            return
        known = spec, models.width, models.reference
        idle = None if self._idle is None else valid.of(self._idle)
        if idle is not None:
            results.idle += int(np.count_nonzero(idle))
        quiet = rows_that_pass(models, valid, idle)
        first, *more = references.paces_of(*known)
        valid, quiet, left = self._without(first, valid, quiet)
        counts = references.told_counts(*known, valid.which)
        passes, heads = self._before(known, valid, counts)
        changed_before = references.changes_of(*known, valid.which)
        unplaced = block.unplaced_rows(*first)
        learned = references.learned_episodes(*known)
        found = self._refer(first, valid, quiet)
        self._put(valid, found.scores, results)
        if left is not None:
            self._keep(first, valid, left)
        for second in more:
            found = self._joined(known, second, valid, counts[:, SEEN], found)
        results.without_mode += block.unplaced_rows(*first) - unplaced
        results.false_learned += references.learned_episodes(*known) - learned
        places = dict(zip(valid.which.tolist(), range(len(before)), strict=True))

        def number(model: int) -> Numbering:
            """Return which of its tracker's rows those of a model's reference are."""
            place = places[model]
            if left is not None:
                return left.numbering(place, int(before[place]))
            # A reference may have begun later than the tracker, with a snapshot of that.
            return Numbering(int(before[place] - counts[place, SEEN]))

        again = self._reopened(valid, heads, found)
        # What is muted may count later on.
        told = _in_order(found.episodes, again) if self._work.mutes else found.episodes
        self._tell(told, number, results)
        if not self._work.devices:
            return
        passed = _passed_by(valid, passes, found.quiet)
        armed = references.armed_of(*known, valid.which)
        begins = may_begin(spec, counts, armed, found.scores.p, valid.starts, valid.stops)
        for place, (model, own) in enumerate(valid.each()):
            changed = begins[place] or model in heads or model in found.episodes
            if not (changed or place in passed):
                continue
            if not models.referred[model]:
                continue
            before_rows = Before.of(counts[place], changed_before[place])
            lines = changes(
                *(spec, before_rows, found.scores.p[own]),
                *(found.episodes.get(model, []), again.get(model, []), valid.times_of(own)),
                passed=passed.get(place),
                armed=int(armed[place]),
            )
            key, numbering = models.keys[model], number(model)
            results.devices[model] += [
                judged(self._work, key, device.numbered(numbering.of)) for device in lines
            ]

    def _before(
        self, known: _Known, valid: ValidRows, counts: IntArray
    ) -> tuple[BoolArray, dict[int, ReferenceState]]:
        """Return what is asked of references as they are before the rows.

        Args:
            known: The references of the models.
            valid: The rows.
            counts: (k, c) the references' counts before them.

        Returns:
            (k,) whether each model's last row passed its reference by, and the references of models
            whose episodes may last long enough to be told of once more, by their places.
        """
        models = self._models
        if not (self._work.devices or self._work.mutes):
            return np.zeros(len(valid.which), np.bool_), {}
        lasts = valid.which[may_last(counts, valid.stops - valid.starts)]
        states = ((model, models.reference_of(model)) for model in lasts.tolist())
        passes = block.passed_last_each(*references.first_pace(*known))
        heads = {model: _copied(state) for model, state in states if state is not None}
        return passes[valid.which], heads

    def _without(
        self, pace: Pace, valid: ValidRows, passed: BoolArray | None
    ) -> tuple[ValidRows, BoolArray | None, LeftOut | None]:
        """Return the rows without those that references leave out, and what is known of these.

        Args:
            pace: The references.
            valid: The rows.
            passed: (n,) which of them pass references by; None: none does.
        """
        every = pace.spec.every_time
        if not every or valid.stamps is None:
            return valid, passed, None
        tables = Told.of(block.columns_of(*pace))
        none = np.zeros(len(valid.rows), np.bool_)
        kept, left = leave_out(
            *(tables.at(valid.which), every, valid.stamps, valid.stops - valid.starts),
            none if passed is None else passed,
        )
        return valid.only(kept), None if passed is None else passed[kept], left

    def _keep(self, pace: Pace, valid: ValidRows, left: LeftOut) -> None:
        """Let references keep how many rows were left out before those that they may tell of."""
        columns = block.columns_of(*pace)
        columns["left_out"][valid.which] = left.kept(Told.of(columns).at(valid.which))

    def _refer(self, pace: Pace, valid: ValidRows, passed: BoolArray | None) -> Referred:
        """Hold rows against the references of a pace; `passed`: which of them pass these by."""
        return refer_each(self._models, pace, valid, self._seen(valid), passed)

    def _seen(self, valid: ValidRows) -> FloatArray:
        """Return rows as references take them, (n, D)."""
        if self._modes is None:
            return valid.rows
        return with_modes(self._work.reference, valid.rows, valid.of(self._modes))

    def _joined(
        self, known: _Known, second: Pace, valid: ValidRows, seen: IntArray, found: Referred
    ) -> Referred:
        """Hold rows against second references, too.

        Args:
            known: The references of the models.
            second: The second ones of them.
            valid: The rows.
            seen: (k,) rows that each reference of all rows had seen before them.
            found: What those say of the rows.

        Returns:
            That with the episodes of both.
        """
        joints = references.joints_of(*known)
        kept, quiet, left = self._without(second, valid, found.quiet)
        own = self._refer(second, kept, quiet)
        if joints is None or left is None:
            return found
        self._keep(second, kept, left)
        episodes, takes = dict[int, list[Episode]](), takes_over(known[0], own.scores)
        for place, (model, rows) in enumerate(kept.each()):
            first, more = found.episodes.get(model, []), own.episodes.get(model, [])
            if not (first or more):
                continue
            joint = Joint(*(part[model] for part in joints))
            number = left.numbering(place, int(seen[place]))
            told = join(known[0], joint, first, more, takes[rows], number)
            if told:
                episodes[model] = told
        taken = np.concatenate([[0], np.cumsum(takes)])
        joints.wholes[kept.which, WATCHES] |= taken[kept.stops] > taken[kept.starts]
        return found._replace(episodes=episodes)

    def _put(self, valid: ValidRows, scores: Scores, results: Results) -> None:
        """Note the scores of rows."""
        if valid.places is None:
            results.scores = scores
            return
        for column, part in zip(self._scores_of(results).columns, scores.columns, strict=True):
            column[valid.places] = part

    def _scores_of(self, results: Results) -> Scores:
        """Return the scores of all rows, NaN where nothing is said yet."""
        if results.scores is None:
            results.scores = Scores.none(len(self.rows))
        return results.scores

    def _reopened(
        self, valid: ValidRows, heads: Mapping[int, ReferenceState], found: Referred
    ) -> dict[int, list[Episode]]:
        """Return episodes as they are once they have been open for a while, by the models' places.

        Args:
            valid: The rows.
            heads: References before the rows, of the models that may have such episodes.
            found: What references say of the rows.
        """
        spec = self._work.reference
        if spec is None or not heads:
            return {}
        again, rows = {}, self._seen(valid)
        for model, own in valid.each():
            if model in heads:
                quiet = np.zeros(own.stop - own.start, np.bool_)
                episodes = reopened(
                    *(spec, heads[model], rows[own]),
                    *(found.episodes.get(model, []), valid.times_of(own)),
                    learn=not self._work.frozen,
                    quiet=quiet if found.quiet is None else found.quiet[own],
                    said=self._work.said_of(self._models.keys[model]),
                )
                if episodes:
                    again[model] = episodes
        return again

    def _tell(
        self,
        episodes: Mapping[int, Sequence[Episode]],
        number: Callable[[int], Numbering],
        results: Results,
    ) -> None:
        """Note episodes as they are to be told; `number`: which rows those of a model are."""
        work, keys = self._work, self._models.keys
        for model, own in episodes.items():
            numbering = number(model)
            moved = [each.numbered(numbering.of) for each in own]
            if work.mutes:
                moved = [work.judged(keys[model], each) for each in moved]
            results.episodes[model] += moved

    def end(self, until: Sequence[float], results: Results) -> None:
        """Tell of episodes that are open at the end of the input, of models whose `until` it is."""
        spec, models = self._work.reference, self._models
        if spec is None:
            return
        self._scores_of(results)
        if models.reference is None or math.inf not in until:
            return
        known = spec, models.width, models.reference
        still = references.open_episodes(*known)
        ends = {
            model: [episode]
            for model, episode in still.items()
            if until[model] == math.inf and models.referred[model]
        }
        seen = models.seen

        def number(model: int) -> Numbering:
            """Return which of its tracker's rows those of a model's reference are."""
            return numbering_of(references.state_at(*known, model), int(seen[model]))

        self._tell(ends, number, results)


def _passed_by(valid: ValidRows, last: BoolArray, quiet: BoolArray | None) -> dict[int, PassedBy]:
    """Return which rows passed references by, of the places that have some, or came from some.

    Args:
        valid: The rows.
        last: (k,) whether each model's row before them did.
        quiet: (n,) which are of quiet times; None: none is.
    """
    if quiet is None and not last.any():
        return {}
    passed = np.zeros(len(valid.rows), np.bool_) if quiet is None else quiet
    return {
        place: PassedBy(passed[own], bool(last[place]))
        for place, (_, own) in enumerate(valid.each())
        if last[place] or passed[own].any()
    }


def _in_order(
    episodes: Mapping[int, list[Episode]], again: Mapping[int, list[Episode]]
) -> dict[int, list[Episode]]:
    """Return the lines of episodes, and those of open ones, each model's in order."""
    both = {model: [*own, *again.get(model, ())] for model, own in episodes.items()}
    both |= {model: own for model, own in again.items() if model not in both}
    return {model: sorted(own, key=lambda each: each.row) for model, own in both.items()}


def _copied(state: ReferenceState) -> ReferenceState:
    second = None if state.second is None else _copied(state.second)
    joint = None if state.joint is None else copied(state.joint)
    return ReferenceState(copied(state.tables), copied(state.kernel), second, joint)
