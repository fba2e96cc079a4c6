"""By which flags a Beam pipeline in Python runs on a local cluster."""

from __future__ import annotations

import json

from pipelines.cluster.configure import worker_command
from pipelines.cluster.folder import Cluster


def beam_flags(cluster: Cluster) -> list[str]:
    """Return the flags by which a Beam pipeline in Python runs on the cluster."""
    return [
        "--runner=PortableRunner",
        f"--job_endpoint={cluster.settings.address('jobserver')}",
        "--environment_type=PROCESS",
        "--environment_config=" + json.dumps({"command": str(worker_command(cluster))}),
        # Workers fetch nothing: no list of what is installed, which takes a second to make.
        "--experiments=disable_logging_submission_environment",
    ]
