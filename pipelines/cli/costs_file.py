"""The file of `--costs`: what errors cost."""

from __future__ import annotations

from kerneltrack.errors import DataError
from kerneltrack.learners.common.costs import FIELDS, Costs, checked_costs
from pipelines.cli.entries_file import named_by, read_entries

_MOST_BYTES = 1 << 20
_EXAMPLE = "{true: fault, predicted: ok, cost: 50}"


def read_costs(path: str) -> Costs:
    """Return what errors cost.

    Args:
        path: A CSV file (.csv) with the columns true, predicted and cost, or a YAML file with a
            list of them, `- {true: fault, predicted: ok, cost: 50}` or `- [fault, ok, 50]`.

    Raises:
        DataError: if it cannot be read, or holds something else.
    """
    entries = read_entries(path, _MOST_BYTES, FIELDS, FIELDS, _EXAMPLE)
    if not entries:
        raise DataError(path, "holds no costs")
    with named_by(path):
        return checked_costs([entry for _, entry in entries])
