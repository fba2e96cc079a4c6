"""Snapshots written by Beam: what a job leaves in a folder of `kerneltrack.snapshots`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam import pvalue

from kerneltrack import codec
from kerneltrack.learners import LearnerSpec
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.paths import join
from kerneltrack.snapshots.files import snapshot_name, write_whole
from kerneltrack.snapshots.folder import SnapshotFolder, specs_of, write_index
from kerneltrack.trackers.common.spec import SubspaceSpec

__all__ = ["SnapshotFolder", "WriteSnapshots", "WriteStateFn", "WriteStates"]


class WriteSnapshots(beam.PTransform[pvalue.PCollection[Any], pvalue.PCollection[Any]]):
    """Write safetensors files, one per model, boundary and kind, and an index of them.

    Input: `tuple[str, bytes]`, bounded, states of trackers and learners as `codec` writes them.
    Files are renamed into place once complete.

    Args:
        folder: Where to.
        spec: The trackers' spec.
        learner: The learners' spec, if there are learners.
        float32: Store the trackers' reals in single precision.
        before: Snapshots that the job began from: of models that had no rows since they are
            taken over.
        reference: The spec of the models' references, if they have some.
    """

    def __init__(
        self,
        folder: str,
        spec: SubspaceSpec,
        learner: LearnerSpec | None = None,
        float32: bool = False,
        before: SnapshotFolder | None = None,
        reference: ReferenceSpec | None = None,
    ) -> None:
        super().__init__()
        self._folder = folder
        self._specs = specs_of(spec, learner, reference)
        self._float32 = float32
        self._before = before

    def expand(self, snapshots: pvalue.PCollection[Any]) -> pvalue.PCollection[Any]:
        """Apply the transform."""
        written: pvalue.PCollection[Any] = (
            snapshots
            | "WriteState" >> beam.ParDo(WriteStateFn(self._folder, self._float32))
            | "ListStates" >> beam.combiners.ToList()
            | "WriteIndex" >> beam.Map(write_index, self._folder, self._specs, self._before)
        )
        return written


class WriteStates(beam.PTransform[pvalue.PCollection[Any], pvalue.PCollection[Any]]):
    """Write safetensors files, one per model, boundary and kind, as they come; no index.

    Input: `tuple[str, bytes]`, as for `WriteSnapshots`, unbounded. A bundle that is run again
    writes the same files again.

    Args:
        folder: Where to.
        float32: Store the trackers' reals in single precision.
    """

    def __init__(self, folder: str, float32: bool = False) -> None:
        super().__init__()
        self._folder = folder
        self._float32 = float32

    def expand(self, snapshots: pvalue.PCollection[Any]) -> pvalue.PCollection[Any]:
        """Apply the transform."""
        written: pvalue.PCollection[Any] = snapshots | "WriteState" >> beam.ParDo(
            WriteStateFn(self._folder, self._float32)
        )
        return written


class WriteStateFn(beam.DoFn):
    """Write a state, give its line of the index; see `WriteStates`."""

    def __init__(self, folder: str, float32: bool) -> None:
        self._folder = folder
        self._float32 = float32

    def process(self, element: tuple[str, bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Write it."""
        model_id, data = element
        origin = f"state of model {model_id!r}"
        header = codec.read_header(data, origin)
        about, kind = header["about"], codec.kind_of(header)
        if self._float32 and kind == codec.TRACKER:
            spec, state, _, extras = codec.decode(data, origin)
            data = codec.encode(spec, state, about, float32=True, extras=extras)
        name = snapshot_name(model_id, None if about["final"] else about["rows"], kind)
        write_whole(join(self._folder, name), data)
        entry = {"rows": about["rows"], "time": about["time"]}
        yield model_id, {**entry, kind: name, f"{kind}_bytes": len(data)}
