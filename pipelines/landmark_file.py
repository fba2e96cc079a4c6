"""The file of landmarks: what `kerneltrack landmarks` writes and `--start-from` reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from kerneltrack.batch.landmark_spec import LandmarkSpec
from kerneltrack.errors import ConfigError, DataError, path_text, shorten
from kerneltrack.snapshots.files import read_whole
from kerneltrack.trackers.common.start import StartSet

if TYPE_CHECKING:
    # They take SciPy to be chosen, and a tenth of a second to be imported.
    from kerneltrack.batch.landmarks import Landmarks
    from transforms.read.sample import Sample

VERSION = 1
MOST_BYTES = 256 << 20
MOST_JSON_BYTES = 64 << 20
"""Of a file of landmarks; as JSON its numbers take up to sixteen times the memory."""
KEY = "kerneltrack-landmarks"


def encode(
    spec: LandmarkSpec, chosen: Landmarks, sample: Sample, files: Sequence[str], name: str
) -> bytes:
    """Return the landmarks as bytes.

    Safetensors with the arrays `rows` (as in the input, not scaled), `source` and `row` (which
    file, which of its rows), `weights`, `shift`, `scale` and `objective`, and one metadata entry
    `kerneltrack-landmarks` of JSON; or JSON with all of these, if the name ends in ".json". Equal
    for equal arguments.
    """
    arrays: dict[str, npt.NDArray[Any]] = {
        "rows": chosen.rows,
        "source": sample.source[chosen.indices],
        "row": sample.row[chosen.indices],
        "weights": chosen.weights,
        "shift": chosen.shift,
        "scale": chosen.scale,
        "objective": chosen.objective,
    }
    header = {
        "version": VERSION,
        "spec": spec.to_dict(),
        "gamma": chosen.gamma,
        "penalty": chosen.penalty,
        "residual": chosen.residual,
        "mismatch": chosen.mismatch,
        "sample": len(sample.rows),
        "read": sample.read,
        "failed": sample.failed,
        "files": [path_text(path) for path in files],
    }
    if _is_json(name):
        lists = {field: array.tolist() for field, array in arrays.items()}
        return (json.dumps({**header, **lists}, indent=1) + "\n").encode()
    whole = {field: np.ascontiguousarray(array) for field, array in arrays.items()}
    result: bytes = save(whole, metadata={KEY: json.dumps(header, sort_keys=True)})
    return result


def read_start(path: str) -> StartSet:
    """Return what models begin from, of a file that the command wrote.

    Raises:
        DataError: if it cannot be read, is longer than any of ours, or is damaged.
    """
    return decode(read_whole(path, most_bytes(path)), path)


def decode(data: bytes, name: str) -> StartSet:
    """Return what models begin from, of landmarks as `encode` writes them.

    Raises:
        DataError: for bytes that are no landmarks, or damaged ones.
    """
    try:
        if _is_json(name):
            header = arrays = json.loads(data)
        else:
            arrays = load(data)
            length = int.from_bytes(data[:8], "little")
            header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][KEY])
        version = header["version"]
        if version != VERSION:
            raise DataError(name, f"format version {shorten(version)}: not {VERSION}")
        start = StartSet(
            rows=_numbers(arrays["rows"]),
            shift=_numbers(arrays["shift"]),
            scale=_numbers(arrays["scale"]),
            gamma=float(header["gamma"]),
            kernel=header["spec"]["kernel"],
            standardise=header["spec"]["standardise"],
        )
        start.check_values()
    except ConfigError as error:
        raise DataError(name, f"damaged landmarks: {error}") from error
    # OverflowError: a number of 400 digits; AttributeError: a type that NumPy does not have.
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        SafetensorError,
        TypeError,
        ValueError,
    ) as error:
        raise DataError(name, "not a file of landmarks") from error
    return start


def _numbers(values: Any) -> npt.NDArray[np.float64]:
    """Return numbers as an array of float64.

    Raises:
        ValueError: for anything else, such as texts of numbers or lists of unequal length.
    """
    array = np.array(values)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{array.dtype} where numbers are expected")
    return array.astype(np.float64)


def _is_json(name: str) -> bool:
    return PurePosixPath(name).suffix == ".json"


def most_bytes(name: str) -> int:
    """Return how large a file of this name may be."""
    return MOST_JSON_BYTES if _is_json(name) else MOST_BYTES
