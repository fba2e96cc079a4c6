"""A model's state as bytes: named arrays and a JSON header in the safetensors format.

Versioned, without pickle, readable from any language. The one metadata entry `kerneltrack` holds
the header: format version, tracker or learner, spec, and whatever the caller adds (the model id,
say). One entry, because the format does not fix the order of several and equal states must have
equal bytes.

A tracker and the learner on its features have states of their own. Beside either may lie arrays of
those that work along with it (the rows of windows that are still open): the file's arrays whose
names begin with `beside.`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import safetensors

from kerneltrack.errors import ConfigError, DataError
from kerneltrack.learners import LearnerSpec, LearnerState
from kerneltrack.limits import check_given
from kerneltrack.registry import (
    LEARNERS,
    TRACKERS,
    get_learner,
    get_tracker,
    parse_learner_spec,
    parse_spec,
)
from kerneltrack.trackers.common.spec import SubspaceSpec

VERSION = 3
"""Raised with each change of the arrays of a tracker, of a learner, or of what goes with a tracker:
the golden files of a version (`tests/golden`) are never written anew."""
KEY = "kerneltrack"
TRACKER, LEARNER = TRACKERS.role, LEARNERS.role
EXTRA = "beside."

Arrays = Mapping[str, npt.NDArray[Any]]


class Snapshot(NamedTuple):
    """A decoded state of a tracker.

    Attributes:
        spec: The spec it was made with; `spec.tracker` names the tracker.
        state: The tracker's state.
        header: The whole header, what the caller added under "about".
        extras: The arrays that were kept beside it.
    """

    spec: SubspaceSpec
    state: Any
    header: dict[str, Any]
    extras: dict[str, npt.NDArray[Any]]


class LearnerSnapshot(NamedTuple):
    """A decoded state of a learner; see `Snapshot`."""

    spec: LearnerSpec
    state: LearnerState
    header: dict[str, Any]
    extras: dict[str, npt.NDArray[Any]]


def encode(
    spec: SubspaceSpec,
    state: Any,
    about: Mapping[str, Any] | str | None = None,
    float32: bool = False,
    extras: Arrays | None = None,
) -> bytes:
    """Write a tracker's state as bytes.

    Args:
        spec: The spec that the state was made with.
        state: The tracker's state.
        about: Plain values to keep beside it (model id, boundary), or their JSON with sorted keys.
        float32: Store the state's reals in single precision: half the bytes, and features that
            agree to about 1e-6 instead of bit for bit.
        extras: Arrays (float64 or int64) to keep beside it.

    Returns:
        The bytes; equal for equal arguments.
    """
    arrays = get_tracker(spec.tracker).arrays(state)
    if float32:
        arrays = {
            name: array.astype(np.float32) if array.dtype == np.float64 else array
            for name, array in arrays.items()
        }
    text = tracker_header(spec, _as_text(about))
    return _save(arrays, text, extras)


def tracker_header(spec: SubspaceSpec, about: str) -> str:
    """Return the header of a tracker's state; `about` is JSON, its keys sorted."""
    of_all = _text_of(
        spec, lambda: {"version": VERSION, TRACKER: spec.tracker, "spec": spec.to_dict()}
    )
    return f'{{"about": {about}, {of_all}}}'


_TEXTS: dict[int, tuple[Any, str]] = {}
_MOST_TEXTS = 64


def _text_of(spec: Any, named: Callable[[], dict[str, Any]]) -> str:
    """Return what the headers of all of a spec's states have in common, JSON without brackets.

    Kept for the very object: specs that are equal may still be written differently (1 and 1.0).
    """
    found = _TEXTS.get(id(spec))
    if found is None or found[0] is not spec:
        if len(_TEXTS) >= _MOST_TEXTS:
            _TEXTS.clear()
        found = _TEXTS[id(spec)] = spec, json.dumps(named(), sort_keys=True)[1:-1]
    return found[1]


class SnapshotParts(NamedTuple):
    """A state as it is written.

    Attributes:
        text: What the header holds, JSON.
        arrays: The state's arrays by name.
        extras: Those beside it, named as they are written.
    """

    text: str
    arrays: dict[str, npt.NDArray[Any]]
    extras: dict[str, npt.NDArray[Any]]

    def to_bytes(self) -> bytes:
        """Return the state's bytes."""
        return to_bytes({**self.arrays, **self.extras}, self.text)


def encode_learner(
    spec: LearnerSpec,
    state: LearnerState,
    about: Mapping[str, Any] | str | None = None,
    extras: Arrays | None = None,
) -> bytes:
    """Write a learner's state as bytes; see `encode`."""
    return learner_parts(spec, state, about, extras).to_bytes()


