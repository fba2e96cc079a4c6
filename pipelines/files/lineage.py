"""OpenLineage events of a job, a line of JSON each: what it reads, what it writes, how it ended.

A catalogue that speaks OpenLineage (Marquez, DataHub, OpenMetadata, ...) takes them from the file.
An event is written when the job begins, and one when it has ended: START, then COMPLETE or FAIL.
The job's results know nothing of them.

Reference: OpenLineage specification 2-0-2, https://openlineage.io/spec/2-0-2/OpenLineage.json.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

import pyarrow.parquet as pq

import kerneltrack
from kerneltrack.errors import one_line, path_text
from kerneltrack.paths import is_local, join
from transforms.read.columns import Columns

NAMESPACE = "kerneltrack"
PRODUCER = f"https://pypi.org/project/kerneltrack/{kerneltrack.__version__}/"
_SPEC = "https://openlineage.io/spec"
START, COMPLETE, FAIL = "START", "COMPLETE", "FAIL"

Facet = dict[str, Any]


class Lineage:
    """Events of one run.

    Args:
        path: File that they are added to; None: there are none.
        name: Of the job: the same for runs that do the same.
        inputs: From `input_dataset`.
    """

    def __init__(self, path: str | None, name: str, inputs: Sequence[Facet]) -> None:
        self._path = path
        self._job = {"namespace": NAMESPACE, "name": name, "facets": {}}
        self._inputs = list(inputs)
        self._run = str(uuid.uuid4())

    def tell(self, kind: str, outputs: Sequence[Facet] = (), error: str | None = None) -> None:
        """Add an event to the file.

        Raises:
            OSError: if that cannot be written.
        """
        if self._path is None:
            return
        facets = {
            "processing_engine": _facet(
                "1-1-1/ProcessingEngineRunFacet",
                version=kerneltrack.__version__,
                name="kerneltrack",
            )
        }
        if error is not None:
            facets["errorMessage"] = _facet(
                "1-0-1/ErrorMessageRunFacet", message=error, programmingLanguage="Python"
            )
        event = {
            "eventTime": datetime.now(timezone.utc).isoformat().replace("+00:00", "Z"),
            "eventType": kind,
            "run": {"runId": self._run, "facets": facets},
            "job": self._job,
            "inputs": self._inputs,
            "outputs": list(outputs),
            "producer": PRODUCER,
            "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        }
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")

    def complete(self, output: str, parts: Sequence[str]) -> None:
        """Tell that the job has ended well; without a file what it wrote is not looked at.

        Args:
            output: The job's folder.
            parts: Names of the folders in it.

        Raises:
            OSError: as `tell`.
        """
        if self._path is not None:
            self.tell(COMPLETE, output_datasets(output, parts))

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Tell of an error that ends the job, and of what ended it early."""
        try:
            yield
        except BaseException as error:
            self.tell(FAIL, error=one_line(error))
            raise


def input_dataset(path: str, columns: Columns, rows: int | None) -> Facet:
    """Return a file that a job reads, with the columns that it takes.

    Args:
        path: The file.
        columns: What its columns are.
        rows: Rows in it, None where they are not known.
    """
    table = columns.long
    named = [
        (columns.model_id, "model id"),
        (columns.time, "time"),
        (columns.time_of_day, "time of day"),
        (columns.label, "label"),
        *((feature.name, "channel") for feature in columns.features),
        *(() if table is None else ((table.metric, "metric"), (table.value, "value"))),
    ]
    fields = [{"name": name, "description": what} for name, what in named if name]
    facets = {"schema": _facet("1-2-0/SchemaDatasetFacet", fields=fields)}
    found = {**_dataset(path), "facets": facets}
    if rows is not None:
        counted = _facet("1-0-0/InputStatisticsInputDatasetFacet", rowCount=rows)
        found["inputFacets"] = {"inputStatistics": counted}
    return found


def output_datasets(output: str, parts: Sequence[str]) -> list[Facet]:
    """Return the folders that a job has written; of local Parquet files also their schema.

    Args:
        output: The job's folder.
        parts: Names of the folders in it.
    """
    found = []
    for part in parts:
        folder = join(output, part)
        if not is_local(folder) or not os.path.isdir(folder):
            found.append(_dataset(folder))
            continue
        files = sorted(name for name in os.listdir(folder) if name.endswith(".parquet"))
        whole = [pq.ParquetFile(os.path.join(folder, name)) for name in files]
        if not whole:
            # States of models are files of another kind.
            found.append(_dataset(folder))
            continue
        schema = whole[0].schema_arrow
        fields = [{"name": field.name, "type": str(field.type)} for field in schema]
        written = _facet(
            "1-0-2/OutputStatisticsOutputDatasetFacet",
            rowCount=sum(file.metadata.num_rows for file in whole),
            size=sum(os.path.getsize(os.path.join(folder, name)) for name in files),
            fileCount=len(files),
        )
        found.append(
            {
                **_dataset(folder),
                "facets": {"schema": _facet("1-2-0/SchemaDatasetFacet", fields=fields)},
                "outputFacets": {"outputStatistics": written},
            }
        )
    return found


def _dataset(path: str) -> Facet:
    """Return how OpenLineage names a file or folder."""
    if is_local(path):
        return {"namespace": "file", "name": path_text(os.path.abspath(path))}
    scheme, _, rest = path.partition("://")
    bucket, _, name = rest.partition("/")
    return {"namespace": f"{scheme}://{bucket}", "name": name or "/"}


def _facet(place: str, **values: Any) -> Facet:
    """Return a facet; `place` is its version and name in the specification."""
    name = place.partition("/")[2]
    return {
        "_producer": PRODUCER,
        "_schemaURL": f"{_SPEC}/facets/{place}.json#/$defs/{name}",
        **values,
    }
