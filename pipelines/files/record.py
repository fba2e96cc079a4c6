"""The record of a run, `run.json`: what ran on what, what came out, and that no row is missing."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kerneltrack.errors import path_text
from kerneltrack.learners import LearnerSpec
from kerneltrack.learners.common.base import CARRIED
from kerneltrack.learners.common.board import losses_of_chances
from kerneltrack.paths import join
from kerneltrack.snapshots.files import write_whole
from kerneltrack.snapshots.index import count_models
from pipelines.calls import Calls
from pipelines.cli.command_line import INPUT_EXIT, ROWS_EXIT
from pipelines.files.local_times import local_times_text
from pipelines.job import JobError
from pipelines.report.data.files import count_rows, read_tables
from pipelines.report.data.mixture import WEIGHT, weights_in
from pipelines.run_folder import RUN
from transforms.metrics import NAMESPACE, UNREADABLE, UNREFERENCED
from transforms.outputs import (
    EPISODES,
    FAILURES,
    FEATURES,
    METRICS,
    PREDICTIONS,
    SNAPSHOTS,
    counters_of,
)
from transforms.partition.tasks import MOST_NAMES
from transforms.read.formats import FileInfo
from transforms.write.schemas import guess_columns

_SURROGATE = re.compile("[\ud800-\udfff]")


def no_good_row(path: str, none: str, failed: int, reasons: Mapping[str, int]) -> JobError:
    """Return why no row of an input could be used.

    Args:
        path: Its first file.
        none: What is said where no row failed either.
        failed: Rows that could not be used.
        reasons: How many of them for each kind of reason.
    """
    if not failed:
        return JobError(f"{path}: {none}", INPUT_EXIT)
    ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    most = "; ".join(f"{kind} ({count:,})" for kind, count in ranked[:3])
    return JobError(f"{path}: no good row, all {failed:,} failed: {most}", ROWS_EXIT)


def input_files(infos: Sequence[FileInfo]) -> list[dict[str, Any]]:
    """Return the files of an input, with their rows, if known, and the columns of their paths."""
    return [
        {
            "path": info.path,
            "rows": info.rows,
            **({"columns": dict(info.constants)} if info.constants else {}),
        }
        for info in infos
    ]


def counters(result: Any) -> dict[str, int]:
    """Return the totals of our counters in a pipeline's result."""
    found = result.metrics().query(beam.metrics.MetricsFilter().with_namespace(NAMESPACE))
    totals: dict[str, int] = {}
    for counter in found["counters"]:
        name = counter.key.metric.name
        totals[name] = totals.get(name, 0) + (counter.committed or counter.attempted or 0)
    return totals


def run_pipeline(pipeline: beam.Pipeline, *sets: str) -> tuple[dict[str, int], list[list[str]]]:
    """Run a pipeline to its end.

    Returns:
        The totals of our counters, and the models in the sets of these names, the first thousand.

    Raises:
        JobError: if it ends otherwise.
    """
    result = pipeline.run()
    state = result.wait_until_finish()
    if state != "DONE":
        raise JobError(f"the job ended in state {state}; see the runner's log")
    return counters(result), [_model_names(result, name) for name in sets]


def _model_names(result: Any, name: str) -> list[str]:
    found = result.metrics().query(beam.metrics.MetricsFilter().with_name(name))
    sets = [each.committed or each.attempted or () for each in found["string_sets"]]
    names = {name for each in sets for name in each}
    return sorted(names)[:MOST_NAMES]


def counts(
    output: str,
    counters: dict[str, int],
    parts: Sequence[str] = (),
    learner: LearnerSpec | None = None,
    late: bool = False,
) -> dict[str, int | float]:
    """Count rows in and out; every row must be somewhere.

    Args:
        output: The run's folder.
        counters: What the pipeline counted.
        parts: Folders that the job wrote.
        learner: The learner's spec, if there was one.
        late: Whether labels came later than the rows after theirs: the last label was not known.

    Raises:
        JobError: if a row is missing or came twice.
    """
    rows_out, rows_failed = count_rows(output, FEATURES), count_rows(output, FAILURES)
    labels_failed = counters.get("labels_failed", 0) + counters.get("labels_lost", 0)
    counts: dict[str, int | float] = {
        "rows_in": counters.get("rows_read", 0),
        "rows_out": rows_out,
        # Failures are rows, labels, and models without a row whose snapshot cannot be read.
        "rows_failed": rows_failed - labels_failed - counters.get(UNREADABLE, 0),
        "rows_late": counters.get("rows_late", 0),
        "models": count_models(join(output, SNAPSHOTS)),
    }
    for name in ("informative", "evicted", "dropped_at_once", "mended", "unseen"):
        counts[name] = counters.get(name, 0)
    if "directions" in counters:
        counts["directions"] = counters["directions"]
    for name in counters_of(parts):
        counts[name] = counters.get(name, 0)
    if EPISODES in parts:
        counts[UNREFERENCED] = counters.get(UNREFERENCED, 0)
    if "models_resumed" in counters:
        counts["models_resumed"] = counters["models_resumed"]
    if "labels_read" in counters:
        counts |= {"labels_in": counters["labels_read"], "labels_failed": labels_failed}
    if learner is not None:
        counts |= performance(output, PREDICTIONS, learner)
        guesses = baselines(output, learner)
        known = {name: value for name, value in guesses.items() if not (late and "_last" in name)}
        counts |= known | experts(counters)
    return counts | rows_apart(counts, counters, FEATURES)


