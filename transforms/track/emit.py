"""What rows that went through their models gave, as the outputs of the step: each model its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from apache_beam import pvalue

from kerneltrack.arrays import IntArray
from kerneltrack.fleet.clock import NO_TIME
from kerneltrack.fleet.models import Models
from kerneltrack.fleet.results import Results
from kerneltrack.learners.common.inputs import own_inputs
from kerneltrack.monitor.reference import block
from kerneltrack.monitor.reference.paces import first_pace
from kerneltrack.trackers.common.scaling import Scaling
from transforms.chunks import Chunk
from transforms.failures import Failures
from transforms.metrics import count, count_lags, count_losses, count_unreferenced
from transforms.outputs import DEVICES, FAILURES, FEATURES, MISMATCH, SNAPSHOTS
from transforms.track.admission import FAILED
from transforms.track.devices import device_chunk
from transforms.track.features import feature_chunk, tell_alerts, tell_episodes
from transforms.track.refusals import Refusals
from transforms.track.slices import Ran
from transforms.track.windows import mismatch_chunk

Output: TypeAlias = tuple[str, Chunk] | pvalue.TaggedOutput[str, Any]


def emit(refusals: Refusals, ran: Ran) -> Iterator[Output]:
    """Return all that came of rows, counted; also how old rows are that do not wait for the end.

    Args:
        refusals: Says why a tracker refused rows.
        ran: The rows, and what came of them.
    """
    if len(ran.rows):
        yield from emit_refused(refusals, ran)
        features, edges = features_of(ran)
        if features is not None:
            if not refusals.order.waits_for_end and features.has("time"):
                count_lags(features.column("time"))
            batch, spans = features.batch, itertools.pairwise(edges.tolist())
            for key, span in zip(ran.models.keys, spans, strict=True):
                if span[0] < span[1]:
                    yield key, Chunk(batch, part=span)
    yield from emit_events(ran)


def emit_events(ran: Ran) -> Iterator[pvalue.TaggedOutput[str, Any]]:
    """Return what came of rows beside features and failures, counted."""
    models, found = ran.models, ran.found
    if found.without_mode:
        count("rows_without_mode", found.without_mode)
    if found.false_learned:
        count("episodes_learned", found.false_learned)
    if found.idle:
        count("rows_idle", found.idle)
    yield from _windows(models, found)
    for place, alerts in found.alerts.items():
        yield tell_alerts(models.keys[place], alerts)
    for place, listed in found.episodes.items():
        yield tell_episodes(models.keys[place], listed, bool(models.time[place] != NO_TIME))
    if models.work.devices:
        for place, devices in found.devices.items():
            if devices:
                chunk = device_chunk(devices, models.width)
                yield pvalue.TaggedOutput(DEVICES, (models.keys[place], chunk))
    for place, snapshots in found.snapshots.items():
        for data in snapshots:
            yield pvalue.TaggedOutput(SNAPSHOTS, (models.keys[place], data))


def failures(
    key: str, rows: Chunk, reasons: list[str], counted_as: str = FAILED
) -> pvalue.TaggedOutput[str, Failures]:
    """Return rows that are refused, counted."""
    count(counted_as, len(reasons))
    refused = Failures.of(key, rows.column("source"), rows.column("row"), reasons)
    return pvalue.TaggedOutput(FAILURES, refused)


def emit_refused(refusals: Refusals, ran: Ran) -> Iterator[pvalue.TaggedOutput[str, Failures]]:
    """Return the rows that trackers refused, counted."""
    bad = np.flatnonzero(~ran.found.features.valid)
    owners = np.searchsorted(ran.stops, bad, side="right")
    for owner in np.unique(owners).tolist():
        own = bad[owners == owner]
        reasons = refusals.by_tracker(ran.models.block.state(owner), ran.found.rows[own])
        yield failures(ran.models.keys[owner], ran.rows.take(own), reasons)


def features_of(ran: Ran) -> tuple[Chunk | None, IntArray]:
    """Return the features of the rows that trackers took, and (m + 1,) where each model's begin.

    They are counted; None if there are none.
    """
    models, found = ran.models, ran.found
    work, features = models.work, found.features
    good = np.flatnonzero(features.valid)
    edges = np.searchsorted(good, np.append(ran.starts, len(ran.rows)))
    if not len(good):
        return None, edges
    count("rows_tracked", len(good))
    count_losses(features.loss[good])
    own = None
    if work.own:
        owner = np.repeat(np.arange(len(models)), np.diff(edges))
        scale = Scaling(*(models.block.column(name)[owner] for name in ("shift", "scale")))
        scaled = None if features.x is None else features.x[good]
        own = own_inputs(work.spec, scale, found.rows[good], scaled)
    has_reference, scores = work.reference is not None, found.scores_at(good)
    return feature_chunk(ran.rows, features, good, has_reference, scores, own), edges


def tell_unreferenced(models: Models) -> None:
    """Count models whose rows were held against nothing, since their reference is not made."""
    spec = models.work.reference
    if spec is None or models.reference is None:
        return
    first = first_pace(spec, models.width, models.reference)
    ready = block.ready_of(*first) & models.referred
    for place in np.flatnonzero(~ready).tolist():
        count_unreferenced(models.keys[place])


def named_rows(output: Output) -> tuple[str, pa.RecordBatch]:
    """Return the name of an output of rows, and these."""
    if not isinstance(output, pvalue.TaggedOutput):
        return FEATURES, output[1].batch
    value = output.value if output.tag == FAILURES else output.value[1]
    return output.tag, value.batch


def _windows(models: Models, found: Results) -> Iterator[pvalue.TaggedOutput[str, Any]]:
    """Return the windows that were measured."""
    measure, lines = models.work.measure, found.measured
    if not lines or measure is None:
        return
    listed = [line for own in lines.values() for line in own]
    count("windows", len(listed))
    chunk, at = mismatch_chunk(listed, models.work.spec, measure.confidence), 0
    for place, own in lines.items():
        yield pvalue.TaggedOutput(MISMATCH, (models.keys[place], chunk.slice(at, at + len(own))))
        at += len(own)
