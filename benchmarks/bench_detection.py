"""Which rows are odd: the reference against detectors that are fitted to a normal part, in one run.

    python benchmarks/bench_detection.py [--sets skab tep asd smd] [--fleet 240] [--broken 4]

Every recording has a part that is normal (`train`): all are fitted to it, with one setting for all
sets, and score the rest; those called online learn on. ROC-AUC, AP and VUS-PR of the scores, means
over the recordings; onset: ROC-AUC of the first 30 rows of each event against normal rows. `~`:
smoothed by .1, as what lasts is looked for. `[lag]`: five rows side by side, fewer where they are
wide. `settled`: as it is known 20 rows later; `windows`: with a view of windows. Which events are
noticed is in `bench_episodes.py`.

Rates: episodes at two stated rates on stretches without faults: the train parts and people who
walk, 512 rows of which the reference is made from (of people more, too), and made rows
(independent, heavy-tailed, autoregressive); beside them two that know nothing, an alarm every 100
rows, and one wherever the step from row to row is among the largest of those 512 rows. Then which
channels the episodes of SKAB's valve are said to be of, beside how far each moved, and a made fleet
of pumps, of which a few are broken: the list by severity, kinds, channels, since when.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
from pysad.core.base_model import BaseModel
from pysad.models import LODA, xStream
from river.anomaly import HalfSpaceTrees
from scipy.signal import lfilter
from sklearn.cluster import MiniBatchKMeans
from sklearn.ensemble import IsolationForest
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.svm import OneClassSVM

from benchmarks.detection_sets import NOT_CHANNELS, SETS, Recording, events, recordings
from benchmarks.places import DATA
from benchmarks.record import Table
from kerneltrack.arrays import BoolArray, FloatArray
from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import Episode, ReferenceSpec
from kerneltrack.monitor.reference.state import SETTLED
from samples.fleet import pumps

Peer = Callable[[FloatArray, int], FloatArray]

RANKED = ["skab", "tep", "asd", "smd"]
"""The sets that rows are ranked on."""
ONSET, SINCE, SMOOTHING = 30, 20, 0.1
BUFFER, THRESHOLDS = 100, 250
"""Of VUS-PR: rows beside an event that count in part, at most; thresholds that are tried."""
PEER_LAGS, PEER_COLUMNS = 5, 128
"""Lags of the peers that have some, fewer where that would be more columns."""
MOST_FITTED = 5_000
"""Rows that the slow peers are fitted to, evenly spaced."""
RATES = (1e-3, 1e-4)
WALK, WALKING = "walking", "wlk"
MORE_TAKEN = (1024, 2048)


def standardised(rows: FloatArray, train: int) -> FloatArray:
    """Rows in deviations of the train part; a channel that is constant there counts as it is."""
    centre, deviation = rows[:train].mean(axis=0), rows[:train].std(axis=0)
    return np.asarray((rows - centre) / np.where(deviation > 0, deviation, 1.0))


def lagged(rows: FloatArray, lags: int) -> FloatArray:
    """Rows beside those before them."""
    padded = np.vstack([np.repeat(rows[:1], lags - 1, axis=0), rows])
    return np.hstack([padded[lags - 1 - lag : len(padded) - lag] for lag in range(lags)])


def smoothed(scores: FloatArray) -> FloatArray:
    """Scores smoothed over time."""
    return np.asarray(lfilter([SMOOTHING], [1.0, SMOOTHING - 1.0], scores))


def some(rows: FloatArray, train: int) -> FloatArray:
    """At most `MOST_FITTED` rows of the train part."""
    places = np.linspace(0, train - 1, min(train, MOST_FITTED)).astype(int)
    return np.asarray(rows[places])


def pca(rows: FloatArray, train: int) -> FloatArray:
    """Hotelling's T² within ten components and Q outside, each over its mean."""
    centred = rows - rows[:train].mean(axis=0)
    _, values, turns = np.linalg.svd(centred[:train], full_matrices=False)
    rank = min(10, int((values > 1e-8 * values[0]).sum()))
    inside = centred @ turns[:rank].T
    t2 = (inside**2 / (values[:rank] ** 2 / train)).sum(axis=1)
    q = ((centred - inside @ turns[:rank]) ** 2).sum(axis=1)
    return np.asarray(t2 / t2[:train].mean() + q / max(float(q[:train].mean()), 1e-12))


