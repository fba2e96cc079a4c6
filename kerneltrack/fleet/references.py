"""The rows of many models, held against their references."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from kerneltrack.arrays import BoolArray, FloatArray, IntArray
from kerneltrack.fleet.models import Models
from kerneltrack.fleet.valid_rows import ValidRows
from kerneltrack.monitor import reference
from kerneltrack.monitor.quiet import runs_of
from kerneltrack.monitor.reference import Episode, Scores, block
from kerneltrack.monitor.reference.paces import Pace
from kerneltrack.monitor.reference.run import of_either


class Referred(NamedTuple):
    """What references say of rows.

    Attributes:
        scores: Of all of the rows.
        episodes: Those that were opened or closed, by place among the models, rows as the
            reference counts.
        quiet: (n,) which rows are of quiet times, or do not meet the condition; None: none is.
    """

    scores: Scores
    episodes: dict[int, list[Episode]]
    quiet: BoolArray | None = None


class _ReferenceRun(NamedTuple):
    """Rows of a model that are all of a quiet time, or none is.

    Attributes:
        model: The model's place.
        start: Place of the first.
        stop: Place after the last.
        quiet: Whether they are.
    """

    model: int
    start: int
    stop: int
    quiet: bool


def refer_each(
    models: Models,
    pace: Pace,
    valid: ValidRows,
    rows: FloatArray,
    passed: BoolArray | None = None,
) -> Referred:
    """Hold the rows of some models against their references; some pass them by.

    Args:
        models: The models; those without a reference are passed over.
        pace: Their references.
        valid: The rows: whose they are, and when.
        rows: (n, D) as references take them, finite.
        passed: (n,) which pass them by; None: none does.
    """
    which, starts, stops, stamps = valid.which, valid.starts, valid.stops, valid.stamps
    spans = which.tolist(), starts.tolist(), stops.tolist()
    if passed is None or not np.count_nonzero(passed):
        return _refer(models, pace, which, rows, starts, stops, stamps)
    runs = [
        _runs(model, start, passed[start:stop]) for model, start, stop in zip(*spans, strict=True)
    ]
    scores, episodes = Scores.none(len(rows)), defaultdict[int, list[Episode]](list)
    for turn in itertools.zip_longest(*runs):
        there = [run for run in turn if run is not None]
        _pass_by(models, pace, [run for run in there if run.quiet])
        loud = [run for run in there if not run.quiet]
        if not loud:
            continue
        places = np.array([run[:3] for run in loud], np.int64).T.copy()
        found = _refer(models, pace, places[0], rows, places[1], places[2], stamps)
        for column, part in zip(scores.columns, found.scores.columns, strict=True):
            for run in loud:
                column[run.start : run.stop] = part[run.start : run.stop]
        for model, own_episodes in found.episodes.items():
            episodes[model] += own_episodes
    return Referred(scores, dict(episodes), passed)


def said_of(models: Models, place: int) -> IntArray:
    """Return what people said of a model's episodes, as its references take it."""
    work = models.work
    said, two = work.said_of(models.keys[place]), work.reference and work.reference.second
    return said if two is None else of_either(said)


def rows_that_pass(models: Models, valid: ValidRows, idle: BoolArray | None) -> BoolArray | None:
    """Return which rows pass references by, (n,): those of quiet times, and idle ones.

    None: none does. `idle`: (n,) those that do not meet the condition.
    """
    quiet, stamps = models.work.quiet, valid.stamps
    if quiet is None or quiet.is_empty or stamps is None:
        return idle
    passed = np.zeros(len(stamps), np.bool_) if idle is None else idle.copy()
    for model, own in valid.each():
        passed[own] |= quiet.is_quiet(models.keys[model], stamps[own])
    return passed


def _runs(model: int, start: int, quiet: BoolArray) -> list[_ReferenceRun]:
    return [
        _ReferenceRun(model, start + first, start + stop, is_quiet)
        for first, stop, is_quiet in runs_of(quiet)
    ]


def _pass_by(models: Models, pace: Pace, runs: list[_ReferenceRun]) -> None:
    runs = [run for run in runs if models.referred[run.model]]
    if not runs:
        return
    which = np.array([run.model for run in runs], np.int64)
    rows = np.array([run.stop - run.start for run in runs], np.int64)
    block.pass_by(*pace, which, rows)


def _refer(
    models: Models,
    pace: Pace,
    which: IntArray,
    rows: FloatArray,
    starts: IntArray,
    stops: IntArray,
    stamps: IntArray | None,
) -> Referred:
    """Hold the rows of some models against their references, which go on.

    Args:
        models: The models; those without a reference are passed over.
        pace: Their references.
        which: (k,) places of those whose rows these are.
        rows: (n, D), finite; a model's follow one another.
        starts: (k,) place of each model's first row.
        stops: (k,) place after its last.
        stamps: (n,) ns, None without times.
    """
    spec, _, blocks = pace
    has = models.referred[which]
    if not np.count_nonzero(has):
        return Referred(Scores.none(len(rows)), {})
    if np.count_nonzero(has) < len(has):
        which, starts, stops = which[has], starts[has], stops[has]
    learn = not models.work.frozen
    times = np.zeros(len(rows), np.int64) if stamps is None else np.ascontiguousarray(stamps)
    if stamps is None and spec.needs_times:
        one_by_one = np.ones(len(which), np.bool_)
    else:
        one_by_one = block.runs_one_by_one(*pace)[which]
    # Where a new normal is accepted the loop stops.
    before = [part[which] for part in blocks] if spec.accept_after else []
    some = np.flatnonzero(~one_by_one)
    given = starts[some], stops[some], times
    told = [] if models.work.feedback is None else [said_of(models, one) for one in which[some]]
    watched = block.go_on(*(spec, blocks, rows, *given), models=which[some], learn=learn, said=told)
    episodes = {
        int(which[some[at]]): own_episodes
        for at, own_episodes in enumerate(watched.episodes)
        if own_episodes
    }
    for at in some[~watched.done].tolist():
        one_by_one[at] = True
        episodes.pop(int(which[at]), None)
        for part, was in zip(blocks, before, strict=True):
            part[which[at]] = was[at]
    for at in np.flatnonzero(one_by_one).tolist():
        place, own = int(which[at]), slice(int(starts[at]), int(stops[at]))
        known = None if stamps is None else times[own]
        after, scores, own_episodes = reference.update(
            *(spec, block.state_at(*pace, place), rows[own], known),
            learn=learn,
            said=said_of(models, place),
        )
        models.put_reference(place, after)
        for column, part in zip(watched.scores.columns, scores.columns, strict=True):
            column[own] = part
        if own_episodes:
            episodes[place] = own_episodes
    return Referred(watched.scores, episodes)
