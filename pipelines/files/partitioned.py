"""The file job by partition: rows of a model come together in one process, no runner between.

Each piece of the input is written by slot, a hash of the model id (`transforms.partition`); some
slots are a partition, which one process runs through tracker and learner and writes. The driver
hands out pieces and partitions, and merges what they say of themselves.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from apache_beam.io.filesystems import FileSystems

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.paths import is_local, join
from kerneltrack.snapshots.files import remove_file, write_whole
from kerneltrack.snapshots.folder import specs_of, write_singly
from kerneltrack.snapshots.index import INDEX, MOST_SLOTS, PACKED_INDEX_VERSION
from kerneltrack.snapshots.packed import PackedFile
from pipelines.cli.command_line import INPUT_EXIT
from pipelines.files.pipeline import Ends
from pipelines.files.workers import single_process, size_of
from pipelines.job import JobError
from pipelines.job_spec import Job, transform_of
from transforms import outputs
from transforms.metrics import TALLY
from transforms.outputs import FAILURES, SNAPSHOTS
from transforms.partition.outputs import Written
from transforms.partition.pool import TaskRefused, run_tasks
from transforms.partition.shuffle import Spread
from transforms.partition.steps import Steps
from transforms.partition.tasks import MOST_NAMES, Manifest, Shared, SpreadTask, TrackTask, run_task
from transforms.write.parquet import failures_schema

SINGLE_MODELS = 1_000
"""Up to so many models' snapshots are written as a file each, more are packed."""
PARTITION_BYTES = 128 << 20
"""About how many bytes of rows a partition has at most, where its models allow it."""
MOST_IN_MEMORY = 512 << 20
"""Bytes of rows that are sorted in memory; a partition with a large model may have more."""
PARTITIONS_PER_WORKER = 4
LEAST_SLOTS = 256
_SHUFFLE = ".shuffle"


class PartitionTotals(NamedTuple):
    """What the partitions say of themselves, merged.

    Attributes:
        counts: By name of the counter.
        unreferenced: Models whose rows were held against nothing, the first of them.
        processes: How many worked, how many parts there were, what they took, for the record.
    """

    counts: dict[str, int]
    unreferenced: list[str]
    processes: dict[str, Any]


def run(job: Job, ends: Ends, workers: int, temp_dir: str | None) -> PartitionTotals:
    """Run the job; its outputs are complete, under their final names, when this returns.

    Args:
        job: What is done with rows.
        ends: Where rows come from and results go; the folders are there.
        workers: Processes at most.
        temp_dir: A local folder for the rows on their way; None: beside the results.

    Raises:
        JobError: if an input or a snapshot cannot be read.
        DataError: likewise, or if the folder cannot be written.
        OSError: if an output cannot be written.
        KerneltrackError: if a process dies again and again.
    """
    inputs = [ends.rows.input, *([] if ends.labels is None else [ends.labels.input])]
    shared = _shared(job, ends, _slots_for(sum(map(size_of, inputs))))
    with _shuffle_folder(ends.output, temp_dir) as folder:
        merged = _Merged()
        spread = _spread_tasks(ends, folder)
        workers = 1 if single_process(workers, inputs) else workers
        try:
            for task, manifest in run_tasks(run_task, shared, spread, workers):
                merged.add(task, manifest, report=workers > 1 and len(spread) > 1)
            track = _track_tasks(merged.spreads, shared, workers)
            for task, manifest in run_tasks(run_task, shared, track, workers):
                merged.add(task, manifest, report=workers > 1 and len(track) > 1)
        except TaskRefused as error:
            raise JobError(str(error), INPUT_EXIT) from error
    _finish(job, ends.output, shared.slots, merged.files)
    processes = {
        "workers": workers,
        "partitions": len(track),
        "processor_seconds": round(merged.seconds, 3),
        "peak_mb": round(merged.peak),
    }
    return PartitionTotals(dict(merged.counts), sorted(merged.unreferenced)[:MOST_NAMES], processes)


class _Merged:
    """What tasks wrote and counted, each once, however often it was begun."""

    def __init__(self) -> None:
        self.files: list[Written] = []
        self.counts: Counter[str] = Counter()
        self.unreferenced: set[str] = set()
        self.seconds = 0.0
        self.peak = 0.0
        self.spreads: dict[str, list[Spread]] = {"rows": [], "labels": []}

    def add(self, task: SpreadTask | TrackTask, manifest: Manifest, report: bool) -> None:
        self.files += manifest.files
        self.counts.update(manifest.counts)
        self.unreferenced.update(manifest.unreferenced)
        self.seconds += manifest.seconds
        self.peak = max(self.peak, manifest.peak)
        if report:
            # The status line's; a task in this process has told it already.
            TALLY.update(manifest.counts)
        if isinstance(task, SpreadTask) and manifest.spread is not None and manifest.spread.path:
            self.spreads[task.counted_as].append(manifest.spread)


def _shared(job: Job, ends: Ends, slots: int) -> Shared:
    schemas = outputs.schemas(job.asked(), outputs.TRACKER, outputs.LEARNER, outputs.PERIOD)
    schemas[FAILURES] = failures_schema()
    steps = Steps(transform_of(job).step(), job.order)
    sources = tuple(ends.sources)
    return Shared(
        ends.output,
        schemas,
        sources,
        slots,
        steps,
        job.before,
        job.float32,
        MOST_IN_MEMORY,
        job.periods,
    )


