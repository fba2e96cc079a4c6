"""The pipelines of docs/beam.md, as they stand there, on the runner that the flags name.

    python beam_page_job.py PAGE BEAM_FLAG ...

runs those of rows, of AnomalyDetection and of Beam YAML in the working folder, which has the
rows of the last in pumps.parquet.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.yaml import yaml_transform


def main(arguments: Sequence[str]) -> None:
    page, *flags = arguments
    text = Path(page).read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, re.S)
    (yaml,) = re.findall(r"```yaml\n(.*?)```", text, re.S)
    options = PipelineOptions(flags)
    plain = beam.Pipeline
    # The page's pipelines take the runner by default.
    beam.Pipeline = functools.partial(plain, options=options)  # type: ignore[misc,assignment]
    names: dict[str, Any] = {}
    for block in code:
        if "RowsToChunks(" in block or "AnomalyDetection(" in block:
            print("pipeline", flush=True)
            exec(block, names)
    with plain(options=options) as pipeline:
        yaml_transform.expand_pipeline(pipeline, yaml)


if __name__ == "__main__":
    main(sys.argv[1:])
