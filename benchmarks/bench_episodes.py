"""Episodes on labelled recordings: normal rows inside one, events noticed while they last.

    python -m benchmarks.bench_episodes [--sets gecco smap nab skab tep asd smd]

Each reference runs over a recording at its default rate, one false alarm in a million rows:
`first`, made from the normal part that the set names, and the same with windows; `auto` with its
default memory of 14 days; and `auto` with a memory as long as the normal part, without windows
and with them. Of the rows after the normal part:

- open: the share of the normal ones that lie in an open episode;
- noticed: events in which an episode opens, from their first row to their last;
- false: episodes that overlap with no event.

Peers are fitted to the normal part: PCA (Hotelling's T² + Q) on five rows side by side, smoothed
over some ten rows, and sub-PCA, the same on windows as long as the channels' period. A peer's
alarm opens where its score is above a limit and ends once it stayed below for `QUIET` rows. The
limit is the lowest multiple of each recording's highest score of the normal part, one for a set,
with no more false alarms than the reference beside it: the peers know the labels for that, the
references do not. `armed`: the share of the rows after the normal part at which `auto` may open
episodes.

A second table says what such a limit, beside `auto` with a memory as long as the normal part, comes
to in the normal part itself: the alarms that it has there, of a million rows. And what a peer
notices whose limit is the highest score of the normal part, which takes no labels.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.signal import argrelmax

from benchmarks.bench_detection import PEER_COLUMNS, PEER_LAGS, lagged, pca, smoothed, standardised
from benchmarks.detection_sets import SETS, Recording, events, recordings
from benchmarks.record import Table
from kerneltrack.arrays import FloatArray
from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.monitor.reference.spec import LEAST_MEMORY

QUIET = 60
"""Rows below its limit after which a peer's alarm is over."""
WINDOWED_COLUMNS = 256
"""Columns of sub-PCA's windows, at most."""
SHORTEST, LONGEST, NO_PERIOD = 3, 300, 125
FINEST = 400
"""Limits that are tried for the peers."""
BESIDE = "auto, memory"
"""The reference whose false alarms a peer's limit may have, in the table of limits."""


class Span(NamedTuple):
    """An alarm: its first row that is held to be odd, where it was noticed, its last row."""

    start: int
    noticed: int
    last: int


class Tally(NamedTuple):
    """What the spans of a set came to."""

    events: int = 0
    noticed: int = 0
    false: int = 0
    open: int = 0
    normal: int = 0

    def plus(self, other: Tally) -> Tally:
        """Add that of another recording."""
        return Tally(*(a + b for a, b in zip(self, other, strict=True)))


def counted(recording: Recording, spans: list[Span]) -> Tally:
    """Count what the spans after the normal part are."""
    odd = recording.odd
    late = [span for span in spans if span.noticed >= recording.train]
    known = [event for event in events(odd) if event[0] >= recording.train]
    inside = np.zeros(len(odd), bool)
    for span in late:
        inside[span.noticed : span.last + 1] = True
    normal = ~odd
    normal[: recording.train] = False
    noticed = sum(any(a <= span.noticed <= b for span in late) for a, b in known)
    false = sum(not odd[span.start : span.last + 1].any() for span in late)
    return Tally(len(known), noticed, false, int((inside & normal).sum()), int(normal.sum()))


def ours(recording: Recording, spec: ReferenceSpec) -> tuple[list[Span], float]:
    """Return the episodes of a reference, and the share of rows at which one could be open."""
    state = reference.init(spec, recording.rows[: min(spec.rows, recording.train)])
    _, scores, reported = reference.update(spec, state, recording.rows, recording.times)
    spans = [Span(e.start, e.opened, e.row) for e in reported if e.closed]
    if reported and not reported[-1].closed:
        spans.append(Span(reported[-1].start, reported[-1].opened, len(recording.rows) - 1))
    return spans, float(np.isfinite(scores.evidence[recording.train :]).mean())


def alarms(score: FloatArray, limit: float) -> list[Span]:
    """Return where a score is above a limit, until it stayed below for `QUIET` rows."""
    above = np.flatnonzero(score > limit)
    if not len(above):
        return []
    edges = np.flatnonzero(np.diff(above) > QUIET)
    firsts, lasts = above[np.r_[0, edges + 1]], above[np.r_[edges, len(above) - 1]]
    until = np.minimum(lasts + QUIET, len(score) - 1)
    return [Span(a, a, b) for a, b in zip(firsts.tolist(), until.tolist(), strict=True)]


