"""A second reference for rows that come each minute or more often: found by the first look."""

from __future__ import annotations

import argparse
import dataclasses

from pipelines.cli import spec_options
from pipelines.job import say
from pipelines.job_spec import Job

ALSO_EVERY = "5 minutes"
"""Of which the second reference judges the first row, where the first look finds that."""
LEAST_STEP, MOST_STEP = 10 * 10**9, 75 * 10**9
"""Usual time between a device's rows with which there is one, ns: a quarter of that at most."""


def with_second(args: argparse.Namespace, job: Job, step: int | None) -> Job:
    """Return a job with a second reference, and say so, if its first rows ask for one.

    `step` is the usual time between a device's rows, ns, as the first look found it (None: not).
    Flags, the file of `--spec`, references of another run and that of `--warm-start` say
    themselves whether there is one.
    """
    reference = job.reference
    known = job.given is not None or (job.before is not None and job.before.reference_spec)
    if reference is None or not reference.moves or known:
        return job
    if spec_options.says_what_is_judged(args):
        return job
    if step is None or not LEAST_STEP <= step <= MOST_STEP:
        return job
    say(
        f"judging:  all rows, one each {step / 1e9:g} s, and the first of each {ALSO_EVERY} by a "
        f'second reference (--reference-also-every "{ALSO_EVERY}")'
    )
    return dataclasses.replace(job, reference=dataclasses.replace(reference, also_every=ALSO_EVERY))