def learner_parts(
    spec: LearnerSpec,
    state: LearnerState,
    about: Mapping[str, Any] | str | None = None,
    extras: Arrays | None = None,
) -> SnapshotParts:
    """Return a learner's state as it is written; see `encode`."""
    learner = get_learner(spec.learner)
    of_all = _text_of(spec, lambda: {LEARNER: spec.learner, "spec": spec.to_dict()})
    own = json.dumps(learner.header(state), sort_keys=True)
    text = f'{{"about": {_as_text(about)}, {of_all}, "state": {own}, "version": {VERSION}}}'
    return SnapshotParts(text, learner.arrays(state), _named_more(extras))


def _as_text(about: Mapping[str, Any] | str | None) -> str:
    return about if isinstance(about, str) else json.dumps(about or {}, sort_keys=True)


def _save(arrays: Arrays, text: str, extras: Arrays | None) -> bytes:
    return to_bytes({**arrays, **_named_more(extras)}, text)


def _named_more(extras: Arrays | None) -> dict[str, npt.NDArray[Any]]:
    return {EXTRA + name: array for name, array in (extras or {}).items()}


def to_bytes(arrays: Arrays, text: str) -> bytes:
    """Write arrays and the header's text in the safetensors format.

    The same bytes as `safetensors.numpy.save` writes, several times as fast for arrays as small as
    a model's: what the header says of them is worked out once for each layout.

    Args:
        arrays: By plain names, float64, float32 or int64.
        text: The header as JSON, ASCII.

    Raises:
        TypeError: for an array of another type.
    """
    order, described = _layout(
        tuple((name, array.dtype.char, array.shape) for name, array in arrays.items())
    )
    head = f'{{"__metadata__":{{"{KEY}":{json.dumps(text)}}}{described}}}'.encode("ascii")
    head += b" " * (-len(head) % _ALIGNED)
    blocks = [arrays[name].tobytes() for name in order]
    return b"".join([len(head).to_bytes(8, "little"), head, *blocks])


_ALIGNED = 8
_WRITTEN = {"l": (0, "I64", 8), "q": (0, "I64", 8), "d": (1, "F64", 8), "f": (2, "F32", 4)}
"""Types of arrays by NumPy's letter: their turn in a file, the format's name, bytes a number."""


@lru_cache(maxsize=256)
def _layout(arrays: tuple[tuple[str, str, tuple[int, ...]], ...]) -> tuple[tuple[str, ...], str]:
    """Return the order in which arrays lie in a file, and what its header says of them."""
    for name, letter, _ in arrays:
        if letter not in _WRITTEN:
            raise TypeError(f"array {name} is of type {np.dtype(letter)}, not float64 or int64")
    placed = sorted(arrays, key=lambda array: (_WRITTEN[array[1]][0], array[0]))
    described, at = "", 0
    for name, letter, shape in placed:
        _, kind, size = _WRITTEN[letter]
        end = at + size * math.prod(shape)
        lengths = ",".join(map(str, shape))
        described += (
            f',"{name}":{{"dtype":"{kind}","shape":[{lengths}],"data_offsets":[{at},{end}]}}'
        )
        at = end
    return tuple(name for name, _, _ in placed), described


def decode(data: bytes, name: str = "snapshot", own: bool = False) -> Snapshot:
    """Read a tracker's state back.

    Every count that leads a loop is held against its limits, so that no bytes reach memory that
    is not the state's.

    Args:
        data: What `encode` wrote.
        name: Where the bytes came from, for errors.
        own: Whether the job itself wrote them. Those of others must leave room: whatever rows
            then come, the states that follow can be read again.

    Returns:
        The snapshot.

    Raises:
        DataError: for bytes that are no tracker's state, are damaged, or have a format version
            that this code does not know.
    """
    header = _checked(TRACKER, read_header(data, name), name)
    spec = tracker_spec(header, name)
    try:
        arrays, extras = _arrays(data)
        state = get_tracker(spec.tracker).from_arrays(spec, arrays)
        check_room(state, own)
    except DAMAGES as error:
        raise DataError(name, f"damaged state: {error}") from error
    return Snapshot(spec, state, header, extras)


def decode_learner(data: bytes, name: str = "snapshot", own: bool = False) -> LearnerSnapshot:
    """Read a learner's state back; see `decode`."""
    header = _checked(LEARNER, read_header(data, name), name)
    try:
        spec = _learner_spec(json.dumps({**header["spec"], LEARNER: header[LEARNER]}))
        arrays, extras = _arrays(data)
        state = get_learner(spec.learner).from_arrays(spec, arrays, header["state"])
        check_room(state, own)
    except DAMAGES as error:
        raise DataError(name, f"damaged state: {error}") from error
    return LearnerSnapshot(spec, state, header, extras)


