"""Where models of a job are kept beside their bytes."""

from __future__ import annotations

from functools import partial

from kerneltrack.fleet.model import Model, Work, decode, encode
from transforms.keyed.last_written import LastWritten


def last_written(work: Work) -> LastWritten[Model]:
    """Return where models of this job are kept beside their bytes."""
    return LastWritten(partial(encode, work), partial(_own, work))


def _own(work: Work, key: str, data: bytes) -> Model:
    return decode(work, data, f"state of model {key!r}", own=True)
