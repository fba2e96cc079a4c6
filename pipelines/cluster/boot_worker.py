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

from pipelines.cluster import records
from pipelines.cluster.folder import Folder
from transforms.beam_worker.boot import run_worker

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
    semi_persistent = options.semi_persist_dir or str(folder / "tmp")
    run_worker(options.id, options.provision_endpoint, semi_persistent)


if __name__ == "__main__":
    main(sys.argv[1:])