def tracker_spec(header: Mapping[str, Any], name: str = "snapshot") -> SubspaceSpec:
    """Return the spec of a tracker's header.

    Raises:
        DataError: if there is none; `name` is where the header came from.
    """
    try:
        return _tracker_spec(json.dumps({**header["spec"], TRACKER: header[TRACKER]}))
    except DAMAGES as error:
        raise DataError(name, f"damaged state: {error}") from error


@lru_cache(maxsize=64)
def _tracker_spec(text: str) -> SubspaceSpec:
    """Return the spec of a header's text: those of a job's states are all alike."""
    return parse_spec(json.loads(text))


@lru_cache(maxsize=64)
def _learner_spec(text: str) -> LearnerSpec:
    """Return the spec of a header's text."""
    return parse_learner_spec(json.loads(text))


def check_room(state: Any, own: bool) -> None:
    """Check that counts of others leave room for the rows to come; `own` as of `decode`.

    Raises:
        ConfigError: naming the count that does not.
    """
    for name in () if own else COUNTS:
        if name in state._fields:
            check_given(f"state.{name}", getattr(state, name))


COUNTS = ("counts", "members")
"""Arrays of a state that count rows."""

DAMAGES: tuple[type[Exception], ...] = (
    AttributeError,
    ConfigError,
    KeyError,
    MemoryError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    safetensors.SafetensorError,
)
"""What reading a damaged state raises."""


def _arrays(data: bytes) -> tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]]]:
    """Return the state's arrays, and those beside it."""
    own: dict[str, npt.NDArray[Any]] = {}
    extras: dict[str, npt.NDArray[Any]] = {}
    for name, entry in safetensors.deserialize(data):
        array = np.frombuffer(entry["data"], dtype=_DTYPES[entry["dtype"]]).reshape(entry["shape"])
        if name.startswith(EXTRA):
            extras[name[len(EXTRA) :]] = array
        else:
            own[name] = array
    return own, extras


_DTYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64}


def parts_of(
    data: bytes, name: str = "snapshot", headed: bool = True
) -> tuple[str, dict[str, npt.NDArray[Any]]]:
    """Return the header's text and all arrays of a state's bytes: what `to_bytes` takes.

    Args:
        data: The bytes.
        name: Where they came from, for errors.
        headed: Whether there is a header of ours; without, the text is empty.

    Raises:
        DataError: for bytes that are not in the format.
    """
    try:
        own, extras = _arrays(data)
        length = int.from_bytes(data[:8], "little")
        text = json.loads(data[8 : 8 + length])["__metadata__"][KEY] if headed else ""
    except DAMAGES as error:
        raise DataError(name, f"damaged state: {error}") from error
    return text, {**own, **{EXTRA + each: array for each, array in extras.items()}}


def kind_of(header: Mapping[str, Any]) -> str:
    """Return what a header is of: "tracker" or "learner"."""
    return LEARNER if LEARNER in header else TRACKER


def header_of(kind: str, text: str, name: str = "snapshot") -> dict[str, Any]:
    """Return the header of a tracker or learner by its text alone; see `decode` for the errors."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(name, "not a kerneltrack snapshot") from error
    return _checked(kind, _of_this_version(header, name), name)


def _checked(kind: str, header: dict[str, Any], name: str) -> dict[str, Any]:
    found = kind_of(header)
    if found not in header:
        raise DataError(name, "damaged state: neither a tracker's nor a learner's")
    if found != kind:
        raise DataError(name, f"the state of a {found} ({header[found]}), not of a {kind}")
    return header


def read_header(data: bytes, name: str = "snapshot") -> dict[str, Any]:
    """Return the header of a state's bytes; see `decode` for the errors."""
    length = int.from_bytes(data[:8], "little")
    try:
        outer = json.loads(data[8 : 8 + length])
        header = json.loads(outer["__metadata__"][KEY])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(name, "not a kerneltrack snapshot") from error
    return _of_this_version(header, name)


def _of_this_version(header: Any, name: str) -> dict[str, Any]:
    try:
        version = header["version"]
    except (KeyError, TypeError) as error:
        raise DataError(name, "not a kerneltrack snapshot") from error
    if type(version) is not int or version != VERSION:
        raise DataError(name, f"format version {version!r}: this code reads version {VERSION}")
    if not isinstance(header.get("about"), dict):
        raise DataError(name, "damaged header: about is no object")
    result: dict[str, Any] = header
    return result
