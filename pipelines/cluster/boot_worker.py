"""Become a Beam SDK worker for Python: what a PROCESS environment calls.

Arguments: the cluster's folder, then Beam's own flags. The process writes itself down in the
cluster's folder, so that it is stopped with it, and its output goes to logs/workers.out: Beam
throws it away. Files that a job stages are not fetched: workers of this machine import what the job
itself imported.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import grpc  # type: ignore[import-untyped]
from google.protobuf import json_format, text_format

from kerneltrack.imports import import_to_stay
from pipelines.cluster import records
from pipelines.cluster.folder import Folder

PATIENCE = 60.0
NAME = "workers"


def main(arguments: Sequence[str]) -> None:
    """Do it."""
    root, *beam_flags = arguments
    folder = Folder(Path(root))
    with folder.output(NAME).open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    records.write_own(folder.run, f"worker-{os.getpid()}")
    parser = argparse.ArgumentParser()
    parser.add_argument("--id", required=True)
    parser.add_argument("--provision_endpoint", required=True)
    parser.add_argument("--semi_persist_dir", default="")
    options, _ = parser.parse_known_args(beam_flags)
    worker = import_to_stay("apache_beam.runners.worker.sdk_worker_main")
    os.environ.update(
        _provision(options.id, options.provision_endpoint),
        WORKER_ID=options.id,
        SEMI_PERSISTENT_DIRECTORY=options.semi_persist_dir or str(folder / "tmp"),
    )
    worker.main(sys.argv)


def _provision(worker: str, endpoint: str) -> dict[str, str]:
    """Ask the runner what the worker is to know, in the form in which workers take it."""
    from apache_beam.portability.api import beam_provision_api_pb2 as messages  # noqa: PLC0415
    from apache_beam.portability.api import beam_provision_api_pb2_grpc as calls  # noqa: PLC0415

    with grpc.insecure_channel(endpoint, options=[("grpc.enable_http_proxy", 0)]) as channel:
        info = (
            calls.ProvisionServiceStub(channel)
            .GetProvisionInfo(
                messages.GetProvisionInfoRequest(),
                metadata=[("worker_id", worker)],
                timeout=PATIENCE,
            )
            .info
        )
    return {
        "PIPELINE_OPTIONS": json_format.MessageToJson(info.pipeline_options),
        "LOGGING_API_SERVICE_DESCRIPTOR": _descriptor(info.logging_endpoint.url),
        "CONTROL_API_SERVICE_DESCRIPTOR": _descriptor(info.control_endpoint.url),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
    }


def _descriptor(url: str) -> str:
    from apache_beam.portability.api import endpoints_pb2  # noqa: PLC0415

    return str(text_format.MessageToString(endpoints_pb2.ApiServiceDescriptor(url=url)))


if __name__ == "__main__":
    main(sys.argv[1:])
