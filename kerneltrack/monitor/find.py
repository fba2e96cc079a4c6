"""Which rows are odd, and from when to when: a device's rows in, scores and episodes out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import IntArray
from kerneltrack.monitor import reference
from kerneltrack.monitor.reference import Episode, ReferenceSpec, ReferenceState, Scores


class Found(NamedTuple):
    """What a device's rows come to.

    Attributes:
        scores: Of each row, before it was learned.
        episodes: Each once, as it stands after the last row, in the order of their numbers: closed,
            accepted, or still open.
        state: The reference, to go on from with `reference.update`.
    """

    scores: Scores
    episodes: list[Episode]
    state: ReferenceState


def find_episodes(
    rows: npt.ArrayLike, spec: ReferenceSpec | None = None, times: IntArray | None = None
) -> Found:
    """Compare a device's rows with its first ones.

    The result equals that of `kerneltrack track --reference first`, bit for bit, if the
    tracker's warm-up is as long as the reference's stretch.

    Args:
        rows: Shape (n, D), finite, in the order of their times.
        spec: By default `ReferenceSpec()`: the first 512 rows are normal, one false alarm in a
            million rows.
        times: (n,) event times, ns, none before the one before it; a spec that goes by event time
            depends on them.

    Raises:
        ConfigError: for what is no finite matrix, or times that are missing or of another length.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(2000, 3))
        >>> rows[1500:1600, 1] += 6
        >>> found = find_episodes(rows)
        >>> [(episode.kind, episode.state) for episode in found.episodes]
        [('shift', 'closed')]
        >>> episode = found.episodes[0]
        >>> abs(episode.start - 1500) < 10, abs(episode.last - 1599) < 10
        (True, True)
        >>> int(episode.shares.argmax())
        1
        >>> bool(np.median(found.scores.p[1500:1600]) < 1e-5)
        True
    """
    spec = spec or ReferenceSpec()
    spec.refuse_choice()
    matrix = np.ascontiguousarray(rows, dtype=np.float64)
    state = reference.init(spec, matrix[: spec.rows])
    state, scores, episodes = reference.update(spec, state, matrix, times)
    last = {episode.number: episode for episode in episodes}
    still = reference.open_episode(spec, state)
    if still is not None:
        last[still.number] = still
    return Found(scores, [last[number] for number in sorted(last)], state)
