"""The greatest time up to each row: times of a model that do not go back."""

from __future__ import annotations

import numpy as np

from kerneltrack.arrays import BoolArray, IntArray

NO_TIME = int(np.iinfo(np.int64).min)
"""Stands for a time, ns, that there is none."""


def clock_of_each(times: IntArray, before: IntArray, starts: IntArray, stops: IntArray) -> IntArray:
    """Return the greatest time of each row's model up to it.

    Args:
        times: (n,) the rows', ns; a model's follow one another.
        before: (m,) of each model before its rows; `NO_TIME` before its first.
        starts: (m,) place of each model's first row.
        stops: (m,) place after its last.
    """
    clock = times.copy()
    some = stops > starts
    first = starts[some]
    clock[first] = np.maximum(clock[first], before[some])
    if len(first) == len(clock):
        return clock
    back = np.zeros(len(clock), np.bool_)
    back[1:] = clock[1:] < clock[:-1]
    back[first] = False
    if back.any():
        last = stops[some]
        for model in np.flatnonzero(np.logical_or.reduceat(back, first)).tolist():
            part = clock[first[model] : last[model]]
            np.maximum.accumulate(part, out=part)
    return clock


def clock_of_whole_rows(
    times: IntArray, whole: BoolArray, before: IntArray, starts: IntArray, stops: IntArray
) -> IntArray:
    """Return the same where a row with missing values moves no clock; see `clock_of_each`.

    Rows before the first whole one of a model without a time count as of its time.

    Args:
        times: (n,) the rows'.
        whole: (n,) which rows have all values.
        before: As of `clock_of_each`, as are the others.
        starts: Likewise.
        stops: Likewise.
    """
    moved = times.copy()
    owners = np.unique(np.searchsorted(stops, np.flatnonzero(~whole), side="right"))
    for model in owners.tolist():
        own = slice(int(starts[model]), int(stops[model]))
        tells, known = whole[own], before[model]
        if known == NO_TIME and not tells.any():
            continue
        if known == NO_TIME:
            known = times[own][np.argmax(tells)]
        moved[own][~tells] = known
    return clock_of_each(moved, before, starts, stops)