def rows_apart(
    counts: Mapping[str, int | float], counters: Mapping[str, int], part: str
) -> dict[str, int]:
    """Return how many rows are in no output by themselves, as the counters say.

    Args:
        counts: `rows_in`, `rows_out` and `rows_failed`.
        counters: What the pipeline counted.
        part: Where the rows that came out are.

    Raises:
        JobError: if a row is missing or came twice.
    """
    apart = {name: counters[name] for name in NOT_BY_THEMSELVES if counters.get(name)}
    if counts["rows_in"] != counts["rows_out"] + counts["rows_failed"] + sum(apart.values()):
        others = [f"{many:,} {NOT_BY_THEMSELVES[name]}" for name, many in apart.items()]
        named = [f"{counts['rows_out']:,} in {part}", f"{counts['rows_failed']:,} in failures"]
        raise JobError(f"rows are missing: {counts['rows_in']:,} in, {', '.join(named + others)}")
    more = {name: counters[name] for name in (*NOTED, *DOUBTFUL) if counters.get(name)}
    return apart | more


NOT_BY_THEMSELVES = {
    "rows_duplicate": "left out as duplicates",
    "rows_merged": "merged into another row of their device and time",
    "rows_unnamed": "of metrics that are no channels",
}
"""Rows that are neither in the features nor in the failures, by the name of their counter."""

NOTED = {
    "rows_idle": "rows do not meet --only-while: they are tracked, and not judged",
    "episodes_learned": "of the false episodes have become normal with their rows",
}
"""What is known of rows that are in the features, and of episodes, by the name of its counter."""

DOUBTFUL = {
    "values_replaced": "values came again for the same device, time and channel: the last one is "
    "taken (is --model-id right?)",
    "rows_without_mode": "rows are of modes beyond those that a device's reference has room for: "
    "they have no p (--reference-max-modes)",
}
"""What a user may not have meant, by the name of its counter."""


def apart_text(counts: Mapping[str, Any]) -> str:
    """Return a line for each kind of rows that are not by themselves in any output."""
    named = {**NOT_BY_THEMSELVES, **NOTED}
    lines = [f"\n{counts[n]:,} {what}" for n, what in named.items() if counts.get(n)]
    lines += [f"\nwarning:  {counts[n]:,} {what}" for n, what in DOUBTFUL.items() if counts.get(n)]
    return "".join(lines)


def baselines(output: str, learner: LearnerSpec) -> dict[str, float]:
    """Return the accuracy, or error, of the simple guesses on the rows that were scored.

    Of the total line of each model; a guess that some model left out is left out.
    """
    columns = guess_columns(learner)
    sums, scored = np.zeros(len(columns)), 0
    for whole in read_tables(output, METRICS, ["start", "scored", *columns]):
        table = whole.filter(pc.and_(pc.is_null(whole["start"]), pc.greater(whole["scored"], 0)))
        many = table["scored"].to_numpy()
        for place, name in enumerate(columns):
            values = table[name].to_numpy(zero_copy_only=False).astype(np.float64)
            sums[place] += float((many * (values if learner.classifies else values**2)).sum())
        scored += int(many.sum())
    if not scored:
        return {}
    means = sums / scored if learner.classifies else np.sqrt(sums / scored)
    return {
        name: round(float(mean), 6) if learner.classifies else float(mean)
        for name, mean in zip(columns, means, strict=True)
        if not np.isnan(mean)
    }


def experts(counters: Mapping[str, int]) -> dict[str, float]:
    """Return the share of the weight that each expert had, the largest first, if there are any."""
    weights = {name: many for name, many in counters.items() if name.startswith(CARRIED) and many}
    total = sum(weights.values())
    largest = sorted(weights, key=lambda name: (-weights[name], name))
    return {
        WEIGHT + name.removeprefix(CARRIED): round(weights[name] / total, 4) for name in largest
    }