def forest(rows: FloatArray, train: int) -> FloatArray:
    """Isolation forest."""
    return np.asarray(-IsolationForest(random_state=0).fit(some(rows, train)).score_samples(rows))


def one_class(rows: FloatArray, train: int) -> FloatArray:
    """One-class SVM."""
    return np.asarray(-OneClassSVM(nu=0.1).fit(some(rows, train)).score_samples(rows))


def clusters(rows: FloatArray, train: int) -> FloatArray:
    """Distance from the nearest of ten centres."""
    made = MiniBatchKMeans(10, random_state=0, n_init=3).fit(rows[:train])
    return np.asarray(made.transform(rows).min(axis=1))


def largest(rows: FloatArray, train: int) -> FloatArray:
    """Largest channel, in deviations."""
    return np.asarray(np.abs(rows).max(axis=1))


def trees(rows: FloatArray, train: int) -> FloatArray:
    """River's half-space trees, online, on the channels in [0, 1]."""
    low, high = rows[:train].min(axis=0), rows[:train].max(axis=0)
    unit = np.clip((rows - low) / np.where(high > low, high - low, 1.0), 0, 1)
    model, out = HalfSpaceTrees(seed=0), []
    for row in unit:
        named = dict(enumerate(row.tolist()))
        out.append(model.score_one(named))  # type: ignore[no-untyped-call]
        model.learn_one(named)  # type: ignore[no-untyped-call]
    return np.array(out)


def streaming(make: Callable[[], BaseModel]) -> Peer:
    """One of PySAD's detectors, online: each row is scored before it is learned."""

    def score(rows: FloatArray, train: int) -> FloatArray:
        model = make()
        scores = np.zeros(len(rows))
        for place, row in enumerate(rows):
            scores[place] = model.fit_score_partial(row) if place else 0.0
            if not place:
                model.fit_partial(row)
        return np.nan_to_num(scores)

    return score


SLOW: dict[str, Peer] = {
    "half-space trees, online": trees,
    "LODA, online": streaming(lambda: LODA(random_state=0)),
    "xStream, online": streaming(lambda: xStream(depth=10)),
}
"""Peers that take a millisecond a row or so."""

PEERS: dict[str, Peer] = {
    "PCA T² + Q": pca,
    "isolation forest": forest,
    "one-class SVM": one_class,
    "k-means": clusters,
    "largest channel": largest,
}


def of_middle_rows(settled: FloatArray) -> FloatArray:
    """Give each row the score that settled 20 rows later; the last rows that of the last one."""
    late = SETTLED // 2
    return np.asarray(np.r_[settled[late:], np.repeat(settled[-1], late)])


class Found(NamedTuple):
    """What the reference made of a recording: scores of the rows, and its episodes."""

    score: FloatArray
    settled: FloatArray
    surprise: FloatArray
    episodes: list[Episode]


def ours(recording: Recording, spec: ReferenceSpec) -> Found:
    """Run the reference over a recording, made from its train part."""
    spec = dataclasses.replace(spec, rows=recording.train)
    state = reference.init(spec, recording.rows[: recording.train])
    _, scores, reported = reference.update(spec, state, recording.rows)
    surprise = -np.log(np.maximum(scores.p, 1e-300))
    ended = [episode for episode in reported if episode.closed]
    if reported and not reported[-1].closed:
        ended.append(reported[-1]._replace(row=len(recording.rows) - 1))
    return Found(scores.score, of_middle_rows(scores.settled), surprise, ended)