def period(rows: FloatArray, train: int) -> int:
    """Return the lag, 3 to 300, at which the normal part's first channel is most like itself."""
    series = rows[:train, 0] - rows[:train, 0].mean()
    spectrum = np.fft.rfft(series, 2 * len(series))
    like = np.fft.irfft(np.abs(spectrum) ** 2)[SHORTEST : min(400, train // 2)]
    peaks = argrelmax(like)[0]
    found = SHORTEST + int(peaks[like[peaks].argmax()]) if len(peaks) else 0
    return found if SHORTEST <= found <= LONGEST else NO_PERIOD


def lagged_pca(recording: Recording) -> FloatArray:
    """PCA of five rows side by side, fewer where they are wide, smoothed."""
    plain = standardised(recording.rows, recording.train)
    lags = max(1, min(PEER_LAGS, PEER_COLUMNS // plain.shape[1]))
    return smoothed(pca(lagged(plain, lags), recording.train))


def sub_pca(recording: Recording) -> FloatArray:
    """PCA of windows as long as the period, fewer rows where they are wide."""
    plain = standardised(recording.rows, recording.train)
    length = min(period(plain, recording.train), max(WINDOWED_COLUMNS // plain.shape[1], 1))
    return pca(lagged(plain, min(length, recording.train // 4)), recording.train)


PEERS: dict[str, Callable[[Recording], FloatArray]] = {
    "PCA [lag] ~": lagged_pca,
    "sub-PCA": sub_pca,
}


def in_highest(scores: FloatArray, train: int) -> FloatArray:
    """Return scores over their highest of the normal part."""
    return np.asarray(scores / max(float(scores[:train].max()), 1e-12))


class Peer:
    """A peer's scores of a set's recordings, each over its highest of the normal part.

    Args:
        every: The recordings.
        score: What scores the rows of one.
    """

    LIMITS: tuple[float, ...] = tuple(np.geomspace(1e4, 1e-2, FINEST).tolist())

    def __init__(self, every: list[Recording], score: Callable[[Recording], FloatArray]) -> None:
        self._every = every
        self._scores = [in_highest(score(recording), recording.train) for recording in every]
        self._tallies = [self.tally(limit) for limit in self.LIMITS]

    def tally(self, limit: float) -> Tally:
        """Return what the alarms above a limit come to."""
        total = Tally()
        for recording, scores in zip(self._every, self._scores, strict=True):
            total = total.plus(counted(recording, alarms(scores, limit)))
        return total

    def within(self, false: int) -> tuple[float, Tally]:
        """Return the last limit before the false alarms are more than so many, and its alarms."""
        tallies = self._tallies
        before = next((at for at, tally in enumerate(tallies) if tally.false > false), len(tallies))
        at = max(before - 1, 0)
        return self.LIMITS[at], tallies[at]

    def normal_alarms(self, limit: float) -> float:
        """Return the alarms of the normal part above a limit, of a million rows."""
        found = rows = 0
        for recording, scores in zip(self._every, self._scores, strict=True):
            found += len(alarms(scores[: recording.train], limit))
            rows += recording.train
        return 1e6 * found / rows


def references(recording: Recording) -> dict[str, ReferenceSpec]:
    """Return the references that run over a recording."""
    auto = ReferenceSpec(learning="auto")
    first = ReferenceSpec(rows=max(recording.train, 256))
    memory = f"{max(recording.train, LEAST_MEMORY)} rows"
    return {
        "first": first,
        "first, windows": dataclasses.replace(first, window="auto"),
        "auto": auto,
        BESIDE: dataclasses.replace(auto, memory=memory),
        "auto, memory, windows": dataclasses.replace(auto, memory=memory, window="auto"),
    }


def compare(name: str, table: Table) -> list[list[str]]:
    """Add the rows of one set; return those of its peers' limits."""
    every = list(recordings(name))
    totals: dict[str, Tally] = {}
    armed: dict[str, list[float]] = {}
    for recording in every:
        for key, spec in references(recording).items():
            spans, share = ours(recording, spec)
            totals[key] = totals.get(key, Tally()).plus(counted(recording, spans))
            armed.setdefault(key, []).append(share)
    peers = {key: Peer(every, score) for key, score in PEERS.items()}
    for key, total in totals.items():
        beside = [peer.within(total.false)[1] for peer in peers.values()]
        cells = [f"{np.mean(armed[key]):.2f}", f"{total.open / total.normal:.3f}"]
        cells += [f"{total.noticed} of {total.events}", f"{total.false}"]
        cells += [f"{other.noticed} ({other.open / other.normal:.3f})" for other in beside]
        table.add(name, key, *cells)
    return [[name, key, *limit_cells(peer, totals[BESIDE].false)] for key, peer in peers.items()]


def limit_cells(peer: Peer, false: int) -> list[str]:
    """Return what a peer's limits come to: that of so many false alarms, and its highest score."""
    limit, found = peer.within(false)
    told, plain = (f"{tally.noticed}, {tally.false}" for tally in (found, peer.tally(1.0)))
    return [told, f"{limit:.2f}", f"{peer.normal_alarms(limit):.0f}", plain]


def main() -> int:
    """Print and write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", nargs="*", choices=tuple(SETS), default=list(SETS))
    args = parser.parse_args()
    heads = ["set", "reference", "armed", "open", "noticed", "false"]
    heads += [f"{peer}, noticed (open)" for peer in PEERS]
    table = Table("reference", "episodes", heads)
    limits = [row for name in args.sets for row in compare(name, table)]
    heads = ["set", "peer", "limit by labels: noticed, false", "limit / highest of the normal part"]
    heads += ["its alarms in a million normal rows", "limit at the highest: noticed, false"]
    table = Table("reference", "episodes_limits", heads)
    for row in limits:
        table.add(*row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
