"""Schemas of the Parquet files that a job writes."""

from __future__ import annotations

import pyarrow as pa

from kerneltrack.learners import AutoSpec, LearnerSpec
from kerneltrack.learners.common.guesses import GUESSES
from kerneltrack.monitor.periods.device import NUMBERS
from kerneltrack.monitor.reference import WRITTEN
from kerneltrack.trackers.common.spec import SubspaceSpec

TIME = pa.timestamp("ns", tz="UTC")


def features_schema(
    spec: SubspaceSpec,
    label: pa.DataType | None,
    has_time: bool,
    extras: tuple[str, ...] = (),
    budget: int = 0,
    reference: bool = False,
) -> pa.Schema:
    """Return the schema of the features files.

    Args:
        spec: The tracker's spec.
        label: Type of the label, None without one.
        has_time: Whether the input has a time column.
        extras: Extra features, "q" and "s".
        budget: Width of "s".
        reference: Whether rows are compared with a reference.
    """
    fields = _numbered(has_time)
    fields += [
        pa.field("source", pa.dictionary(pa.int32(), pa.string())),
        pa.field("row", pa.int64()),
        pa.field("loss", pa.float64()),
        pa.field("novelty", pa.float64()),
        *(pa.field(name, pa.float64()) for name in (WRITTEN if reference else ())),
        pa.field("informative", pa.bool_()),
        pa.field("evicted", pa.int64()),
        pa.field("initial", pa.bool_()),
    ]
    names = dict.fromkeys([spec.emit, *(name for name in ("q", "s") if name in extras)])
    for name in names:
        width = budget if name == "s" else spec.rank
        fields.append(pa.field(name, pa.list_(pa.float64(), width)))
    if label is not None:
        fields.append(pa.field("label", label))
    return pa.schema(fields)


def _numbered(has_time: bool) -> list[pa.Field]:
    fields = [pa.field("model_id", pa.string()), pa.field("index", pa.int64())]
    if has_time:
        fields.append(pa.field("time", TIME))
    return fields


