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


def curve(every: list[Recording], peer: Callable[[Recording], FloatArray]) -> list[Tally]:
    """Return what a peer's alarms come to, from the highest limit to the lowest."""
    scores = [peer(recording) for recording in every]
    scaled = [s / max(float(s[: r.train].max()), 1e-12) for s, r in zip(scores, every, strict=True)]
    found = []
    for limit in np.geomspace(1e4, 1e-2, FINEST).tolist():
        total = Tally()
        for recording, score in zip(every, scaled, strict=True):
            total = total.plus(counted(recording, alarms(score, limit)))
        found.append(total)
    return found


def best_within(found: list[Tally], false: int) -> Tally:
    """Return the last before the count of false ones is above this for the first time."""
    before = next((at for at, tally in enumerate(found) if tally.false > false), len(found))
    return found[max(before - 1, 0)]


def references(recording: Recording) -> dict[str, ReferenceSpec]:
    """Return the references that run over a recording."""
    auto = ReferenceSpec(learning="auto")
    first = ReferenceSpec(rows=max(recording.train, 256))
    memory = f"{max(recording.train, LEAST_MEMORY)} rows"
    return {
        "first": first,
        "first, windows": dataclasses.replace(first, window="auto"),
        "auto": auto,
        "auto, memory": dataclasses.replace(auto, memory=memory),
        "auto, memory, windows": dataclasses.replace(auto, memory=memory, window="auto"),
    }


def compare(name: str, table: Table) -> None:
    """Add the rows of one set."""
    every = list(recordings(name))
    totals: dict[str, Tally] = {}
    armed: dict[str, list[float]] = {}
    for recording in every:
        for key, spec in references(recording).items():
            spans, share = ours(recording, spec)
            totals[key] = totals.get(key, Tally()).plus(counted(recording, spans))
            armed.setdefault(key, []).append(share)
    peers = {key: curve(every, peer) for key, peer in PEERS.items()}
    for key, total in totals.items():
        beside = [best_within(found, total.false) for found in peers.values()]
        cells = [f"{np.mean(armed[key]):.2f}", f"{total.open / total.normal:.3f}"]
        cells += [f"{total.noticed} of {total.events}", f"{total.false}"]
        cells += [f"{other.noticed} ({other.open / other.normal:.3f})" for other in beside]
        table.add(name, key, *cells)


def main() -> int:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", nargs="*", choices=tuple(SETS), default=list(SETS))
    args = parser.parse_args()
    heads = ["set", "reference", "armed", "open", "noticed", "false"]
    heads += [f"{peer}, noticed (open)" for peer in PEERS]
    table = Table("reference", "episodes", heads)
    for name in args.sets:
        compare(name, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
