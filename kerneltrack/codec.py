"""A model's state as bytes: named arrays and a JSON header in the safetensors format.

Versioned, without pickle, readable from any language. The one metadata entry `kerneltrack` holds
the header: format version, tracker, spec, and whatever the caller adds (the model id, say).
One entry, because the format does not fix the order of several and equal states must have equal
bytes.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import safetensors
from safetensors.numpy import save

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.specs import SubspaceSpec
from kerneltrack.trackers import get_tracker, parse_spec

VERSION = 1
KEY = "kerneltrack"


class Snapshot(NamedTuple):
    """A decoded state.

    Attributes:
        spec: The spec it was made with; `spec.tracker` names the tracker.
        state: The tracker's state.
        header: The whole header, what the caller added under "about".
    """

    spec: SubspaceSpec
    state: Any
    header: dict[str, Any]


def encode(
    spec: SubspaceSpec, state: Any, about: dict[str, Any] | None = None, float32: bool = False
) -> bytes:
    """Write a state as bytes.

    Args:
        spec: The spec that the state was made with.
        state: The tracker's state.
        about: Plain values to keep beside it (model id, boundary).
        float32: Store reals in single precision: half the bytes, and features that agree to
            about 1e-6 instead of bit for bit.

    Returns:
        The bytes; equal for equal arguments.
    """
    arrays = get_tracker(spec.tracker).arrays(state)
    if float32:
        arrays = {
            name: array.astype(np.float32) if array.dtype == np.float64 else array
            for name, array in arrays.items()
        }
    header = {
        "version": VERSION,
        "tracker": spec.tracker,
        "spec": spec.to_dict(),
        "about": about or {},
    }
    result: bytes = save(arrays, metadata={KEY: json.dumps(header, sort_keys=True)})
    return result


def decode(data: bytes, name: str = "snapshot") -> Snapshot:
    """Read a state back.

    Args:
        data: What `encode` wrote.
        name: Where the bytes came from, for errors.

    Returns:
        The snapshot.

    Raises:
        DataError: for bytes that are no state of this project, are damaged, or have a format
            version that this code does not know.
    """
    header = read_header(data, name)
    try:
        spec = parse_spec({**header["spec"], "tracker": header["tracker"]})
        arrays = _arrays(data)
        state = get_tracker(spec.tracker).from_arrays(spec, arrays)
    except (ConfigError, KeyError, TypeError, ValueError, safetensors.SafetensorError) as error:
        raise DataError(name, f"damaged state: {error}") from error
    return Snapshot(spec, state, header)


def _arrays(data: bytes) -> dict[str, npt.NDArray[Any]]:
    return {
        name: np.frombuffer(entry["data"], dtype=_DTYPES[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in safetensors.deserialize(data)
    }


_DTYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64}


def read_header(data: bytes, name: str = "snapshot") -> dict[str, Any]:
    """Return the header of a state's bytes; see `decode` for the errors."""
    length = int.from_bytes(data[:8], "little")
    try:
        outer = json.loads(data[8 : 8 + length])
        header = json.loads(outer["__metadata__"][KEY])
        version = header["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(name, "not a kerneltrack snapshot") from error
    if version != VERSION:
        raise DataError(name, f"format version {version!r}: this code reads version {VERSION}")
    result: dict[str, Any] = header
    return result
