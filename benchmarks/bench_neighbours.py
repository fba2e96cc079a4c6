"""Which devices are unlike the others: made fleets in which seven are, from their first row on.

    python benchmarks/bench_neighbours.py [--devices 120] [--seeds 3] [--scale 2000]

A fleet shares how its channels go together, up to ten per cent; each device has its own level and
gain. Seven are unlike: other ties of all channels, the sign of one channel, dynamics three times as
fast, one channel squared, three times the noise, one channel's level, one channel's gain (four
times). For each tracker: the place of each in the list and its score (above 1 it is named), whole
devices that are named, with the references' ties and by subspace and level alone. Then what it
costs to compare so many (`--scale`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

import numpy as np
from scipy.signal import lfilter

from benchmarks.record import Table
from kerneltrack import CovarianceSpec, OANASpec, OKFEBSpec, SubspaceSpec, run_all
from kerneltrack.arrays import FloatArray
from kerneltrack.monitor import reference
from kerneltrack.monitor.most_compared import MOST_COMPARED
from kerneltrack.monitor.neighbours import Fingerprint, compare, fingerprint
from kerneltrack.monitor.reference import ReferenceSpec

ODD = ("ties", "sign", "fast", "square", "noise", "level", "gain")
SPECS: tuple[SubspaceSpec, ...] = (OKFEBSpec(), CovarianceSpec(halflife=20.0), OANASpec())
ROWS, WIDTH = 800, 6
ALIKE = 0.1
"""By how much the ties of whole devices differ."""


def fleet(count: int, seed: int) -> Iterator[tuple[FloatArray, str | None]]:
    """Give the rows of each device, (800, 6), and how it is unlike the others."""
    rng = np.random.default_rng(seed)
    ties, level = rng.normal(size=(3, WIDTH)), 5 * rng.normal(size=WIDTH)
    spread = np.sqrt((ties**2).sum(axis=0) + 0.09)
    odd = dict(zip(rng.choice(count, len(ODD), replace=False).tolist(), ODD, strict=True))
    for number in range(count):
        kind = odd.get(number)
        speed, memory = (3.0, 0.5) if kind == "fast" else (1.0, 0.9)
        at, phase = np.arange(ROWS), rng.uniform(0, 6, 2)
        noise = rng.normal(size=ROWS) * np.sqrt(1 - memory**2)
        latent = np.stack(
            [
                1.4 * np.sin(speed * at / 23 + phase[0]),
                1.4 * np.cos(speed * at / 7 + phase[1]),
                lfilter([1.0], [1.0, -memory], noise),
            ],
            axis=1,
        )
        own = ties * (1 + ALIKE * rng.normal(size=ties.shape))
        rows = latent @ (rng.normal(size=ties.shape) if kind == "ties" else own)
        if kind == "sign":
            rows[:, 2] *= -1
        elif kind == "square":
            size = rows[:, 1].std()
            rows[:, 1] = (rows[:, 1] ** 2 / size - size) / 1.4
        rows += (0.9 if kind == "noise" else 0.3) * rng.normal(size=rows.shape)
        rows *= np.exp(0.2 * rng.normal(size=WIDTH))
        if kind == "gain":
            rows[:, 3] *= 4
        rows += level + spread * rng.normal(size=WIDTH)
        if kind == "level":
            rows[:, 4] += 11 * spread[4]
        yield rows, kind


def fingerprints(
    spec: SubspaceSpec, count: int, seed: int
) -> tuple[dict[str, Fingerprint], dict[str, str]]:
    """Give what is compared of each device, and which are unlike."""
    reported, found, odd = ReferenceSpec(), {}, {}
    for number, (rows, kind) in enumerate(fleet(count, seed)):
        name = f"device-{number}"
        state, _ = run_all(spec, rows)
        held = reference.update(reported, reference.init(reported, rows[:512]), rows)[0]
        found[name] = fingerprint(spec, state, (reported, held))
        if kind is not None:
            odd[name] = kind
    return found, odd


def found_in(spec: SubspaceSpec, made: dict[str, Fingerprint], odd: dict[str, str]) -> list[str]:
    """Return the cells of a fleet: place and score of each that is unlike, whole ones named."""
    predictions = compare(spec, list(made), made.__getitem__).models
    places = {model.model: place for place, model in enumerate(predictions, 1)}
    scores = {model.model: model.apart for model in predictions}
    by_kind = {kind: name for name, kind in odd.items()}
    cells = [f"{places[by_kind[kind]]} ({scores[by_kind[kind]]:.1f})" for kind in ODD]
    return [*cells, str(sum(model.unlike and model.model not in odd for model in predictions))]


def main() -> int:
    """Print and write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--devices", type=int, default=120)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--scale", type=int, default=MOST_COMPARED)
    args = parser.parse_args()
    print(f"{args.devices} devices, place (score) of each of the seven.")
    table = Table("reference", "neighbours", ["tracker, fleet", *ODD, "whole, named"])
    some: dict[str, Fingerprint] = {}
    for spec in SPECS:
        for seed in range(args.seeds):
            made, odd = fingerprints(spec, args.devices, seed)
            bare = {name: one._replace(ties=None) for name, one in made.items()}
            for what, fleet_ in (("", made), (", no reference", bare)):
                table.add(f"{spec.tracker}, {seed}{what}", *found_in(spec, fleet_, odd))
            some = some or made
    names = [f"{place}" for place in range(args.scale)]
    all_ = dict(zip(names, list(some.values()) * (args.scale // len(some) + 1), strict=False))
    begin = time.process_time()
    compare(SPECS[0], names, all_.__getitem__)
    print(f"\n{args.scale:,} models compared in {time.process_time() - begin:.1f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
