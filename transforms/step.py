"""A step with several outputs, each a collection with the type of its elements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam import pvalue

from transforms.chunks import Chunk
from transforms.failures import Failures
from transforms.outputs import FAILURES, LOST_LABELS, SNAPSHOTS

_TYPES: dict[str, Any] = {SNAPSHOTS: tuple[str, bytes], FAILURES: Failures, LOST_LABELS: Failures}


def run_step(
    elements: pvalue.PCollection[Any], label: str, fn: beam.DoFn, main: str, names: Iterable[str]
) -> dict[str, pvalue.PCollection[Any]]:
    """Apply a step, and return its outputs by name.

    Args:
        elements: What goes in.
        label: The step's.
        fn: What is done with each element.
        main: The output of what it yields without a tag.
        names: Of all outputs. Snapshots are `tuple[str, bytes]`, failures `Failures`, all others
            rows, `tuple[str, Chunk]`.
    """
    others = [name for name in names if name != main]
    outputs = elements | label >> beam.ParDo(fn).with_outputs(*others, main=main)
    found = {name: outputs[name] for name in (main, *others)}
    for name, collection in found.items():
        collection.element_type = _TYPES.get(name, tuple[str, Chunk])
    return found
