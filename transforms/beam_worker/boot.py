"""Start Beam's worker for Python in this process, as the boot program of Beam's images does.

Changes: nothing; gives Beam's worker what it reads from its environment. Checked with Beam 2.76 and
2.77. Needless once: Beam's Python package has a boot program, or its worker asks the runner itself.
No issue of Beam's asks for either.
"""

from __future__ import annotations

import os
import sys

import grpc  # type: ignore[import-untyped]
from google.protobuf import json_format, text_format

from kerneltrack.imports import import_to_stay

PATIENCE = 60.0
"""Seconds that the runner has to say what the worker is to know."""


def run_worker(worker: str, provision_endpoint: str, folder: str) -> None:
    """Be a worker of a runner until it has nothing more to do.

    Args:
        worker: The id that the runner gave it.
        provision_endpoint: HOST:PORT where the runner says what it is to know.
        folder: What it may keep files in.
    """
    main = import_to_stay("apache_beam.runners.worker.sdk_worker_main").main
    os.environ.update(
        _provision(worker, provision_endpoint),
        WORKER_ID=worker,
        SEMI_PERSISTENT_DIRECTORY=folder,
    )
    main(sys.argv)


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