def _slots_for(size: int) -> int:
    """Return how many slots there are: enough for partitions of a size that fits into memory."""
    slots = LEAST_SLOTS
    while slots * PARTITION_BYTES // 2 < size and slots < MOST_SLOTS:
        slots *= 2
    return slots


@contextmanager
def _shuffle_folder(output: str, temp_dir: str | None) -> Iterator[str]:
    """Make a folder for rows on their way, without what a job that was killed left; remove it."""
    if temp_dir is None and is_local(output):
        folder = Path(output, _SHUFFLE)
    else:
        # Of this output alone: who holds it owns what another job left here.
        mark = hashlib.sha256(os.path.realpath(output).encode("utf-8", "surrogateescape"))
        place = tempfile.gettempdir() if temp_dir is None else temp_dir
        folder = Path(place, f"kerneltrack-shuffle-{mark.hexdigest()[:16]}")
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    except OSError as error:
        if temp_dir is not None:
            raise ConfigError("--temp-dir", temp_dir, "a folder that can be written") from error
        raise DataError(str(folder), f"cannot be written: {error}") from error
    try:
        yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _spread_tasks(ends: Ends, folder: str) -> list[SpreadTask]:
    """Return a task a piece, the largest first."""
    tasks: list[SpreadTask] = []
    inputs = [("rows", ends.rows.input, 0)]
    if ends.labels is not None:
        inputs.append(("labels", ends.labels.input, len(ends.rows.input.paths)))
    for counted_as, files, first in inputs:
        for source, info in enumerate(files.infos, first):
            for piece in info.pieces:
                name = f"read-{len(tasks):06d}"
                path = os.path.join(folder, name)
                tasks.append(SpreadTask(name, path, source, piece, files.columns, counted_as))
    return sorted(tasks, key=lambda task: -(task.piece.rows or 0))


def _track_tasks(spreads: dict[str, list[Spread]], shared: Shared, workers: int) -> list[TrackTask]:
    """Return a task a partition, the largest first."""
    rows: Counter[int] = Counter(range(shared.slots) if shared.before is not None else ())
    for spread in [*spreads["rows"], *spreads["labels"]]:
        for slot, count in zip(spread.slots, spread.rows, strict=True):
            rows[slot] += count
    size = sum(spread.size for each in spreads.values() for spread in each)
    least = PARTITIONS_PER_WORKER * workers if workers > 1 else 1
    shares = share_out(rows, max(least, -(-size // PARTITION_BYTES)))
    given = {name: tuple(sorted(each)) for name, each in spreads.items()}
    return [
        TrackTask(f"track-{number:06d}", slots, given["rows"], given["labels"])
        for number, slots in enumerate(shares)
    ]


def share_out(rows: Counter[int], parts: int) -> list[tuple[int, ...]]:
    """Share slots out among so many partitions at most, evenly by rows.

    Args:
        rows: Rows of each slot.
        parts: Partitions at most.

    Returns:
        The slots of each partition, that with most rows first; one without slots if there are
        none. Largest first, each slot to the partition that has least (Graham 1969: at most 4/3
        of the best).

    Example:
        >>> share_out(Counter({0: 5, 1: 3, 2: 3, 3: 1}), 2)
        [(0, 3), (1, 2)]
    """
    count = max(1, min(parts, len(rows)))
    loads: list[tuple[int, int, list[int]]] = [(0, number, []) for number in range(count)]
    for slot, amount in sorted(rows.items(), key=lambda item: (-item[1], item[0])):
        load, number, slots = min(loads)
        loads[loads.index((load, number, slots))] = load + amount, number, [*slots, slot]
    loads.sort(key=lambda share: (-share[0], share[1]))
    return [tuple(sorted(slots)) for _, _, slots in loads]


def _finish(job: Job, output: str, slots: int, files: Sequence[Written]) -> None:
    """Give complete files their final names, and write the snapshots' index."""
    parts: dict[str, list[Written]] = {}
    for file in sorted(files, key=lambda each: each.path):
        parts.setdefault(file.part, []).append(file)
    specs = specs_of(job.spec, job.learner, job.reference)
    for part, written in parts.items():
        if part == SNAPSHOTS and sum(file.models for file in written) <= SINGLE_MODELS:
            states = (
                state for file in written if file.rows for state in PackedFile(file.path).states()
            )
            write_singly(join(output, SNAPSHOTS), specs, states)
            for file in written:
                remove_file(file.path)
            continue
        kept = [file for file in written if file.rows] or written[:1]
        named = _rename(join(output, part), kept)
        for file in written:
            if file not in kept:
                remove_file(file.path)
        if part == SNAPSHOTS:
            listed = [
                {"name": name, "slots": file.slots, "models": file.models, "states": file.rows}
                for name, file in named
            ]
            index = {"version": PACKED_INDEX_VERSION, **specs, "slots": slots, "files": listed}
            write_whole(join(output, SNAPSHOTS, INDEX), json.dumps(index).encode())


def _rename(folder: str, files: Sequence[Written]) -> list[tuple[str, Written]]:
    named = [
        (f"part-{number:05d}-of-{len(files):05d}.parquet", file)
        for number, file in enumerate(files)
    ]
    if is_local(folder):
        for name, file in named:
            os.replace(file.path, os.path.join(folder, name))
    elif named:
        FileSystems.rename(
            [file.path for _, file in named], [join(folder, name) for name, _ in named]
        )
    return named
