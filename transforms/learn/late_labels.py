"""How long rows wait for labels that come later than they."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from kerneltrack.settings import Range, Settings

MAX_ROWS = 10_000_000
MAX_WAIT = 1e9


@dataclasses.dataclass(frozen=True)
class LateLabels(Settings):
    """How long a model's rows wait for labels that come as a stream of their own.

    Row i is settled, that is scored and learned from, just before the first row j is predicted
    with time_j >= time_i + wait or j >= i + most_rows; what still waits at the end of the input
    is settled then. A row without a label by then is never learned from.
    """

    wait: Annotated[
        float | None,
        Range(0, MAX_WAIT),
        """Longest wait for a label, in seconds of event time. None: only `most_rows` limits it,
        the only limit for rows without times.""",
    ]
    most_rows: Annotated[
        int,
        Range(1, MAX_ROWS),
        """Most rows of a device that wait for labels, and most labels that wait for rows.
        Waiting rows are part of the model's state, 8(r + 8) bytes each.""",
    ]
