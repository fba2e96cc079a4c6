"""What goes wrong with a local cluster."""

from __future__ import annotations

from kerneltrack.errors import KerneltrackError


class ClusterError(KerneltrackError):
    """A cluster, or what it needs, is not there or does not start: exit code 1."""

    exit_code = 1
