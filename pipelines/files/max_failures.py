"""How many rows of a job may fail: `--max-failures`."""

from __future__ import annotations

import argparse
import re
from fractions import Fraction
from typing import NamedTuple

from kerneltrack.errors import ConfigError

FLAG = "--max-failures"
_WHOLE = 100


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--max-failures` to a parser."""
    parser.add_argument(
        FLAG,
        metavar="N|P%",
        help="Exit with code 3 if more rows than this fail. The limit is a number, or a share of "
        "all rows (5%%); outputs are complete all the same. [default: only if all rows fail]",
    )


class MaxFailures(NamedTuple):
    """How many rows may fail.

    Attributes:
        text: As given.
        most: How many, or which share of all rows.
        is_share: Which of the two.
    """

    text: str
    most: Fraction
    is_share: bool

    def allows(self, failed: int, rows: int) -> bool:
        """Check whether so many of a job's rows may fail."""
        return failed <= (self.most * rows if self.is_share else self.most)


def read_limit(text: str | None) -> MaxFailures | None:
    """Read the flag.

    Raises:
        ConfigError: naming it.
    """
    if text is None:
        return None
    share = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%", text)
    if share and Fraction(share[1]) <= _WHOLE:
        return MaxFailures(text, Fraction(share[1]) / _WHOLE, True)
    if re.fullmatch("[0-9]{1,18}", text):
        return MaxFailures(text, Fraction(text), False)
    raise ConfigError(FLAG, text, "a number of rows, or a share of all rows from 0% to 100%")
