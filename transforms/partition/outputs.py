"""What a task writes: Parquet files by name of the output, and packed snapshots.

All under names of the task, so that a task that runs again overwrites what it left before; whoever
drives the tasks gives the files their final names once all are complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa

from kerneltrack import codec
from kerneltrack.fleet.states import States
from kerneltrack.paths import as_stored, is_local, join, remote
from kerneltrack.snapshots.files import UNFINISHED
from kerneltrack.snapshots.header import PackedState
from kerneltrack.snapshots.packed import PackedWriter
from kerneltrack.trackers.common.block import FixedBlock
from transforms.learn.learners import Last
from transforms.outputs import SNAPSHOTS
from transforms.write.parquet import RowGroups


class Written(NamedTuple):
    """A file of a task.

    Attributes:
        part: Name of the output: its folder.
        path: The file, complete under a name that is not final.
        rows: Rows in it, or states.
        models: Of snapshots: models in it.
        slots: Of snapshots: the slots that its models are of.
    """

    part: str
    path: str
    rows: int
    models: int = 0
    slots: tuple[int, ...] = ()


def create(path: str) -> Any:
    """Open a file to write it, on any of Beam's file systems; its folder is there."""
    if is_local(path):
        return open(path, "wb")
    return remote().create(path, **as_stored())


class TaskFiles:
    """The files of a task being written.

    Args:
        output: The run's folder.
        name: The task's, as part of the files' names.
        schemas: Of each output; a file is written for each, if only without rows.
        sources: Path of each source number.
    """

    def __init__(
        self, output: str, name: str, schemas: Mapping[str, pa.Schema], sources: Sequence[str]
    ) -> None:
        self._paths = {part: join(output, part, f"{name}.parquet{UNFINISHED}") for part in schemas}
        self._rows = dict.fromkeys(schemas, 0)
        self._files: dict[str, RowGroups] = {}
        for part, schema in schemas.items():
            self._files[part] = RowGroups(create(self._paths[part]), schema, sources)

    def __enter__(self) -> TaskFiles:
        """Return the files."""
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Close what is open; after an error it is not complete, and will be removed."""
        if kind is not None:
            for file in self._files.values():
                with suppress(Exception):
                    file.close()

    def add(self, part: str, model_id: str, rows: pa.RecordBatch) -> None:
        """Add rows of a model to an output; failures say themselves of which model they are."""
        self._files[part].add(model_id, rows)
        self._rows[part] += rows.num_rows

    def add_block(
        self, part: str, models: Sequence[str], lengths: Sequence[int], rows: pa.RecordBatch
    ) -> None:
        """Add rows of several models, so many of each, to an output."""
        self._files[part].add_block(models, lengths, rows)
        self._rows[part] += rows.num_rows

    def close(self) -> list[Written]:
        """Complete the files, and return what is in them."""
        for file in self._files.values():
            file.close()
        return [Written(part, path, self._rows[part]) for part, path in self._paths.items()]


class TaskStates:
    """The packed snapshots of a task being written.

    Args:
        output: The run's folder.
        name: The task's.
        float32: Whether the trackers' reals are written in single precision.
    """

    def __init__(self, output: str, name: str, float32: bool) -> None:
        self._path = join(output, SNAPSHOTS, f"{name}.parquet{UNFINISHED}")
        self._handle = create(self._path)
        self._writer = PackedWriter(self._handle, float32)

    def __enter__(self) -> TaskStates:
        """Return the snapshots."""
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Close the file; after an error it is not complete, and will be removed."""
        if kind is not None:
            with suppress(Exception):
                self._writer.close()
        self._handle.close()

    def add(self, states: Sequence[PackedState]) -> None:
        """Add a model's states; models come in order."""
        for state in sorted(states, key=lambda found: (found.rows, found.final, found.kind)):
            self._writer.add(state)

    def add_block(self, states: States) -> None:
        """Add the last states of models, each one's only state."""
        if not isinstance(states.block, FixedBlock):
            for place in range(len(states.names)):
                self.add_last(states, place)
            return
        self._writer.add_columns(
            codec.TRACKER,
            states.names,
            states.rows,
            states.times,
            states.headers,
            states.block.columns,
            [states.more_arrays(place) for place in range(len(states.names))],
        )

    def add_last(self, states: States, place: int, learner: Last | None = None) -> None:
        """Add the last state of one of a block's models, and its learner's."""
        name, rows, time = states.names[place], states.rows[place], states.times[place]
        state = PackedState(name, codec.TRACKER, rows, time, True, b"")
        self._writer.add_parts(
            state, states.headers[place], states.arrays(place), states.more_arrays(place)
        )
        if learner is not None:
            state = PackedState(name, codec.LEARNER, learner.rows, learner.time, True, b"")
            self._writer.add_parts(state, *learner.parts)

    def close(self, slots: Sequence[int]) -> Written:
        """Complete the file, and return what is in it."""
        self._writer.close()
        self._handle.close()
        writer = self._writer
        return Written(SNAPSHOTS, self._path, writer.states, writer.models, tuple(slots))
