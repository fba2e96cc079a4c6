"""ORC: stripes, streamed in batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import pyarrow as pa
from pyarrow.orc import ORCFile

from transforms.read.format_options import FormatOptions
from transforms.read.formats.arrow_ipc import validate
from transforms.read.formats.base import FileInfo, Piece, PieceRows, batch_rows, check_names
from transforms.read.formats.files import open_file, reading


@dataclass(frozen=True)
class OrcPiece(Piece):
    """A whole ORC file: how many rows a stripe has shows when it is read."""

    def read_stored(self, columns: Mapping[str, pa.DataType]) -> Iterator[PieceRows]:
        """Stream the named columns, a stripe at a time in memory."""
        row, step = self.first_row, batch_rows(columns)
        with open_file(self.path) as handle:
            with reading(self.path):
                file = _open(handle)
                count = file.nstripes
            for number in range(count):
                with reading(self.path, f"stripe {number}"):
                    stripe = file.read_stripe(number, columns=list(columns))
                    arrays = [stripe.column(name) for name in columns]
                    for array in arrays:
                        validate(array)
                    stripe = pa.RecordBatch.from_arrays(arrays, names=list(columns))
                for start in range(0, stripe.num_rows, step):
                    part = stripe.slice(start, step)
                    yield PieceRows(part, np.arange(row, row + part.num_rows))
                    row += part.num_rows


def inspect_orc(path: str, options: FormatOptions) -> FileInfo:
    """Read an ORC file's footer.

    Raises:
        DataError: if it has none.
    """
    del options
    with open_file(path) as handle, reading(path):
        file = _open(handle)
        schema, rows = file.schema, file.nrows
        check_names(path, schema.names)
    return FileInfo(path, "orc", schema.remove_metadata(), rows, (OrcPiece(path, 0, rows),))


def _open(handle: IO[bytes]) -> Any:
    return ORCFile(pa.PythonFile(handle, mode="r"))
