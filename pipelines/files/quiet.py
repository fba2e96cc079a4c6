"""Quiet times of a job on files: the groups that they name, and the devices that are not there."""

from __future__ import annotations

import dataclasses

from kerneltrack.errors import ConfigError, printable
from kerneltrack.monitor.quiet import ALL, QuietTimes
from kerneltrack.paths import join
from kerneltrack.snapshots.folder import SnapshotFolder
from pipelines.cli.quiet_file import FLAG
from pipelines.files import groups
from pipelines.files.groups import check_group, groups_of
from pipelines.job_spec import Job
from pipelines.report.text import counted, few
from transforms.outputs import SNAPSHOTS
from transforms.read.look import Input

MOST_NAMED = 5
"""Devices and groups that the end of a job names."""


def with_groups(job: Job, column: str | None, files: Input) -> Job:
    """Return the job with the devices' groups, if a quiet time is that of a group.

    Args:
        job: The job.
        column: The column of groups; None: none was named.
        files: The inputs.

    Raises:
        ConfigError: if it is not in all files, or is not named though it is needed.
        DataError: as `groups_of`.
    """
    if column is not None:
        check_group(files, column)
    if job.quiet is None or all(each.group is None for each in job.quiet.times):
        return job
    if column is None:
        raise ConfigError(groups.FLAG, None, f"the column of groups: {FLAG} names some")
    quiet = dataclasses.replace(job.quiet, groups=groups_of(files, column))
    return dataclasses.replace(job, quiet=quiet)


def quiet_lines(output: str, quiet: QuietTimes | None) -> list[str]:
    """Return what the end of a job says of quiet times: those of no device are mistakes."""
    if quiet is None:
        return []
    known = {*SnapshotFolder(join(output, SNAPSHOTS)).models, ALL, *quiet.groups.values()}
    names = [each.group if each.device is None else each.device for each in quiet.times]
    unknown = list(dict.fromkeys(str(name) for name in names if name not in known))
    line = f"quiet:    {counted(len(quiet.times), 'time')} in {FLAG}, not compared with references"
    if not unknown:
        return [line]
    named = few([printable(name) for name in unknown[:MOST_NAMED]], MOST_NAMED, len(unknown))
    return [line, f"warning:  {FLAG} names what is not there: {named}"]
