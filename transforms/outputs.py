"""The outputs of jobs, one table: what each is called, who asks for it, its columns and places.

To add one: a line here, its columns in `transforms.write.schemas`, and the step that makes it.
Folders, topics, flags, records and the site's page of columns read this table.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # Help names topics, and waits for no Arrow.
    import pyarrow as pa

    from kerneltrack.learners import LearnerSpec
    from kerneltrack.trackers.common.spec import SubspaceSpec

FEATURES = "features"
FAILURES = "failures"
SNAPSHOTS = "snapshots"
MISMATCH = "mismatch"
ALERTS = "alerts"
EPISODES = "episodes"
DEVICES = "devices"
PREDICTIONS = "predictions"
SCORED = "scored"
METRICS = "metrics"
SCORES = "scores"
NEIGHBOURS = "neighbours"
PERIODS = "periods"
DIFFERENCES = "differences"
SILENT = "silent"
INCIDENTS = "incidents"
LISTED = "listed"
LATE = "late"
LOST_LABELS = "lost_labels"
DEAD_LETTERS = "dead-letters"

TRACKER, LEARNER, SCORER, PERIOD, END = "tracker", "learner", "scorer", "period", "end"
"""What makes outputs: the trackers and learners of `TrackSubspace`, the steps of `ScoreRows` and
`SummarisePeriods` (in live jobs the trackers' step), and the file job at its end."""


class Asked(NamedTuple):
    """What a job's outputs and their columns depend on.

    Attributes:
        spec: The tracker's spec.
        has_time: Whether rows have times.
        width: Number of channels.
        label: Type of the label, None without one.
        extras: More features per row.
        measure: Whether the kernel mismatch of windows is measured.
        drift: Whether changes of the loss are detected.
        reference: Whether rows are compared with a reference.
        mutes: Whether rules or feedback say which episodes count.
        devices: Whether the state of each device is asked for.
        periods: Whether devices are compared by period.
        silent: Whether devices that send nothing are asked for.
        listed: Whether a list with a stated share of false devices is asked for.
        learner: The learner's spec, if there is one.
        late: Whether labels come by themselves.
        metrics_window: Whether the learner's metrics have windows.
        in_order: Whether rows that are scored are taken in order, and so have an index.
        bounded: Whether the input ends.
    """

    spec: SubspaceSpec
    has_time: bool
    width: int
    label: pa.DataType | None = None
    extras: tuple[str, ...] = ()
    measure: bool = False
    drift: bool = False
    reference: bool = False
    mutes: bool = False
    devices: bool = False
    periods: bool = False
    silent: bool = False
    listed: bool = False
    learner: LearnerSpec | None = None
    late: bool = False
    metrics_window: bool = False
    in_order: bool = False
    bounded: bool = True


@dataclass(frozen=True, kw_only=True)
class Output:
    """An output of a job.

    Attributes:
        name: Of the collection, of the folder and of the columns' page.
        about: What it holds.
        steps: What makes it.
        columns: Its schema in the job of a tracker; None: snapshots, and what has one of its own.
        setting: The one of `Asked` that asks for it; "": every job has it.
        when: What else must hold.
        counter: Counter of its lines in the record of a run.
        alarm: Whether the status of a live job shows this counter, also where it is 0.
        folder: Whether file jobs write it, as a folder of this name.
        topic: End of the name of its topic in live jobs; None: it has none.
    """

    name: str
    about: str
    steps: tuple[str, ...]
    columns: Callable[[Asked], pa.Schema] | None = None
    setting: str = ""
    when: Callable[[Asked], bool] | None = None
    counter: str = ""
    alarm: bool = False
    folder: bool = True
    topic: str | None = None

    def is_written(self, asked: Asked) -> bool:
        """Check whether a job that is asked this much has it."""
        placed = self.folder if asked.bounded else self.topic is not None
        wanted = not self.setting or bool(getattr(asked, self.setting))
        return placed and wanted and (self.when is None or self.when(asked))

    @property
    def only_live(self) -> bool:
        """Whether live jobs alone have it."""
        return not self.folder and self.topic is not None

    @property
    def has_named_topic(self) -> bool:
        """Whether its topic has a name of its own unless a flag says another."""
        return self.topic is not None and self.name not in (FEATURES, DEVICES)


def _schemas() -> Any:
    return importlib.import_module("transforms.write.schemas")


def _features(asked: Asked) -> pa.Schema:
    spec: Any = asked.spec
    budget = getattr(spec, "budget", getattr(spec, "max_rows", 0))
    asked_for = asked.label, asked.has_time, asked.extras, budget, asked.reference
    return _schemas().features_schema(spec, *asked_for)


def _predictions(asked: Asked) -> pa.Schema:
    return _schemas().predictions_schema(asked.learner, asked.has_time)


def _scores(asked: Asked) -> pa.Schema:
    asked_for = asked.learner, asked.label, asked.has_time, asked.in_order, asked.reference
    return _schemas().scores_schema(asked.spec, *asked_for)


OUTPUTS = (
    Output(
        name=FEATURES,
        about="the features of each row",
        steps=(TRACKER,),
        columns=_features,
        topic=FEATURES,
    ),
    Output(
        name=FAILURES,
        about="rows and labels that were refused, with the reason",
        steps=(TRACKER, SCORER),
        topic=DEAD_LETTERS,
    ),
    Output(
        name=SNAPSHOTS,
        about="the state of each model",
        steps=(TRACKER, LEARNER),
    ),
    Output(
        name=MISMATCH,
        about="the kernel mismatch of windows",
        steps=(TRACKER, SCORER),
        columns=lambda asked: _schemas().MISMATCH_SCHEMA,
        setting="measure",
        counter="windows",
        topic=MISMATCH,
    ),
    Output(
        name=ALERTS,
        about="rows at which the level of the loss changed",
        steps=(TRACKER,),
        columns=lambda asked: _schemas().alerts_schema(asked.has_time),
        setting="drift",
        counter="alerts",
        alarm=True,
        topic=ALERTS,
    ),
    Output(
        name=EPISODES,
        about="stretches of rows unlike the reference",
        steps=(TRACKER, SCORER),
        columns=lambda asked: _schemas().episodes_schema(asked.has_time, asked.width, asked.mutes),
        setting="reference",
        counter="episodes",
        alarm=True,
        topic=EPISODES,
    ),
    Output(
        name=DEVICES,
        about="the state of each device, whenever it changes",
        steps=(TRACKER,),
        columns=lambda asked: _schemas().devices_schema(asked.has_time, asked.width, asked.mutes),
        setting="devices",
        folder=False,
        topic=DEVICES,
    ),
    Output(
        name=PREDICTIONS,
        about="the prediction of each row's label",
        steps=(LEARNER,),
        columns=_predictions,
        setting="learner",
        counter="predicted",
        topic=PREDICTIONS,
    ),
    Output(
        name=SCORED,
        about="predictions again, once their delayed labels are known",
        steps=(LEARNER,),
        columns=_predictions,
        setting="learner",
        when=lambda asked: asked.late,
        folder=False,
        topic=SCORED,
    ),
    Output(
        name=METRICS,
        about="the learner's running metrics",
        steps=(LEARNER,),
        columns=lambda asked: _schemas().metrics_schema(asked.learner),
        setting="learner",
        when=lambda asked: asked.bounded or asked.metrics_window,
        topic=METRICS,
    ),
    Output(
        name=LATE,
        about="rows that came too late: failures",
        steps=(TRACKER,),
        folder=False,
    ),
    Output(
        name=LOST_LABELS,
        about="delayed labels that no row takes: failures",
        steps=(LEARNER,),
        setting="learner",
        folder=False,
    ),
    Output(
        name=SCORES,
        about="what each row is under a run's snapshots (`kerneltrack score`)",
        steps=(SCORER,),
        columns=_scores,
    ),
    Output(
        name=NEIGHBOURS,
        about="the models most like each",
        steps=(END,),
    ),
    Output(
        name=PERIODS,
        about="each day of a device, compared with its own past",
        steps=(PERIOD,),
        columns=lambda asked: _schemas().periods_schema(asked.width, asked.bounded),
        setting="periods",
        topic=PERIODS,
    ),
    Output(
        name=DIFFERENCES,
        about="which devices differ, by period, from their past and from the fleet",
        steps=(END,),
        columns=lambda asked: _schemas().DIFFERENCES_SCHEMA,
        setting="periods",
    ),
    Output(
        name=SILENT,
        about="devices without a row for longer than allowed",
        steps=(END,),
        columns=lambda asked: _schemas().SILENT_SCHEMA,
        setting="silent",
    ),
    Output(
        name=INCIDENTS,
        about="episodes of several devices that began together",
        steps=(END,),
        columns=lambda asked: _schemas().INCIDENTS_SCHEMA,
        setting="reference",
        when=lambda asked: asked.has_time,
    ),
    Output(
        name=LISTED,
        about="devices that were off, and which of them are on the list of a stated false share",
        steps=(END,),
        columns=lambda asked: _schemas().LISTED_SCHEMA,
        setting="listed",
    ),
)

FOLDERS = tuple(output.name for output in OUTPUTS if output.folder)
"""Folders of outputs, in any job's."""


def written(asked: Asked, *steps: str) -> list[Output]:
    """Return the outputs that a job has, of these steps; of all of them without."""
    return [
        output
        for output in OUTPUTS
        if output.is_written(asked) and (not steps or set(steps) & set(output.steps))
    ]


def schemas(asked: Asked, *steps: str) -> dict[str, pa.Schema]:
    """Return the schema of each output that a job has, of these steps, by its name.

    Snapshots, failures and neighbours are not among them.
    """
    return {
        output.name: output.columns(asked)
        for output in written(asked, *steps)
        if output.columns is not None
    }


def names_of(step: str, only_live: Collection[str] = ()) -> tuple[str, ...]:
    """Return the names of a step's collections.

    Args:
        step: Which one.
        only_live: Those that only live jobs have and that this one has; all others are always
            there, if only without elements.
    """
    return tuple(
        output.name
        for output in OUTPUTS
        if step in output.steps and (not output.only_live or output.name in only_live)
    )


def counters_of(names: Collection[str]) -> list[str]:
    """Return the counters of the lines of outputs, of those that have one."""
    return [output.counter for output in OUTPUTS if output.counter and output.name in names]