def performance(output: str, part: str, learner: LearnerSpec) -> dict[str, int | float]:
    """Return how many predictions met a label, and how good they were.

    Of classes the accuracy, and the log loss and Brier score of the scores, as `losses_of_chances`
    has them; of targets the root mean squared error. With intervals or sets the share of labels in
    them, and the classes in a set.
    """
    names = ["correct", "score"] if learner.classifies else ["error"]
    bounds = ["label", *(("set",) if learner.classifies else ("lower", "upper"))]
    bounds = [] if learner.intervals is None else bounds
    scored, total, losses, inside, classes = 0, 0.0, np.zeros(2), 0, 0
    for whole in read_tables(output, part, [*names, *bounds]):
        table = whole.filter(pc.is_valid(whole[names[0]]))
        found = table[names[0]].to_numpy().astype(np.float64)
        scored += len(found)
        total += float(found.sum() if learner.classifies else (found**2).sum())
        if bounds and learner.classifies:
            sets, rows = table["set"].combine_chunks(), table["label"].combine_chunks()
            owners, members = pc.list_parent_indices(sets), pc.list_flatten(sets)
            inside += pc.sum(pc.equal(members, rows.take(owners))).as_py() or 0
            classes += len(members)
        elif bounds:
            target, lower, upper = (table[name].to_numpy() for name in bounds)
            inside += int(((lower <= target) & (target <= upper)).sum())
        if learner.classifies:
            losses += losses_of_chances(table["score"].to_numpy(), found > 0).sum(axis=0)
    if not scored:
        return {"scored": 0}
    mean = total / scored
    if not learner.classifies:
        covered = {"coverage": round(inside / scored, 6)} if bounds else {}
        return {"scored": scored, "rmse": mean**0.5, **covered}
    log_loss, brier = (losses / scored).tolist()
    covered = {"coverage": inside / scored, "set_size": classes / scored} if bounds else {}
    return {
        "scored": scored,
        "correct": round(total),
        "accuracy": round(mean, 6),
        "log_loss": round(log_loss, 6),
        "brier": round(brier, 6),
        **{name: round(value, 6) for name, value in covered.items()},
    }


def write_record(output: str, record: dict[str, Any]) -> None:
    """Write `run.json`."""
    text = json.dumps(record, indent=1, ensure_ascii=False)
    # Bytes of paths that are not UTF-8; within JSON a backslash is written twice.
    text = _SURROGATE.sub(lambda found: json.dumps(path_text(found[0]))[1:-1], text)
    write_whole(join(output, RUN), text.encode())


def versions() -> dict[str, str]:
    """Return the versions that results may depend on."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "apache_beam": beam.__version__,
        "pyarrow": pa.__version__,
    }


_MOST_EXPERTS = 3
_GUESSES = {
    "accuracy_commonest": "commonest label",
    "accuracy_last": "last label",
    "accuracy_rows": "ridge on the rows",
    "rmse_mean": "mean",
    "rmse_last": "last value",
    "rmse_rows": "ridge on the rows",
}


def performance_text(counts: dict[str, Any]) -> str:
    """Return in a line how good the predictions were."""
    if not counts["scored"]:
        return "no prediction met a label"
    plural = "" if counts["scored"] == 1 else "s"
    text = f"{counts['scored']:,} prediction{plural} met a label: "
    if "accuracy" in counts:
        text += f"{counts['accuracy']:.1%} correct"
    else:
        text += f"root mean squared error {counts['rmse']:.4g}"
    form = ".1%" if "accuracy" in counts else ".4g"
    guesses = [
        f"{what} {format(counts[name], form)}" for name, what in _GUESSES.items() if name in counts
    ]
    text += f" ({', '.join(guesses)})" if guesses else ""
    if "log_loss" in counts:
        text += f"; log loss {counts['log_loss']:.3f}, Brier score {counts['brier']:.3f}"
    if "set_size" in counts:
        text += f"; {counts['coverage']:.1%} of the labels lie in their sets"
        text += f" of {counts['set_size']:.2f} classes on the average"
    elif "coverage" in counts:
        text += f"; {counts['coverage']:.1%} of the targets lie in their intervals"
    weights = list(weights_in(counts).items())[:_MOST_EXPERTS]
    named = [f"{expert} {share:.0%}" for expert, share in weights]
    return text + (f"\nmain sub-models: {'; '.join(named)}" if named else "")


def summary(record: dict[str, Any], more: Sequence[str], report: str) -> str:
    """Return in a few lines what came out of a run; `more`: what else is to be told of the rows."""
    counts, seconds = record["counts"], record["seconds"]["total"]
    models = f"{counts['models']:,} device{'' if counts['models'] == 1 else 's'}"
    text = (
        f"{counts['rows_in']:,} rows in: {counts['rows_out']:,} features of {models}, "
        f"{counts['rows_failed']:,} failed; {seconds:.1f} s, "
        f"{counts['rows_in'] / max(seconds, 1e-9):,.0f} rows/s"
    )
    text += local_times_text(record)
    text += apart_text(counts)
    if record["calls"] is not None:
        text += f"\ntracked in {Calls(**record['calls'])}"
    if counts["mended"]:
        text += f"\n{counts['mended']:,} diverging updates were replaced by safe ones"
    if "models_resumed" in counts:
        text += f"\n{counts['models_resumed']:,} of the devices continued from snapshots"
    if "labels_in" in counts:
        text += f"\n{counts['labels_in']:,} labels in, {counts['labels_failed']:,} failed"
    if "predicted" in counts:
        text += "\n" + performance_text(counts)
    return "\n".join([text, *more, f"report: {report}"])
