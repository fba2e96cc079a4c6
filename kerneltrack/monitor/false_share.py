"""The list of devices of a fleet of which at most a stated share is false.

Let K devices be watched. For a device that is well the reference promises a rate of false episodes
in rows or time: of the expected number of its episodes in what was watched of it, that it is at
most some L. By this alone its number of episodes N over L is an *e-value*: its mean is at most 1
while the device is well. The list (e-BH, Wang and Ramdas) has the R devices of the largest
N/L, R the largest k for which the k-th of them is at least K/(ak), a the share. A device on it has
1 <= (aR/K)(N/L), so of those on the list that are well

    E[V/R] <= sum over well devices of E[(1/R)(aR/K)(N/L)] <= a K_0/K,

K_0 being how many are well. So the mean share of false devices on the list is at most a, whatever
devices have in common, whether or not their episodes come in bursts, and however many are broken.
Where episodes of devices that are well come c times as often as promised, it is at most ca. Where
all are watched for as long, all devices that were off are on the list if KL, how many are off by
chance, is at most a of them; otherwise only those with more than one episode can be.

L must not depend on what was found. Rows that are not compared after an accepted episode, since its
reference is made anew, break this a little: L is then smaller by their part of the rows.

In time, N is an e-detector: its mean up to any moment that is chosen by what was seen is at most
the rate times the mean time until then. The list by an L for a time T that is fixed beforehand has,
at such a moment, a mean false share of at most a times that moment's mean over T ("error over
patience").

Reference: R. Wang, A. Ramdas, "False discovery rate control with e-values", Journal of the Royal
Statistical Society B 84, 2022. S. Dandapanthula, A. Ramdas, "Multiple testing in multi-stream
sequential change detection", 2025, for the error over patience and e-detectors in place of e-values
(e-d-BH).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kerneltrack.errors import ConfigError


class Watched(NamedTuple):
    """A device that could have been off.

    Attributes:
        device: Its ID.
        episodes: How many it had, N.
        expected: How many it has on average at most while it is well, L; above 0.
    """

    device: str
    episodes: int
    expected: float

    @property
    def e_value(self) -> float:
        """N/L, whose mean is at most 1 while the device is well."""
        return self.episodes / self.expected


def least_e_value(watched: Sequence[Watched], share: float) -> float:
    """Return the e-value from which on devices are on the list; infinite if none is.

    Args:
        watched: All devices that could have been off, in any order, also those without episodes.
        share: Of devices on the list that are false, at most, on average.

    Cost: O(K log K) time, O(K) memory.

    Example:
        >>> fleet = [Watched(f"fan-{n}", n < 5, 0.01) for n in range(100)]
        >>> least_e_value(fleet, 0.2), fleet[4].e_value
        (100.0, 100.0)
        >>> least_e_value(fleet, 0.1)
        inf
    """
    found = sorted((each.e_value for each in watched), reverse=True)
    least = float("inf")
    for many, e_value in enumerate(found, 1):
        if e_value * share * many >= len(found):
            least = e_value
    return least


def check_share(field: str, share: float) -> None:
    """Refuse what is no share between 0 and 1.

    Raises:
        ConfigError: naming the field.
    """
    if not 0.0 < share < 1.0:
        raise ConfigError(field, share, "above 0 and below 1")
