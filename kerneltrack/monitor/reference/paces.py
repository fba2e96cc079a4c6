"""Many models' references at once, each of one pace or of two: of all rows, and of spans' first.

What `block` does of one reference a model is done here of both. They lie side by side in one table
for each part, the first one's bytes before the second one's, then what is known of their episodes;
with one reference a model all is as `block` has it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import BoolArray, FloatArray, IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.monitor.reference import block
from kerneltrack.monitor.reference.block import BlockParts, Blocks
from kerneltrack.monitor.reference.episodes import Episode
from kerneltrack.monitor.reference.joining import open_episode
from kerneltrack.monitor.reference.joint import (
    CHANGED_ROW,
    CHANGED_TIME,
    OPEN_SINCE,
    TOLD,
    Joint,
    layout_of_joint,
    no_episode,
)
from kerneltrack.monitor.reference.spec import ReferenceSpec
from kerneltrack.monitor.reference.state import (
    ARMED,
    CHANGED,
    EPISODES,
    OPENED,
    ReferenceState,
    from_arrays,
    storable,
    with_second,
)
from kerneltrack.trackers.common.places import Places, side_by_side

_LENGTH = struct.Struct("<q")
"""Bytes of the first reference's moving part, before it."""


class Pace(NamedTuple):
    """The references of m models that judge the same rows.

    Attributes:
        spec: What they are.
        width: Channels of the rows.
        blocks: (m, bytes) of each part.
    """

    spec: ReferenceSpec
    width: int
    blocks: BlockParts


def specs_of(spec: ReferenceSpec) -> tuple[ReferenceSpec, ...]:
    """Return what a model's references are: one, or that of all rows and a second one."""
    return (spec,) if spec.second is None else (spec.first, spec.second)


def paces_of(spec: ReferenceSpec, width: int, blocks: BlockParts) -> list[Pace]:
    """Return the references of m models by pace, in place."""
    if spec.second is None:
        return [Pace(spec, width, blocks)]
    found, begins = [], [0, 0]
    for own in specs_of(spec):
        ends = [
            begin + part.size
            for begin, part in zip(begins, block.parts_of(own, width), strict=True)
        ]
        edges = zip(blocks, begins, ends, strict=True)
        parts = BlockParts(*(part[:, begin:end] for part, begin, end in edges))
        found.append(Pace(own, width, parts))
        begins = ends
    return found


def first_pace(spec: ReferenceSpec, width: int, blocks: BlockParts) -> Pace:
    """Return the references of all rows, in place: rows have their p by these."""
    return paces_of(spec, width, blocks)[0]


def joints_of(spec: ReferenceSpec, width: int, blocks: BlockParts) -> Joint | None:
    """Return what is known of both references' episodes, (m, ...) each, in place; None of one."""
    if spec.second is None:
        return None
    places = _joint_places(width)
    return Joint(**places.columns(blocks.moving[:, -places.size :]))


@lru_cache(maxsize=16)
def _joint_places(width: int) -> Places:
    return Places.of(layout_of_joint(width))


@lru_cache(maxsize=16)
def sizes_of(spec: ReferenceSpec, width: int) -> BlockParts:
    """Return how many bytes each part of a model's references takes, nothing left out."""
    parts = [block.parts_of(own, width) for own in specs_of(spec)]
    joint = 0 if spec.second is None else _joint_places(width).size
    moving, kept = (sum(part.size for part in each) for each in zip(*parts, strict=True))
    return BlockParts(moving + joint, kept)


def bytes_of(spec: ReferenceSpec, width: int) -> int:
    """Return how many bytes both parts of a model's references take, nothing left out."""
    return sum(sizes_of(spec, width))


def _beside(paces: Sequence[BlockParts], joints: npt.NDArray[np.uint8] | None) -> BlockParts:
    """Return the parts of each pace side by side, and what is known of their episodes."""
    if joints is None:
        return paces[0]
    moving, kept = ([parts[at] for parts in paces] for at in range(2))
    return BlockParts(np.concatenate([*moving, joints], axis=1), np.concatenate(kept, axis=1))


def _states_of(state: ReferenceState) -> tuple[ReferenceState, ...]:
    """Return a model's references, one for each pace."""
    return (state,) if state.second is None else (state, state.second)


def _joint_bytes(states: Sequence[ReferenceState | None], width: int) -> npt.NDArray[np.uint8]:
    """Return what is known of episodes as bytes, (m, bytes)."""
    known = [
        no_episode(width) if state is None or state.joint is None else state.joint
        for state in states
    ]
    bodies = [b"".join(part.tobytes() for part in each) for each in known]
    return side_by_side(bodies, _joint_places(width).size)


