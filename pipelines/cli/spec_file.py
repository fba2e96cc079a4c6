"""The YAML file of `--spec`."""

from __future__ import annotations

from typing import Any

import yaml

from kerneltrack.errors import DataError, one_line
from kerneltrack.snapshots.files import read_whole

_MOST_BYTES = 64 << 10
"""Of a spec's file: all fields there are take two thousand."""
_MOST_FIELDS = 100


class _Loader(yaml.SafeLoader):
    """YAML's plain types; a mapping holds a bounded number of fields.

    What is named once and used many times is not copied, except by the merge key: a few lines
    could make billions of fields.
    """

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge the mappings of "<<" into this one."""
        super().flatten_mapping(node)
        if len(node.value) > _MOST_FIELDS:
            raise yaml.YAMLError(f"over {_MOST_FIELDS} fields in one place")


def read_spec_file(path: str) -> dict[str, Any]:
    """Return the fields and values of a YAML file.

    Raises:
        DataError: if it cannot be read, is too large, or holds something else.
    """
    values = read_yaml(path, read_whole(path, _MOST_BYTES))
    if not isinstance(values, dict):
        raise DataError(path, "must hold fields and values (rank: 10)")
    return values


def read_yaml(path: str, data: bytes) -> Any:
    """Return what the bytes of a YAML file hold.

    Raises:
        DataError: if they are no YAML.
    """
    try:
        return yaml.load(data, _Loader)
    # What makes values of texts raises whatever it meets: ValueError for the 31st of June,
    # KeyError for a truth value that is none, RecursionError for what is nested too deeply.
    except Exception as error:
        raise DataError(path, f"not YAML: {one_line(error)}") from error
