"""What people know of devices, in a job on files: groups and devices that are not there."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kerneltrack.errors import printable
from kerneltrack.monitor.entries import ALL
from kerneltrack.monitor.feedback import Feedback
from kerneltrack.monitor.quiet import Entry, QuietTimes, RecurringTime
from kerneltrack.monitor.rules import Rule, Rules
from kerneltrack.paths import join
from kerneltrack.snapshots.folder import SnapshotFolder
from pipelines.cli.entries_file import check_groups
from pipelines.cli.feedback_file import FLAG as FEEDBACK_FLAG
from pipelines.cli.quiet_file import FLAG
from pipelines.cli.rule_flags import FLAG as RULES_FLAG
from pipelines.files.groups import check_group, groups_of
from pipelines.files.time_span import KEY
from pipelines.job_spec import Job
from pipelines.report.clock import SiteClock, clock_of, ns_of
from pipelines.report.text import MOST_NAMED, and_more, counted, few
from pipelines.run_folder import RUN
from transforms.outputs import SNAPSHOTS
from transforms.read.look import Input


def with_groups(job: Job, column: str | None, files: Input) -> Job:
    """Return the job with the devices' groups, if a quiet time, a rule or an answer is of a group.

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
    known = job.known_by_flag
    for flag, entries in known.items():
        check_groups(entries, column, flag)
    if all(each.group is None for each in itertools.chain(*known.values())):
        return job
    return job.in_groups(groups_of(files, str(column)))


def rule_lines(output: str, rules: Rules | None) -> list[str]:
    """Return a warning of rules of no device: they are mistakes."""
    return [] if rules is None else _unknown_lines(output, rules.rules, rules.groups, RULES_FLAG)


def feedback_lines(output: str, feedback: Feedback | None) -> list[str]:
    """Return a warning of feedback on no device: it is a mistake."""
    said = () if feedback is None else feedback.said
    groups = {} if feedback is None else feedback.groups
    return _unknown_names(output, [each.who for each in said], groups, FEEDBACK_FLAG)


def _unknown_lines(
    output: str,
    entries: Sequence[Entry] | Sequence[Rule],
    groups: Mapping[str, str],
    flag: str,
) -> list[str]:
    names = [each.group if each.device is None else each.device for each in entries]
    return _unknown_names(output, names, groups, flag)


def _unknown_names(
    output: str, names: Sequence[str | None], groups: Mapping[str, str], flag: str
) -> list[str]:
    known = {*SnapshotFolder(join(output, SNAPSHOTS)).models, ALL, *groups.values()}
    unknown = list(dict.fromkeys(str(name) for name in names if name not in known))
    if not unknown:
        return []
    named = few([printable(name) for name in unknown[:MOST_NAMED]], MOST_NAMED, len(unknown))
    return [f"warning:  {flag} names what is not there: {named}"]


def quiet_lines(output: str, run: Mapping[str, Any], quiet: QuietTimes | None) -> list[str]:
    """Return what the end of a job says of quiet times: those of no device are mistakes."""
    if quiet is None:
        return []
    times, span = list(quiet.times), run.get(KEY)
    if span is not None:
        first, last = (ns_of(span[end]) for end in ("first", "last"))
        times = [each for each in times if len(each.spans(first, last))]
    lines = ["no row is of a quiet time"]
    if times:
        many = counted(len(times), "quiet time")
        lines = [f"rows of {many} are not compared with references:"]
    sizes, clock = Counter(quiet.groups.values()), clock_of(run)
    lines += [f"  {_in_words(each, sizes, clock)}" for each in times[:MOST_NAMED]]
    lines += and_more(len(times), join(output, RUN))
    return [*lines, *_unknown_lines(output, quiet.times, quiet.groups, FLAG)]


def _in_words(quiet: Entry, sizes: Mapping[str, int], clock: SiteClock) -> str:
    who = "all devices" if quiet.device == ALL else printable(quiet.device or "")
    if quiet.group is not None:
        who = f"{printable(quiet.group)} ({counted(sizes.get(quiet.group, 0), 'device')})"
    why = f", {printable(quiet.why)}" if quiet.why else ""
    if isinstance(quiet, RecurringTime):
        return f"{who}: every {quiet.every} {quiet.begin} to {quiet.stop} ({quiet.zone}){why}"
    return f"{who}: {clock.named(quiet.start)} to {clock.named(quiet.end)}{why}"
