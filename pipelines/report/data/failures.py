"""The rows that failed, by the kind of their reason, with examples."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pipelines.report.data.files import parquet_files, read_batches
from pipelines.report.text import counted
from transforms.outputs import FAILURES
from transforms.read.kinds import codes_of, encode
from transforms.reasons import kinds_of

FAILURE_COLUMNS = ("model_id", "source", "row", "reason")
"""The columns of `failures/*.parquet` that are read."""

_EXAMPLES = 3
_MOST_WITH_EXAMPLES = 1_000
_PRINTED = 3
_MOST_REASONS = 100


@dataclass(frozen=True)
class Failure:
    """A row that did not become features; `model` is None where it is not known.

    Without a row it is a model of which the job cannot read a snapshot.
    """

    model: str | None
    source: str
    row: int | None
    reason: str

    def where(self) -> str:
        """Return file, row and model."""
        if self.row is None:
            return f"model {self.model}"
        model = "" if self.model is None else f" ({self.model})"
        return f"{self.source}, row {self.row:,}{model}"


@dataclass
class FailureKind:
    """Rows that failed for one kind of reason.

    Attributes:
        kind: The reason without the row's value.
        rows: How many.
        examples: Three of them at most.
    """

    kind: str
    rows: int = 0
    examples: list[Failure] = field(default_factory=list)


def failures_of(output: str) -> list[FailureKind]:
    """Return a run's failures by kind, the most frequent first."""
    return failure_kinds(read_batches(parquet_files(output, FAILURES), FAILURE_COLUMNS))


def failure_kinds(batches: Iterable[pa.RecordBatch]) -> list[FailureKind]:
    """Count failures by kind and keep up to three of each, the most frequent kind first.

    Args:
        batches: Failed rows with the columns `FAILURE_COLUMNS`.

    Cost: memory O(kinds), examples of the first 1,000 kinds met.
    """
    found: dict[str, FailureKind] = {}
    for batch in batches:
        encoded = encode(batch.column("reason"))
        kinds = kinds_of(encoded.dictionary).dictionary_encode()
        codes = codes_of(kinds)[codes_of(encoded)]
        counts = np.bincount(codes, minlength=len(kinds.dictionary))
        for code, kind in enumerate(kinds.dictionary.to_pylist()):
            entry = found.setdefault(kind, FailureKind(kind))
            entry.rows += int(counts[code])
            wanted = _EXAMPLES - len(entry.examples)
            if wanted and len(found) <= _MOST_WITH_EXAMPLES:
                rows = np.flatnonzero(codes == code)[:wanted]
                entry.examples += [
                    Failure(row["model_id"], str(row["source"]), row["row"], row["reason"])
                    for row in batch.take(pa.array(rows)).to_pylist()
                ]
    ranked = [entry for entry in found.values() if entry.rows]
    return sorted(ranked, key=lambda entry: (-entry.rows, entry.kind))


def failure_reasons(kinds: Sequence[FailureKind]) -> dict[str, int]:
    """Return how many rows failed by reason, the most frequent first, at most 100 reasons."""
    return {entry.kind: entry.rows for entry in kinds[:_MOST_REASONS]}


def failure_lines(kinds: Sequence[FailureKind]) -> list[str]:
    """Return the three most frequent reasons, each as a line with an example below it."""
    lines = []
    for entry in kinds[:_PRINTED]:
        example = entry.examples[0]
        lines.append(f"failed:   {counted(entry.rows, 'row')}: {entry.kind}{_hint(entry)}")
        lines.append(f"          such as {example.where()}{_value(example, entry.kind)}")
    if len(kinds) > _PRINTED:
        rest = sum(entry.rows for entry in kinds[_PRINTED:])
        reasons = counted(len(kinds) - _PRINTED, "more reason")
        lines.append(f"failed:   {counted(rest, 'row')}: {reasons}, in run.json")
    return lines


def _hint(entry: FailureKind) -> str:
    """Return which flag reads the texts: as missing values where they are no numbers, or at all."""
    if entry.kind.endswith(": not UTF-8"):
        return " (--encoding says how the file is written, such as cp1252)"
    name, found, _ = entry.kind.rpartition(": not a number")
    if not found:
        return ""
    texts = [each.reason.removeprefix(f"{name} = ").rpartition(": ")[0] for each in entry.examples]
    distinct = dict.fromkeys(text.strip("'") for text in texts)
    if 1 < len(texts) == len(distinct):
        # Each another text: no mark.
        return ""
    words = " ".join(shlex.quote(text) for text in distinct)
    return f" (--null-values {words}, if that stands for a missing value)"


def _value(example: Failure, kind: str) -> str:
    """Return what a row's reason has and its kind has not: the value."""
    if example.reason == kind:
        return ""
    return ": " + example.reason.removesuffix(": " + kind.rpartition(": ")[2])
