"""Models that have fallen silent: what is kept of them lies in a file until they come back.

A file is named by what it holds and never changes, and its name is all that stays in the runner's
state. So whichever checkpoint a job goes on from, it finds a model as it was then, whatever the
model has become in the files since; and a bundle that is run again writes the same file again.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Annotated, NamedTuple

import pyarrow as pa

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.paths import join
from kerneltrack.settings import Range, Settings
from kerneltrack.snapshots.files import escaped, read_whole, write_whole
from transforms.chunks import Chunk, chunk_from, decode_batch, encode_batch
from transforms.metrics import count

VERSION = b"3"
DIGEST = 16
LEAST_AFTER = 0.1
MOST_AFTER = 1e8

_VERSION_KEY = b"kerneltrack.idle"
_SCHEMA = pa.schema(
    [
        pa.field("state", pa.binary()),
        pa.field("clock", pa.binary()),
        pa.field("waiting", pa.list_(pa.binary())),
        pa.field("learner", pa.binary()),
        pa.field("periods", pa.binary()),
        pa.field("days", pa.list_(pa.binary())),
    ],
    metadata={_VERSION_KEY: VERSION},
)


class KeptModel(NamedTuple):
    """All that a keyed step holds of one model.

    Attributes:
        state: The tracker's bytes, None before its first rows.
        clock: The tracker's clock, as bytes.
        waiting: Rows that wait.
        learner: The learner's bytes, None without.
        periods: What its periods have come to, none without.
        days: Those that are over.
    """

    state: bytes | None
    clock: bytes | None = None
    waiting: tuple[Chunk, ...] = ()
    learner: bytes | None = None
    periods: bytes = b""
    days: tuple[bytes, ...] = ()


@dataclasses.dataclass(frozen=True)
class Expiry(Settings):
    """When models expire, and where to."""

    folder: Annotated[str, "Folder of their files."]
    after: Annotated[
        float | None,
        Range(LEAST_AFTER, MOST_AFTER),
        """Seconds without rows of a device, on the worker's own clock, after which its model
        leaves the state. None: no model expires; expired ones still return.""",
    ] = None

    def check_longer(self, idle_flush: float | None) -> None:
        """Refuse to let models expire before the rows that wait are taken.

        Raises:
            ConfigError: naming both.
        """
        if self.after is not None and idle_flush is not None and self.after <= idle_flush:
            raise ConfigError("after", self.after, f"more than idle_flush = {idle_flush:g}")

    def write(self, key: str, kept: KeptModel) -> bytes:
        """Write what is kept of a model; return the name by which it is found again."""
        waiting = [chunk.encode() for chunk in kept.waiting]
        last = [kept.periods], [[*kept.days]]
        columns = [[kept.state], [kept.clock], [waiting], [kept.learner], *last]
        arrays = [pa.array(one, part.type) for one, part in zip(columns, _SCHEMA, strict=True)]
        data = encode_batch(pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA))
        name = _digest(data)
        write_whole(self._path(key, name), data)
        count("models_expired", 1)
        return name

    def read(self, key: str, name: bytes) -> KeptModel:
        """Read what `write` wrote.

        Raises:
            DataError: if it is not there, or not as it was written.
        """
        path = self._path(key, name)
        data = read_whole(path)
        if _digest(data) != name:
            raise DataError(path, "damaged: not what its name says")
        batch = decode_batch(data)
        found = batch.schema.metadata[_VERSION_KEY]
        if found != VERSION:
            reason = f"format version {found.decode()}: this code reads version {VERSION.decode()}"
            raise DataError(path, reason)
        (row,) = batch.to_pylist()
        waiting = tuple(chunk_from(part) for part in row["waiting"])
        days = row["periods"], tuple(row["days"])
        return KeptModel(row["state"], row["clock"], waiting, row["learner"], *days)

    def _path(self, key: str, name: bytes) -> str:
        path: str = join(self.folder, f"{escaped(key)}@{name.hex()}.idle")
        return path


def recall(expiry: Expiry | None, key: str, name: bytes) -> KeptModel:
    """Read what was kept of a model that comes back.

    Raises:
        DataError: if it is not there, or nothing says where.
    """
    if expiry is None:
        raise DataError(f"model {key!r}", "it has expired, and no folder of such models is given")
    kept = expiry.read(key, name)
    count("models_returned", 1)
    return kept


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST).digest()
