"""Settings of the tracker that passes rows on."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import ClassVar

from kerneltrack.trackers.common.spec import SubspaceSpec


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowsSpec(SubspaceSpec):
    """Settings of the tracker that passes rows on; see `SubspaceSpec`.

    `rank` must be the number of channels. The kernel's settings and the seed say nothing here.

    Example:
        >>> RowsSpec(rank=6).tracker
        'rows'
    """

    tracker: ClassVar[str] = "rows"
    bandwidths: ClassVar[Collection[str]] = frozenset()
