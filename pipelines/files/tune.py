"""`kerneltrack tune`: settings tried on a sample, by the rules that a job learns by.

    kerneltrack tune SAMPLE... --label COLUMN --output DIR [--seconds 60] [flags]

Reads the first rows of whatever the file job reads, tries trackers and learners on them
(`kerneltrack.tuning`) and writes into DIR `spec.yaml`, which `--spec` of the jobs takes,
`trials.csv` and `trials.html`, a picture of score against cost.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import io
import itertools
import json
import math
import sys
from collections.abc import Sequence
from typing import Any

import yaml

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.learners.common.spec import CLASSIFICATION, REGRESSION
from kerneltrack.paths import exists, join
from kerneltrack.registry import parse_learner_spec
from kerneltrack.settings import Range, check_int, check_number
from kerneltrack.snapshots.files import write_whole
from kerneltrack.specs import Spec
from kerneltrack.tuning import Trial, candidates, chosen, tune
from pipelines.cli import input_options
from pipelines.cli.command_line import ROWS_EXIT
from pipelines.files.first_look import look_at_features, refuse_parts
from pipelines.files.record import no_good_row
from pipelines.job import JobError, say
from pipelines.output_lock import locked_folder
from pipelines.report.page.page import templates
from transforms.read.stretches import FirstGoodRows, first_rows_of

MOST_SAMPLE = 1_000_000
SPEC, TRIALS, PICTURE = "spec.yaml", "trials.csv", "trials.html"
_FILES = (SPEC, TRIALS, PICTURE)


def run(args: argparse.Namespace) -> int:
    """Try settings, print a table of them and write the chosen ones.

    Args:
        args: The parsed flags.

    Returns:
        0.

    Raises:
        ConfigError: for a bad flag or column.
        DataError: if the input cannot be read, or results are there.
        JobError: if it has no good row with a label.
    """
    whole = "settings are tried on whole rows"
    refuse_parts(args, whole, whole)
    check_int("--sample", args.sample, 1, MOST_SAMPLE)
    check_number("--seconds", args.seconds, Range(1, 86_400))
    looked = input_options.look_at_input(args)
    if looked.columns.label is None:
        raise ConfigError("--label", None, "a column: settings are judged by it")
    columns = look_at_features(looked, args.input[0])
    task = args.task or _task_of(columns.label_type)
    spec = parse_learner_spec({"task": task})
    with locked_folder(args.output, "--output", args.typed):
        there = [name for name in _FILES if exists(join(args.output, name))]
        if there and not args.overwrite:
            path = join(args.output, there[0])
            raise DataError(path, "is there already: --overwrite replaces it")
        found = first_rows_of(looked.infos, columns, args.sample, spec)
        if not found.models:
            path, none = looked.infos[0].path, "holds no row to try settings on"
            raise no_good_row(path, none, found.failed, found.reasons)
        trials = tune(
            candidates(task, columns.width), list(found.models.values()), float(args.seconds)
        )
        if not any(trial.scored for trial in trials):
            raise JobError(f"no row of the {found.read:,} has a label", ROWS_EXIT)
        best = chosen(trials)
        for name, text in _texts(args, found, trials, best).items():
            write_whole(join(args.output, name), text.encode("utf-8"))
    doubt = f", {found.failed:,} failed" if found.failed else ""
    say(f"{found.read:,} rows of {len(found.models):,} devices tried{doubt}")
    sys.stdout.write(table(trials, best) + "\n")
    say(f"chosen: {best.candidate.name}\n{join(args.output, SPEC)}")
    return 0


def _task_of(kind: Any) -> str:
    """Return the task of a label of this type: texts and whole numbers are classes."""
    import pyarrow as pa  # noqa: PLC0415

    return REGRESSION if pa.types.is_floating(kind) else CLASSIFICATION


def table(trials: Sequence[Trial], best: Trial) -> str:
    """Return the trials as lines of text, those on the same rows together, and a legend."""
    classifies = best.candidate.learner.classifies
    unit = "accuracy" if classifies else "RMSE"
    lines = [f"  {'settings':50s}{unit:>10s}{'±':>8s}{'µs a row':>10s}{'bytes':>10s}"]
    for rows, group in itertools.groupby(trials, key=lambda trial: trial.rows):
        lines.append(f"on {'the first ' if rows < trials[0].rows else ''}{rows:,} rows:")
        for trial in group:
            star = "*" if trial is best else " "
            lines.append(
                f"{star} {trial.candidate.name:50s}{abs(trial.score):10.4f}{trial.error:8.4f}"
                f"{trial.micros:10.1f}{trial.state_bytes:10,}"
            )
    return "\n".join([*lines, *_legend(classifies)])


def _legend(classifies: bool) -> list[str]:
    """Return what the columns of the table mean."""
    score = (
        "accuracy: share of labels that were predicted right, each before it was learned"
        if classifies
        else "RMSE: root mean squared error of targets, predicted before they were learned"
    )
    return [
        f"{score}; ±: its standard error",
        "µs a row: processor time; bytes: state of a device; *: chosen, among those on most rows",
    ]


def _texts(
    args: argparse.Namespace, found: FirstGoodRows, trials: Sequence[Trial], best: Trial
) -> dict[str, str]:
    """Return the files to write."""
    return {
        SPEC: spec_text(best, found),
        TRIALS: _csv_of(trials, best),
        PICTURE: templates()
        .get_template("tune.html")
        .render(**picture(trials, best), rows=found.read, models=len(found.models)),
    }


def spec_text(best: Trial, found: FirstGoodRows) -> str:
    """Return the chosen settings as YAML that `--spec` takes, what differs from the defaults."""
    candidate = best.candidate
    unit = "accuracy" if candidate.learner.classifies else "RMSE"
    values = _differing(candidate.tracker)
    values["learner"] = {
        **_differing(candidate.learner),
        # A job decides of these by itself where nothing is said.
        "inputs": candidate.learner.input_kind,
    }
    head = (
        f"# {candidate.name}: {unit} {abs(best.score):.4f} on {best.scored:,} rows of "
        f"{len(found.models):,} models,\n# each predicted before it was learned from.\n"
    )
    return head + yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def _differing(spec: Spec) -> dict[str, Any]:
    """Return a spec's kind, and its fields that are not as the kind has them by default."""
    fields = dataclasses.fields(spec)
    needed = {field.name for field in fields if field.default is dataclasses.MISSING}
    default = {field.name: field.default for field in fields}
    given = {
        name: value
        for name, value in spec.to_dict().items()
        if name in needed or (name in default and value != default[name])
    }
    return {spec.role: spec.kind, **given}