MISMATCH_SCHEMA = pa.schema(
    [
        pa.field("model_id", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("start", TIME),
        pa.field("end", TIME),
        pa.field("index", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("n", pa.int64()),
        *(
            pa.field(name, pa.float64())
            for name in ("mismatch", "residual", "trace_bound", "fitting_bound", "future_bound")
        ),
        pa.field("complete", pa.bool_()),
    ]
)


def episodes_schema(has_time: bool, width: int, mutes: bool = False) -> pa.Schema:
    """Return the schema of the episodes of rows with so many channels.

    One line when an episode opens, one when it closes, or when the input ends: `index` and `time`
    are of the row after which it is written, `start` of the row since when, `detected` of the row
    that opened it, `last` of the last row that was surprising by itself. `deviations` are null
    where they are not known. With rules or feedback `muted` is why the episode does not count as
    it is in this line, null if it does; there are lines of episodes that stay open, too.
    """
    fields = _numbered(has_time)
    fields += [
        pa.field("episode", pa.int64()),
        pa.field("state", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("severity", pa.float64()),
        pa.field("p", pa.float64()),
        *([pa.field("muted", pa.string())] if mutes else []),
    ]
    for name in ("start", "detected", "last"):
        fields.append(pa.field(f"{name}_index", pa.int64()))
        if has_time:
            fields.append(pa.field(name, TIME))
    of_channels = pa.list_(pa.float64(), width)
    return pa.schema([*fields, ("shares", of_channels), ("deviations", of_channels)])


def periods_schema(width: int, bounded: bool = True) -> pa.Schema:
    """Return the schema of the periods of rows with so many channels.

    A line a device and period that has rows: from `start` to `end`, its `rows`, and of each channel
    level, movement and repeats against the device's own past, NaN where there is too little. Where
    the input does not end, a period may be said again, with a higher `version`: the last counts.
    """
    return pa.schema(
        [
            pa.field("model_id", pa.string()),
            pa.field("start", TIME),
            pa.field("end", TIME),
            pa.field("rows", pa.int64()),
            *(pa.field(name, pa.list_(pa.float64(), width)) for name in NUMBERS),
            *([] if bounded else [pa.field("version", pa.int64())]),
        ]
    )


DIFFERENCES_SCHEMA = pa.schema(
    [
        pa.field("model_id", pa.string()),
        pa.field("group", pa.string()),
        *(pa.field(name, TIME) for name in ("start", "noticed", "last")),
        pa.field("state", pa.string()),
        pa.field("channel", pa.string()),
        pa.field("number", pa.string()),
        pa.field("up", pa.bool_()),
        pa.field("score", pa.float64()),
        pa.field("changed", pa.int64()),
        pa.field("of", pa.int64()),
    ]
)
"""A line for each time that a device, or (`model_id` null) many together, differed: see
`kerneltrack.monitor.periods.Spell`."""


SILENT_SCHEMA = pa.schema(
    [
        pa.field("model_id", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("state", pa.string()),
        *(pa.field(name, TIME) for name in ("start", "end")),
        pa.field("allowed", pa.int64()),
    ]
)
"""A line for each time without a row of a device, from its last row before, `start`, to the next
one, `end` (null: none came), that is longer than `allowed`, ns: `kerneltrack.monitor.silences`."""


INCIDENTS_SCHEMA = pa.schema(
    [
        pa.field("model_id", pa.string()),
        pa.field("incident", pa.int64()),
        pa.field("episode", pa.int64()),
        pa.field("detected", TIME),
        pa.field("state", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("group", pa.string()),
        pa.field("devices", pa.int64()),
        pa.field("chance", pa.float64()),
    ]
)
"""A line for each episode of an incident, which has a number from 1 on, so many `devices`, their
`group` if they share one, and the `chance` of it without a common cause, at most: see
`kerneltrack.monitor.incidents`. `detected` is when the episode was noticed, `state` and `kind` are
those of its last line."""


LISTED_SCHEMA = pa.schema(
    [
        pa.field("model_id", pa.string()),
        pa.field("episodes", pa.int64()),
        pa.field("expected", pa.float64()),
        pa.field("e_value", pa.float64()),
        pa.field("listed", pa.bool_()),
    ]
)
"""A line for each device that was off: its `episodes`, how many are `expected` at most while it is
well, the `e_value`, their ratio, and whether it is on the list: see
`kerneltrack.monitor.false_share`."""


def devices_schema(has_time: bool, width: int, mutes: bool = False) -> pa.Schema:
    """Return the schema of what is known of each device, a line whenever that changes.

    `rows` is how many rows it has shown, `time` the newest one's, `since` that of the row since
    when it is in this `state`, `episodes` how many there were. The other columns are those of the
    episode that is open or has just ended (`episodes_schema`), null if there is none.
    """
    fields = [field for field in episodes_schema(has_time, width, mutes) if field.name != "index"]
    own = [
        pa.field("state", pa.string()),
        pa.field("rows", pa.int64()),
        *([pa.field("time", TIME)] if has_time else []),
        pa.field("since_index", pa.int64()),
        *([pa.field("since", TIME)] if has_time else []),
        pa.field("episodes", pa.int64()),
    ]
    named = {"model_id", *(field.name for field in own)}
    return pa.schema([fields[0], *own, *(field for field in fields if field.name not in named)])


def alerts_schema(has_time: bool) -> pa.Schema:
    """Return the schema of the drift alerts."""
    fields = _numbered(has_time)
    return pa.schema([*fields, pa.field("before", pa.float64()), pa.field("after", pa.float64())])


INTERVAL = ("lower", "upper")
"""Columns of the ends of an interval of predictions."""


def predictions_schema(spec: LearnerSpec, has_time: bool) -> pa.Schema:
    """Return the schema of the predictions."""
    fields = _numbered(has_time)
    if spec.classifies:
        fields += [
            pa.field("prediction", pa.string()),
            pa.field("score", pa.float64()),
            pa.field("margin", pa.float64()),
            *([pa.field("set", pa.list_(pa.string()))] if spec.intervals is not None else []),
            pa.field("label", pa.string()),
            pa.field("correct", pa.bool_()),
        ]
    else:
        names = ["prediction", *(INTERVAL if spec.intervals is not None else ()), "label", "error"]
        fields += [pa.field(name, pa.float64()) for name in names]
    return pa.schema(fields)


EXPERTS = pa.list_(
    pa.struct(
        [
            pa.field("rows", pa.int64()),
            pa.field("expert", pa.string()),
            pa.field("weight", pa.float64()),
        ]
    )
)
"""Mean weights of a mixture's experts in spans of rows, each by how many rows were learned from up
to its end."""


def guess_columns(spec: LearnerSpec) -> list[str]:
    """Return the metrics' columns of what simple guesses made of the same rows."""
    if spec.classifies:
        return [f"accuracy_{name}" for name in GUESSES]
    return [f"rmse_{name}".replace("commonest", "mean") for name in GUESSES]


def metrics_schema(spec: LearnerSpec) -> pa.Schema:
    """Return the schema of the learners' running metrics."""
    fields = [
        pa.field("model_id", pa.string()),
        pa.field("start", TIME),
        pa.field("end", TIME),
        pa.field("rows", pa.int64()),
        pa.field("scored", pa.int64()),
    ]
    if spec.classifies:
        cell = pa.struct(
            [
                pa.field("label", pa.string()),
                pa.field("prediction", pa.string()),
                pa.field("count", pa.int64()),
            ]
        )
        fields += [
            pa.field("correct", pa.int64()),
            pa.field("accuracy", pa.float64()),
            pa.field("running_accuracy", pa.float64()),
            pa.field("macro_f1", pa.float64()),
            pa.field("kappa", pa.float64()),
            pa.field("log_loss", pa.float64()),
            pa.field("brier", pa.float64()),
            pa.field("confusion", pa.list_(cell)),
        ]
    else:
        fields += [pa.field(name, pa.float64()) for name in ("rmse", "mae", "running_rmse")]
    fields += [pa.field(name, pa.float64()) for name in spec.interval_metrics]
    fields += [pa.field(name, pa.float64()) for name in guess_columns(spec)]
    if spec.learner == AutoSpec.learner:
        fields.append(pa.field("experts", EXPERTS))
    return pa.schema(fields)


def scores_schema(
    spec: SubspaceSpec,
    learner: LearnerSpec | None,
    label: pa.DataType | None,
    has_time: bool,
    in_order: bool = False,
    reference: bool = False,
) -> pa.Schema:
    """Return the schema of scored rows.

    Args:
        spec: The trackers' spec.
        learner: The learners' spec, if there are learners.
        label: Type of the label, None without one.
        has_time: Whether the input has a time column.
        in_order: Whether rows are taken in order, and so have an index.
        reference: Whether they are held against references.
    """
    fields = [pa.field("model_id", pa.string())]
    if in_order:
        fields.append(pa.field("index", pa.int64()))
    if has_time:
        fields.append(pa.field("time", TIME))
    fields += [
        pa.field("source", pa.dictionary(pa.int32(), pa.string())),
        pa.field("row", pa.int64()),
        pa.field("loss", pa.float64()),
        pa.field("novelty", pa.float64()),
        *(pa.field(name, pa.float64()) for name in (WRITTEN if reference else ())),
        pa.field(spec.emit, pa.list_(pa.float64(), spec.rank)),
    ]
    if learner is None:
        return pa.schema([*fields, *([] if label is None else [pa.field("label", label)])])
    numbered = {field.name for field in _numbered(has_time)}
    predictions = predictions_schema(learner, has_time)
    return pa.schema([*fields, *(field for field in predictions if field.name not in numbered)])
