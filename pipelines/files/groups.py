"""The group of each device: its site or kind, from a column of the inputs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kerneltrack.errors import ConfigError, DataError, printable
from transforms.read.kinds import codes_of, encode, texts_of
from transforms.read.look import Input
from transforms.read.model_ids import model_ids

FLAG = "--group"


def check_group(files: Input, column: str) -> None:
    """Refuse a column that is not in every file, or that is something else.

    Raises:
        ConfigError: naming the column.
    """
    roles = (files.columns.model_id, *files.columns.times, files.columns.sequence)
    if column in roles:
        raise ConfigError(FLAG, column, "a column that is not the model id, the time or sequence")
    for info in files.infos:
        if column not in info.schema.names and not info.sparse:
            raise ConfigError(FLAG, column, f"a column of {info.path}")


def groups_of(files: Input, column: str) -> dict[str, str]:
    """Return the group of each device; the column is read once more, with the ids.

    Args:
        files: The inputs.
        column: The column. Rows without a value say nothing; texts are taken as they are.

    Raises:
        DataError: for a device of two groups, or files that cannot be read.
    """
    wanted = {column: pa.string()}
    if files.columns.model_id is not None:
        wanted[files.columns.model_id] = pa.string()
    found: dict[str, str] = {}
    for info in files.infos:
        for rows in info.read(wanted):
            if column in rows.batch.schema.names:
                _add(rows.batch, files, column, info.path, found)
    return found


def _add(
    batch: pa.RecordBatch, files: Input, column: str, path: str, found: dict[str, str]
) -> None:
    models, model = model_ids(batch, files.columns)
    encoded = encode(batch.column(column))
    groups, group = texts_of(encoded.dictionary), codes_of(encoded)
    known = np.flatnonzero((model >= 0) & (group < len(groups)))
    pairs = np.unique(np.stack([model[known], group[known]], axis=1), axis=0)
    for each, other in pairs.tolist():
        name, value = models[each], groups[other]
        if value is not None and found.setdefault(name, value) != value:
            shown = f"{printable(found[name])} and {printable(value)}"
            raise DataError(path, f"{column}: {printable(name)} is of two groups, {shown}")