def joined_states(
    spec: ReferenceSpec, width: int, states: Sequence[ReferenceState | None]
) -> BlockParts:
    """Return copies of references, (m, bytes) of each part; zeros where there is none."""
    if spec.second is None:
        return block.joined_states(spec, width, states)
    own = [
        block.joined_states(one, width, [None if s is None else _states_of(s)[at] for s in states])
        for at, one in enumerate(specs_of(spec))
    ]
    return _beside(own, _joint_bytes(states, width))


def begin(spec: ReferenceSpec, rows: FloatArray, starts: IntArray, stops: IntArray) -> BlockParts:
    """Return the references of m models that begin; see `block.begin`."""
    own = [block.begin(one, rows, starts, stops) for one in specs_of(spec)]
    if spec.second is None:
        return own[0]
    return _beside(own, _joint_bytes([None] * len(starts), rows.shape[1]))


def state_at(spec: ReferenceSpec, width: int, blocks: BlockParts, place: int) -> ReferenceState:
    """Return one of m models' references, in place."""
    first, *more = (block.state_at(*pace, place) for pace in paces_of(spec, width, blocks))
    joints = joints_of(spec, width, blocks)
    if joints is None:
        return first
    return first._replace(second=more[0], joint=Joint(*(part[place] for part in joints)))


def put_state(
    spec: ReferenceSpec, width: int, blocks: BlockParts, place: int, state: ReferenceState
) -> None:
    """Write a model's references where those of one of m are."""
    joined = joined_states(spec, width, [state])
    for part, body in zip(blocks, joined, strict=True):
        part[place] = body[0]


def pack(spec: ReferenceSpec, state: ReferenceState) -> BlockParts:
    """Return a model's references as bytes."""
    width = len(state.tables.scale)
    joined = joined_states(spec, width, [state])
    return BlockParts(fold(spec, width, joined.moving)[0], joined.kept[0].tobytes())


def fold(spec: ReferenceSpec, width: int, moving: Blocks) -> list[bytes]:
    """Return the moving parts, (m, bytes), each without what need not be kept."""
    if spec.second is None:
        return block.fold(spec, width, moving)
    own = [block.fold(one, width, part) for one, part in _moving_of(spec, width, moving)]
    joints = moving[:, -_joint_places(width).size :]
    return [
        b"".join((_LENGTH.pack(len(first)), first, second, joint.tobytes()))
        for first, second, joint in zip(*own, joints, strict=True)
    ]


def _moving_of(
    spec: ReferenceSpec, width: int, moving: Blocks
) -> Iterator[tuple[ReferenceSpec, Blocks]]:
    """Return the moving parts of each pace, (m, bytes), in place."""
    begin = 0
    for own in specs_of(spec):
        end = begin + block.parts_of(own, width).moving.size
        yield own, moving[:, begin:end]
        begin = end


def unfold(spec: ReferenceSpec, width: int, folded: Sequence[bytes]) -> tuple[Blocks, BoolArray]:
    """Return the moving parts, (m, bytes), that `fold` left; see `block.unfold`."""
    if spec.second is None:
        return block.unfold(spec, width, folded)
    size = _joint_places(width).size
    fine = np.array([len(data) >= _LENGTH.size + size for data in folded], np.bool_)
    parts: list[tuple[bytes, bytes, bytes]] = []
    for data, is_long in zip(folded, fine.tolist(), strict=True):
        edge = _LENGTH.size + (_LENGTH.unpack_from(data)[0] if is_long else 0)
        end = len(data) - size if is_long else 0
        joint = data[end:] if is_long else bytes(size)
        parts.append((data[_LENGTH.size : edge], data[edge:end], joint))
    first, second, joint_bytes = zip(*parts, strict=True)
    unfolded = []
    for own, each in zip(specs_of(spec), (first, second), strict=True):
        moving, are_fine = block.unfold(own, width, each)
        unfolded.append(moving)
        fine &= are_fine
    return np.concatenate([*unfolded, side_by_side(joint_bytes, size)], axis=1), fine


def unpack(spec: ReferenceSpec, width: int, data: BlockParts) -> ReferenceState:
    """Return a model's references that `pack` wrote, after a look at their values.

    Raises:
        ConfigError: for bytes of another length, or counts that no state has.
    """
    if spec.second is None:
        return block.unpack(spec, width, data)
    return state_at(spec, width, _checked(spec, width, [data]), 0)


def check_each(spec: ReferenceSpec, width: int, folded: Sequence[BlockParts]) -> None:
    """Check references that `pack` wrote, at least one.

    Raises:
        ConfigError: if `unpack` refuses one of them.
    """
    _checked(spec, width, folded)