def volume_under_pr(odd: BoolArray, scores: FloatArray, most: int = BUFFER) -> float:
    """VUS-PR: the area under precision and recall, mean over buffers of 0 to so many rows.

    Rows near an event count as odd in part, and recall by how many events are met at all. J.
    Paparrizos et al., "Volume under the surface", PVLDB 15 (11), 2022; thresholds and weights as in
    the authors' code.
    """
    order = np.argsort(-scores, kind="stable")
    limits = scores[order][np.linspace(0, len(scores) - 1, THRESHOLDS).astype(int)]
    taken = np.searchsorted(-scores[order], -limits, side="right")
    known, areas = events(odd), []
    for buffer in range(most + 1):
        near, met = np.zeros(len(odd)), np.zeros(THRESHOLDS)
        spans: list[list[int]] = []
        for first, last in known:
            after = np.arange(last + 1, min(last + buffer // 2 + 1, len(odd)))
            before = np.arange(max(first - buffer // 2, 0), first)
            near[after] += np.sqrt(1 - (after - last) / max(buffer, 1))
            near[before] += np.sqrt(1 - (first - before) / max(buffer, 1))
            if spans and first - buffer // 2 <= spans[-1][1]:
                spans[-1][1] = last + buffer // 2
            else:
                spans.append([max(first - buffer // 2, 0), last + buffer // 2])
        for first, last in spans:
            met += scores[first : last + 1].max() >= limits
        near = np.where(odd, 0.0, np.minimum(near, 1.0))
        inside = np.r_[0, np.cumsum(odd[order])][taken]
        beside = np.r_[0.0, np.cumsum(near[order])][taken]
        found, positives = inside + beside, odd.sum() + beside / 2
        recall = np.r_[0.0, np.minimum(found / positives, 1) * met / len(spans)]
        areas.append(float((np.diff(recall) * found / taken).sum()))
    return float(np.mean(areas))


def judged(recording: Recording, scores: FloatArray) -> tuple[float, ...]:
    """ROC-AUC, AP, VUS-PR and onset AUC of scores on what is not the train part."""
    odd, rest = recording.odd[recording.train :], np.nan_to_num(scores[recording.train :])
    first = np.zeros(len(odd), bool)
    for start in np.flatnonzero(np.diff(np.r_[False, odd].astype(int)) == 1):
        first[start : start + ONSET] = True
    first &= odd
    kept = first | ~odd
    return (
        float(roc_auc_score(odd, rest)),
        float(average_precision_score(odd, rest)),
        volume_under_pr(odd, rest),
        float(roc_auc_score(first[kept], rest[kept])),
    )


def compare(name: str, spec: ReferenceSpec, quick: bool) -> None:
    """Print the table of one set."""
    scores: dict[str, list[tuple[float, ...]]] = {}
    seconds: dict[str, float] = {}

    def take(key: str, recording: Recording, peer: Peer, rows: FloatArray) -> None:
        begin = time.process_time()
        found = peer(rows, recording.train)
        seconds[key] = seconds.get(key, 0.0) + time.process_time() - begin
        for suffix, each in (("", found), (" ~", smoothed(found[recording.train :]))):
            padded = each if not suffix else np.r_[np.zeros(recording.train), each]
            scores.setdefault(key + suffix, []).append(judged(recording, padded))

    for recording in recordings(name):
        width = recording.rows.shape[1]
        stated = dataclasses.replace(spec, false_alarms=1.0, per=10_000)
        for own, window in (("reference", None), ("reference, windows", "auto")):
            begin = time.process_time()
            found = ours(recording, dataclasses.replace(stated, window=window))
            seconds[own] = seconds.get(own, 0.0) + time.process_time() - begin
            for key, values in ((own, found.score), (f"{own}, -ln p", found.surprise)):
                scores.setdefault(key, []).append(judged(recording, values))
                rest = smoothed(np.nan_to_num(values[recording.train :]))
                padded = np.r_[np.zeros(recording.train), rest]
                scores.setdefault(f"{key} ~", []).append(judged(recording, padded))
            scores.setdefault(f"{own}, settled", []).append(judged(recording, found.settled))
        plain = standardised(recording.rows, recording.train)
        lags = max(1, min(PEER_LAGS, PEER_COLUMNS // width))
        tables = [("", plain)] + ([(" [lag]", lagged(plain, lags))] if lags > 1 else [])
        for suffix, rows in tables:
            for key, peer in PEERS.items():
                take(key + suffix, recording, peer, rows)
        for key, peer in () if quick else SLOW.items():
            take(key, recording, peer, plain)
    table = Table("reference", name, ["", "ROC-AUC", "AP", "VUS-PR", "onset AUC"])
    for key, each in scores.items():
        table.add(key, *(f"{mean:.3f}" for mean in np.mean(each, axis=0)))
    print("\n" + ", ".join(f"{key} {spent:.1f} s" for key, spent in seconds.items()))


def named(spec: ReferenceSpec) -> None:
    """Print the table of which channels the episodes of SKAB's valve are said to be of."""
    names = pq.read_schema(DATA / "anomaly" / f"{SETS['skab']}.parquet").names
    channels = [column for column in names if column not in NOT_CHANNELS]
    first, shares, moved = np.zeros(len(channels), int), np.zeros(len(channels)), []
    for recording in recordings("skab"):
        odd = recording.odd
        for episode in ours(recording, spec).episodes:
            if odd[episode.start : episode.row + 1].any():
                first[int(episode.shares.argmax())] += 1
                shares += episode.shares
        moved.append(np.abs(standardised(recording.rows, recording.train)[odd].mean(axis=0)))
    columns = ["channel", "first in", "mean share", "deviations that it moved, median"]
    table = Table("reference", "valve_channels", columns)
    every = int(first.sum())
    found = zip(channels, first, shares / every, np.median(moved, axis=0), strict=True)
    for name, count, share, far in found:
        table.add(name, f"{count} of {every}", f"{share:.2f}", f"{far:.1f}")


def stretches(taken: int) -> Iterator[tuple[str, FloatArray, int]]:
    """Give rows without faults, and how many of them the reference is made of: `taken` or more."""
    for name, rows in _stretches():
        yield name, rows, taken
        if name == WALK:
            # Ten seconds do not show all of a person's walk.
            for more in MORE_TAKEN:
                yield f"{name}, {more:,} rows taken", rows, more


def _stretches() -> Iterator[tuple[str, FloatArray]]:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        yield "independent", rng.normal(size=(60_000, 12)) @ rng.normal(size=(12, 12))
        yield "heavy-tailed", rng.standard_t(4, size=(60_000, 6))
        noise = rng.normal(size=(60_000, 6))
        yield "autoregressive, .9", np.asarray(lfilter([1.0], [1.0, -0.9], noise, axis=0))
    for name in ("tep", "asd", "smd"):
        for number, recording in enumerate(recordings(name)):
            # TEP's recordings have the same fault-free rows.
            if name != "tep" or number == 0:
                yield f"train part of {name}", recording.rows[: recording.train]
    table = pq.read_table(DATA / "motionsense.parquet")
    people, doing = (np.array(table[name].to_pylist()) for name in ("model_id", "label"))
    channels = [name for name in table.column_names if name not in (*NOT_CHANNELS, "label")]
    rows = np.column_stack([table[name].to_numpy().astype(np.float64) for name in channels])
    for person in dict.fromkeys(people.tolist()):
        yield WALK, rows[(people == person) & (doing == WALKING)]


def rates(spec: ReferenceSpec) -> None:
    """Print the table of measured over stated false alarms."""
    counts: dict[str, FloatArray] = {}
    for name, rows, taken in stretches(spec.rows):
        spec = dataclasses.replace(spec, rows=taken)
        line = counts.setdefault(name, np.zeros(2 + 2 * len(RATES)))
        line[:2] += len(rows) - spec.rows, (len(rows) - spec.rows) // 100
        plain = standardised(rows, spec.rows)
        step = np.abs(np.diff(plain, axis=0)).max(axis=1)
        for place, rate in enumerate(RATES):
            stated = dataclasses.replace(spec, false_alarms=1.0, per=round(1 / rate))
            _, _, reported = reference.update(
                stated, reference.init(stated, rows[: spec.rows]), rows
            )
            line[2 + place] += sum(not episode.closed for episode in reported)
            # So many rows show no rarer step than their largest one.
            limit = np.sort(step[: spec.rows - 1])[-max(round(rate * spec.rows), 1)]
            line[2 + len(RATES) + place] += (step[spec.rows - 1 :] > limit).sum()
    stated_at = [f"{rate:g} a row" for rate in RATES]
    heads = [
        "rows",
        *stated_at,
        "every 100 rows",
        *(f"step, {predictions}" for predictions in stated_at),
    ]
    table = Table("reference", "still_rates", ["rows without faults", *heads])
    for name, (total, every, *found) in counts.items():
        ours, steps = found[: len(RATES)], found[len(RATES) :]
        cells = [
            f"{many:.0f} of {total * rate:.0f}" for many, rate in zip(ours, RATES, strict=True)
        ]
        cells += [f"{every:.0f}", *(f"{many:.0f}" for many in steps)]
        table.add(name, f"{total:,.0f}", *cells)


def pumps_found(count: int, many: int | None, spec: ReferenceSpec) -> None:
    """Print what the reference says of a fleet."""
    listed, broken = [], 0
    begin = time.process_time()
    for number, pump in enumerate(pumps(count, many=many)):
        broken += pump.kind is not None
        state = reference.init(spec, pump.rows[: spec.rows])
        state, _, reported = reference.update(spec, state, pump.rows)
        still = reference.open_episode(spec, state)
        last = {episode.number: episode for episode in [*reported, *([still] if still else [])]}
        if last:
            worst = max(last.values(), key=lambda episode: episode.severity)
            listed.append((worst.severity, number, pump, worst))
    spent = time.process_time() - begin
    listed.sort(key=lambda item: -item[0])
    print(f"\n{count} pumps, {broken} of them broken, {spent:.0f} s.")
    columns = ["place", "pump", "broken", "found", "channels", "found", "since", "found"]
    table = Table("reference", "pumps", columns)
    right = np.zeros(3, np.int64)
    for place, (_, number, pump, episode) in enumerate(listed[: broken + 10], 1):
        most = np.argsort(-episode.shares)[: max(len(pump.channels), 1)]
        if pump.kind is not None:
            named = sorted(most.tolist()) == list(pump.channels)
            right += episode.kind == pump.kind, named, abs(episode.start - pump.since) <= SINCE
        channels = (", ".join(map(str, each)) for each in (pump.channels, sorted(most.tolist())))
        what = pump.kind or "", episode.kind, *channels
        table.add(place, number, *what, pump.since or "", episode.start)
    false = sum(pump.kind is None for _, _, pump, _ in listed)
    missed = broken - (len(listed) - false)
    first = sum(pump.kind is not None for _, _, pump, _ in listed[:broken])
    predictions = [
        f"Broken without an episode: {missed}; whole with one: {false}.",
        f"Of the first {broken} in the list {first} are broken.",
        f"Right of those that are broken: kind {right[0]}, channels {right[1]},",
        f"since when within {SINCE} rows {right[2]}.",
    ]
    print("\n" + " ".join(predictions))


def main() -> int:
    """Print and write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", nargs="*", choices=tuple(SETS), default=RANKED)
    parser.add_argument("--fleet", type=int, default=240)
    parser.add_argument("--broken", type=int, help="of the fleet; one in sixty by default")
    parser.add_argument("--learning", choices=("first", "gated"), default="first")
    parser.add_argument("--quick", action="store_true", help="without the slow online detectors")
    args = parser.parse_args()
    spec = ReferenceSpec(learning=args.learning)
    for name in args.sets:
        compare(name, spec, args.quick)
    rates(spec)
    named(dataclasses.replace(spec, false_alarms=1.0, per=round(1 / RATES[-1])))
    pumps_found(args.fleet, args.broken, spec)
    return 0


if __name__ == "__main__":
    sys.exit(main())