def _csv_of(trials: Sequence[Trial], best: Trial) -> str:
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    numbers = ("rows", "scored", "score", "standard_error", "micros_a_row", "state_bytes")
    out.writerow(("settings", *numbers, "chosen", "tracker", "learner"))
    for trial in trials:
        measured = (f"{trial.score:.6g}", f"{trial.error:.3g}", f"{trial.micros:.4g}")
        specs = (trial.candidate.tracker, trial.candidate.learner)
        out.writerow(
            (
                trial.candidate.name,
                *(trial.rows, trial.scored, *measured, trial.state_bytes, trial is best),
                *(json.dumps(_differing(spec)) for spec in specs),
            )
        )
    return text.getvalue()


WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 420, 70, 20, 50
"""Of the picture, in its own units."""


def picture(trials: Sequence[Trial], best: Trial) -> dict[str, Any]:
    """Return what the page draws: score against µs a row, on a logarithmic scale.

    Only trials of the longest round are drawn: others had fewer rows and stand in the table.
    """
    drawn = [trial for trial in trials if trial.rows == trials[0].rows]
    costs = [math.log10(max(trial.micros, 0.1)) for trial in drawn]
    scores = [trial.score for trial in drawn]
    low, high = min(costs) - 0.1, max(costs) + 0.1
    pad = max(0.1 * (max(scores) - min(scores)), 1e-3)
    worst, top = min(scores) - pad, max(scores) + pad

    def across(cost: float) -> float:
        return round(LEFT + (cost - low) / (high - low) * (WIDTH - LEFT - 20), 1)

    def down(score: float) -> float:
        return round(TOP + (top - score) / (top - worst) * (HEIGHT - TOP - BOTTOM), 1)

    ticks = [n * 10.0**power for power in range(-1, 7) for n in (1, 1.5, 2, 3, 5, 7)]
    return {
        "unit": "accuracy" if best.candidate.learner.classifies else "root mean squared error",
        "size": (WIDTH, HEIGHT, LEFT, HEIGHT - BOTTOM),
        "points": [
            {
                "x": across(cost),
                "y": down(trial.score),
                "bar": (down(trial.score + trial.error), down(trial.score - trial.error)),
                "name": trial.candidate.name,
                "chosen": trial is best,
            }
            for trial, cost in zip(drawn, costs, strict=True)
        ],
        "costs": [
            (across(math.log10(tick)), f"{tick:g}")
            for tick in ticks
            if low <= math.log10(tick) <= high
        ],
        "scores": [
            (down(score), f"{abs(score):.4f}")
            for score in (worst + (top - worst) * part / 4 for part in range(5))
        ],
        "trials": [
            {
                "name": trial.candidate.name,
                "chosen": trial is best,
                "score": f"{abs(trial.score):.4f}",
                "error": f"{trial.error:.4f}",
                "rows": f"{trial.rows:,}",
                "micros": f"{trial.micros:.1f}",
                "state_bytes": f"{trial.state_bytes:,}",
            }
            for trial in trials
        ],
    }
