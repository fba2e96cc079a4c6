"""What `bench_stream.py` holds the live job against: the same without a tracker.

    python -m benchmarks.stream_pass stream [flags of `kerneltrack stream`]

Source, decoder and sink are the live job's own; between them one keyed step counts a model's rows
in its state and passes them on as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from pipelines.cli import main as cli
from pipelines.job_spec import Job
from pipelines.live import stream as track_stream
from pipelines.live.pipeline import LiveEnds
from transforms.beam_worker.install import install
from transforms.chunks import Chunk
from transforms.kafka import read as kafka
from transforms.kafka.commands import Commands
from transforms.kafka.encode import PLACE_FIELDS, EncodeFn
from transforms.kafka.gather import Outgoing
from transforms.kafka.read import ReadMessages
from transforms.kafka.send import SendMessages
from transforms.write.schemas import TIME


class CopyFn(beam.DoFn):
    """Number a model's rows, and pass them on."""

    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def setup(self) -> None:
        """Prepare the worker as the live job's steps do."""
        install()

    def process(
        self, element: tuple[str, Chunk], count: Any = beam.DoFn.StateParam(COUNT)
    ) -> Iterator[tuple[str, Chunk]]:
        """Take a chunk."""
        key, chunk = element
        seen = count.read() or 0
        count.write(seen + len(chunk))
        batch = chunk.batch.append_column(
            "index", pa.array(range(seen, seen + len(chunk)), pa.int64())
        )
        yield key, Chunk(batch)


def build(pipeline: beam.Pipeline, job: Job, ends: LiveEnds) -> None:
    """Put the steps into a pipeline, as `stream_pipeline.build` does."""
    read = pipeline | "Read" >> ReadMessages(
        ends.topic,
        job.columns,
        ends.form,
        Commands(job.spec, job.learner, job.columns.width, job.feedback, job.live_quiet),
        ends.consumer,
        ends.expansion_service,
    )
    schema = pa.schema(
        [
            pa.field("model_id", pa.string()),
            pa.field("index", pa.int64()),
            pa.field("time", TIME),
            *PLACE_FIELDS,
            pa.field("x", pa.list_(pa.float32(), job.columns.width)),
            pa.field("label", job.columns.label_type or pa.string()),
        ]
    )
    copied = read[kafka.ROWS] | "Copy" >> beam.ParDo(
        CopyFn()  # type: ignore[no-untyped-call]
    ).with_output_types(tuple[str, Chunk])
    messages = copied | "Encode" >> beam.ParDo(
        EncodeFn(schema, ends.output_form)
    ).with_output_types(Outgoing)
    _ = messages | "Write" >> SendMessages(ends.topics["features"], ends.client)
    refused = read[kafka.DEAD_LETTERS]
    _ = refused | "Refused" >> SendMessages(ends.topics["dead-letters"], ends.client)


if __name__ == "__main__":
    track_stream.build = build  # type: ignore[attr-defined]
    sys.exit(cli.main(sys.argv[1:]))
