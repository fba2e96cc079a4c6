"""Everything that the report of a run shows, read from the run's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt
import pyarrow as pa

from kerneltrack.arrays import IntArray
from pipelines.report.data.alerts import AlertLines, alerts_of
from pipelines.report.data.channels import Channels, channels_of
from pipelines.report.data.choice import (
    Choice,
    codes_of,
    models_opened,
    models_shown,
    models_with_curves,
)
from pipelines.report.data.columns import model_numbers
from pipelines.report.data.curves import Curve, Curves
from pipelines.report.data.differences import Differences, differences_of
from pipelines.report.data.episodes import Band, Episodes, bands_of, episodes_of
from pipelines.report.data.failures import FailureKind, failures_of
from pipelines.report.data.files import fields_of, parquet_files, read_batches
from pipelines.report.data.heat import Heat, HeatRows, models_on_map
from pipelines.report.data.incidents import Incident, incidents_of_run
from pipelines.report.data.learning import LearningResults, learning_of
from pipelines.report.data.listed import listed_of
from pipelines.report.data.mismatch import MismatchWindows, mismatch_of
from pipelines.report.data.models import ShownModels
from pipelines.report.data.neighbours import Neighbours, fleet_of
from pipelines.report.data.outside import Outside, OutsideRows
from pipelines.report.data.plane import Plane, planes_of
from pipelines.report.data.silent import Silent, silent_of
from pipelines.report.data.totals import Totals, add_up, columns_for_totals
from transforms.outputs import FEATURES
from transforms.read.look import Input

MOST_OFF = 30
"""Models that are off whose curves come before those of models that are unlike the others."""


@dataclass(frozen=True)
class Report:
    """Everything that the page shows; what a run has none of is None.

    `curves` are of the models drawn in full, `further` of the others that can be opened.
    """

    run: Mapping[str, Any]
    totals: Totals
    timed: bool
    labelled: bool
    curves: Mapping[str, Curve]
    further: Mapping[str, Curve]
    table: Mapping[str, npt.NDArray[Any]]
    choice: Choice
    mismatch: MismatchWindows | None
    learning: LearningResults | None
    alerts: AlertLines | None
    episodes: Episodes | None
    incidents: Sequence[Incident]
    listed: frozenset[str] | None
    differences: Differences | None
    silent: Silent | None
    bands: Mapping[str, Sequence[Band]]
    channels: Channels | None
    planes: Mapping[str, Plane]
    heat: Heat | None
    outside: Outside | None
    fleet: Neighbours | None
    failures: Sequence[FailureKind]


def report_of(
    output: str,
    run: Mapping[str, Any],
    inputs: Input | None = None,
    asked: Sequence[str] = (),
) -> Report:
    """Read what a run left in its folder, and the rows around episodes from where it read them.

    The features are read twice, a batch at a time and without z: once for the totals, once for
    the curves of at most 50 models in full and 2,000 coarse ones, and the table's at most 1,000.
    So are the windows and the predictions. Once more they are read with z, for a sample of the
    models drawn in full.

    Args:
        output: The run's folder.
        run: Its `run.json`.
        inputs: The files that the run read, to show the channels around episodes; None: they are
            not shown.
        asked: Models that are drawn in full before all others.

    Cost: O(rows) time; memory O(models + labels + confusions that occur) and at most about 90 MB
    for the curves.
    """
    paths = parquet_files(output, FEATURES)
    fields = fields_of(paths)
    names = fields.names
    totals = add_up(read_batches(paths, columns_for_totals(names)))
    axis = totals.times.axis()
    episodes, fleet = episodes_of(output, run), fleet_of(output, run)
    odd = list(dict.fromkeys([*asked, *_odd_ones(episodes, fleet)]))
    drawn = models_with_curves(totals, odd)
    shown = models_shown(totals, drawn)
    on_map = models_on_map(totals, odd) if episodes is not None and "p" in names else []
    heat = HeatRows(totals, on_map, len(set(odd) & set(on_map)), axis) if on_map else None
    outside = OutsideRows(axis)
    opened = models_opened(totals, drawn, [*odd, *on_map])
    passed = (
        Curves(totals, drawn, names),
        Curves(totals, opened, names, coarse=True),
        ShownModels(totals, shown),
    )
    _second_pass(paths, names, totals, [*passed, outside, *([heat] if heat is not None else [])])
    curves, further, table = passed[0].curves(), passed[1].curves(), passed[2].table()
    choice = Choice(totals.models, drawn, shown, [curves[name].start for name in drawn], axis)
    bands = bands_of(output, {*drawn, *opened, *on_map})
    ends = totals.length[codes_of(totals.models, drawn)].tolist()
    lengths = dict(zip(drawn, ends, strict=True))
    channels = None
    if inputs is not None and episodes is not None:
        channels = channels_of(paths, "time" in names, inputs, lengths, bands)
    return Report(
        run=run,
        totals=totals,
        timed="time" in names,
        labelled="label" in names,
        curves=curves,
        further=further,
        table=table,
        choice=choice,
        mismatch=mismatch_of(output, choice),
        learning=learning_of(output, choice, late="labels_in" in run.get("counts", {})),
        alerts=alerts_of(output, choice),
        episodes=episodes,
        incidents=incidents_of_run(output, run),
        listed=listed_of(output, run),
        differences=differences_of(output, run),
        silent=silent_of(output, run),
        bands=bands,
        channels=channels,
        planes=planes_of(paths, fields, totals, lengths, bands),
        heat=None if heat is None else heat.heat(),
        outside=outside.outside(list(totals.models)),
        fleet=fleet,
        failures=failures_of(output),
    )


def _odd_ones(episodes: Episodes | None, fleet: Neighbours | None) -> list[str]:
    """Return the models whose curves are looked for first, in their order."""
    off = [] if episodes is None else [found.model for found in episodes.worst]
    unlike = [] if fleet is None else [found.model for found in fleet.unlike]
    return list(dict.fromkeys([*off[:MOST_OFF], *unlike, *off]))


class _Fills(Protocol):
    """What is filled by the second pass over the features."""

    def add(self, batch: pa.RecordBatch, model: IntArray, /) -> None:
        """Add a batch of features; `model` has the number of each row's model."""


def _second_pass(
    paths: list[str], names: list[str], totals: Totals, filled: Sequence[_Fills]
) -> None:
    wanted = [*columns_for_totals(names), *({"novelty", "p"} & set(names))]
    for batch in read_batches(paths, wanted):
        model = model_numbers(batch, totals.models)
        for each in filled:
            each.add(batch, model)