def _checked(spec: ReferenceSpec, width: int, folded: Sequence[BlockParts]) -> BlockParts:
    """Return references that `pack` wrote, at least one, after a look at their values."""
    size = sizes_of(spec, width).kept
    if any(len(parts.kept) != size for parts in folded):
        raise ConfigError("reference", f"{len(folded)} states", f"{size} bytes kept of each")
    moving, fine = unfold(spec, width, [parts.moving for parts in folded])
    if not fine.all():
        raise ConfigError("reference", f"{len(moving)} states", "bytes of their rows each")
    blocks = BlockParts(moving, side_by_side([parts.kept for parts in folded], size))
    from_arrays(spec, stored_columns(spec, width, blocks), (len(folded),))
    return blocks


def stored_columns(
    spec: ReferenceSpec, width: int, blocks: BlockParts
) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of references as the codec has them, (m, ...) by name."""
    first, *more = (storable(block.columns_of(*pace)) for pace in paces_of(spec, width, blocks))
    joints = joints_of(spec, width, blocks)
    return first if joints is None else with_second(first, more[0], joints._asdict())


def one_by_one(state: ReferenceState) -> list[ReferenceState]:
    """Return the references of m models whose arrays, (m, ...), lie in one state."""
    parts = [state.tables, state.kernel, *(() if state.joint is None else (state.joint,))]
    each = [list(map(type(part)._make, zip(*part, strict=True))) for part in parts]
    tables, kernels, *joints = each
    found = [ReferenceState(*both) for both in zip(tables, kernels, strict=True)]
    if state.second is None:
        return found
    more = zip(found, one_by_one(state.second), joints[0], strict=True)
    return [own._replace(second=second, joint=joint) for own, second, joint in more]


def open_episodes(spec: ReferenceSpec, width: int, blocks: BlockParts) -> dict[int, Episode]:
    """Return the episodes that are open, by the place of their model."""
    every = np.arange(len(blocks.moving))
    is_open = told_counts(spec, width, blocks, every)[:, OPENED] >= 0
    found = {}
    for model in np.flatnonzero(is_open).tolist():
        episode = open_episode(spec, state_at(spec, width, blocks, model))
        if episode is not None:
            found[model] = episode
    return found


def told_counts(spec: ReferenceSpec, width: int, blocks: BlockParts, models: IntArray) -> IntArray:
    """Return the counts of some models' references of all rows, (k, c), a copy; see `Tables`.

    How many episodes there were, and which row opened one, is as it is told.
    """
    counts = block.counts_of(*first_pace(spec, width, blocks))[models]
    joints = joints_of(spec, width, blocks)
    if joints is not None:
        counts[:, OPENED] = joints.wholes[models, OPEN_SINCE]
        counts[:, EPISODES] = joints.wholes[models, TOLD]
    return counts


def armed_of(spec: ReferenceSpec, width: int, blocks: BlockParts, models: IntArray) -> IntArray:
    """Return after how many rows some models' episodes may open, (k,), of references that move.

    0: not yet, and of others.
    """
    if not spec.moves:
        return np.zeros(len(models), np.int64)
    pace = first_pace(spec, width, blocks)
    lows = block.parts_of(pace.spec, width).moving.column(pace.blocks.moving, "lows")
    armed: IntArray = lows[models, -1, ARMED]
    return armed


def changes_of(spec: ReferenceSpec, width: int, blocks: BlockParts, models: IntArray) -> IntArray:
    """Return since when some devices have changed to stay, (k, 2), a copy: row, from 1, and time.

    0: it has not; see `joining.changed_since`.
    """
    joints = joints_of(spec, width, blocks)
    if joints is not None:
        return joints.wholes[models, CHANGED_ROW : CHANGED_TIME + 1]
    if not spec.moves:
        return np.zeros((len(models), 2), np.int64)
    compared: IntArray = block.parts_of(spec, width).moving.column(blocks.moving, "compared")
    return compared[models, CHANGED:]


def learned_episodes(spec: ReferenceSpec, width: int, blocks: BlockParts) -> int:
    """Return how many false episodes' rows were learned: of each model the most by a reference."""
    learned = [block.learned_episodes(*pace) for pace in paces_of(spec, width, blocks)]
    return int(np.maximum.reduce(learned).sum())


def blocks_ended(spec: ReferenceSpec, width: int, blocks: BlockParts) -> IntArray:
    """Return how many blocks of rows each model's references have seen the end of, (m,)."""
    ended: IntArray = sum(
        (block.blocks_ended(*pace) for pace in paces_of(spec, width, blocks)),
        np.zeros(len(blocks.moving), np.int64),
    )
    return ended
