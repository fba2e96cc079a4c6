"""What a device's periods come to, against the device's own past: numbers by channel.

Each channel is predicted from the others: from v = [x, m₁₀, m₆₀] without its own three entries.
With R the correlations of the past, P = (R + ρI)⁻¹ and B the channel's entries, the residual of its
row is e = (P_BB)⁻¹P_B· v, first entry: a linear form w·v whose own coefficient is 1 and whose own
means have 0, so that one inverse serves all channels. A period is then known by its sums alone:

    level     w·(v̄ - centre) / s
    movement  ½ ln(wᵀCw / n / s² + .001)
    repeats   √(share of rows that repeat the channel's value before)

with s the median over the past's days of √(wᵀCw / n), at least .01 of the channel's deviation.

The past of a period is the days from `delay + past` to `delay` days before its own. In a device's
first days there is none: there each day is compared with the others of them (crosswise). Days on
which a channel was more than ten times as far from the past's median as on most are left out, so
that one wild value does not decide for weeks. Without five days in the past, and before a device
has begun, there are no numbers.

The numbers depend on this device's rows in order of time and on the spec alone, bit for bit: on no
later days, but for those of the first days. Cost O(past · D² + D³) a day.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.monitor.periods.spec import PeriodsSpec
from kerneltrack.monitor.periods.sums import DeviceSums, PeriodSums, join
from kerneltrack.native.binding import call
from kerneltrack.native.elementary import elementary

NUMBERS = LEVEL, MOVEMENT, REPEATS = ("level", "movement", "repeats")
FEWEST_DAYS = 5
"""Days of the past that it takes to compare a period."""
NO_DAY = 1 << 40
"""A day that does not come."""
_RIDGE = 1e-3
_LEAST_SCALE = 1e-2
_LEAST_MOVEMENT = 1e-3
_WILD = 100.0
"""How many times the median a day's square may be and still belong to the past."""


class DeviceNumbers(NamedTuple):
    """What the periods of a device come to.

    Attributes:
        period: (K,) the days that have rows, counted from 1970-01-01.
        rows: (K,) rows of each.
        values: (K, 3, D) level, movement and repeats; NaN where there is too little past.
    """

    period: IntArray
    rows: IntArray
    values: FloatArray


class _Past(NamedTuple):
    """What a day's periods are compared with.

    Attributes:
        weights: (D, 3D) the residuals' linear forms.
        centre: (3D,) mean of the past.
        scale: (D,) usual deviation of a residual.
    """

    weights: FloatArray
    centre: FloatArray
    scale: FloatArray


def numbers_of(spec: PeriodsSpec, sums: DeviceSums) -> DeviceNumbers:
    """Return what the periods of a device come to.

    Args:
        spec: The spec.
        sums: Of all its rows.
    """
    days, known = sums.result()
    return numbers_at(spec, days, known, beginning(days, spec.first), np.arange(len(days)))


def numbers_at(
    spec: PeriodsSpec, days: IntArray, known: PeriodSums, begin: int, places: IntArray
) -> DeviceNumbers:
    """Return what some periods of a device come to.

    Args:
        spec: The spec.
        days: (K,) the days that have rows, ascending: all that these are compared with.
        known: Their sums.
        begin: As of `beginning`.
        places: Those that are asked for.
    """
    values = np.full((len(places), len(NUMBERS), known.repeats.shape[1]), np.nan)
    ages = days - begin
    for line, at in enumerate(places.tolist()):
        past = _past_of(known, _before(spec, ages, at))
        if past is not None:
            values[line] = _compared(past, known, np.array([at]))
    return DeviceNumbers(days[places], known.rows[places], values)


def beginning(days: IntArray, first: int) -> int:
    """Return the day from which on a device has enough days within its `first` ones.

    A few rows of a wrong clock, long before the others, are no beginning.

    Args:
        days: The days that have rows, ascending.
        first: How many days the first ones are.

    Returns:
        The day; `NO_DAY` if there is none yet.
    """
    within = np.searchsorted(days, days + first) - np.arange(len(days))
    enough = days[within > FEWEST_DAYS]
    return int(enough[0]) if len(enough) else NO_DAY


def _before(spec: PeriodsSpec, ages: IntArray, at: int) -> IntArray:
    """Return the places of the days that one is compared with; ages from the beginning."""
    if 0 <= ages[at] < spec.first:
        early = (ages >= 0) & (ages < spec.first)
        early[at] = False
        return np.flatnonzero(early)
    ago = ages[at] - ages
    return np.flatnonzero((ages >= 0) & (ago > spec.delay) & (ago <= spec.delay + spec.past))


def _past_of(days: PeriodSums, places: IntArray) -> _Past | None:
    """Return what periods are compared with, None if that is too little."""
    places = _tame(days, places)
    if len(places) < FEWEST_DAYS:
        return None
    whole = join(days, [places])
    rows, centre = int(whole.rows[0]), whole.mean[0]
    if rows <= len(centre):
        return None
    deviation = np.sqrt(whole.squares()[0])
    deviation = np.where(deviation > 0, deviation, 1.0)
    correlations = whole.comoments / rows / deviation[:, None] / deviation[None, :]
    weights = np.empty((len(days.repeats[0]), len(centre)))
    call("period_weights", correlations, (_RIDGE,), weights)
    weights /= deviation[None, :]
    _, spread = _residuals(weights, centre, days, places)
    usual = np.sqrt(np.median(spread, axis=0))
    return _Past(weights, centre, np.maximum(usual, _LEAST_SCALE))


def _tame(days: PeriodSums, places: IntArray) -> IntArray:
    """Leave out days on which a channel was further off than on most."""
    if not len(places):
        return places
    mean, squares = days.mean[places], days.squares()[places]
    squares = squares + (mean - np.median(mean, axis=0)) ** 2
    usual = np.median(squares, axis=0)
    near = (squares <= _WILD * usual) | (usual == 0)
    kept: IntArray = places[(near & np.isfinite(squares)).all(axis=1)]
    return kept


def _residuals(
    weights: FloatArray, centre: FloatArray, sums: PeriodSums, places: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return level and mean square about it of the residuals of periods, (m, D) each."""
    level, spread = np.empty((2, len(places), len(weights)))
    call("period_residuals", weights, centre, sums, places, level, spread)
    return level, spread


def _compared(past: _Past, sums: PeriodSums, places: IntArray) -> FloatArray:
    """Return the numbers of periods, (m, 3, D)."""
    level, spread = _residuals(past.weights, past.centre, sums, places)
    square = spread / past.scale**2 + _LEAST_MOVEMENT
    movement = 0.5 * elementary("log", square.ravel()).reshape(square.shape)
    repeats = np.sqrt(sums.repeats[places] / sums.rows[places][:, None])
    found = np.stack([level / past.scale, movement, repeats], axis=1)
    fine = np.isfinite(found).all(axis=1) & np.isfinite(square)
    return np.where(fine.all(axis=1)[:, None, None], found, np.nan)
