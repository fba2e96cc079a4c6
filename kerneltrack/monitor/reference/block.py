"""Many models' references at once; what a call costs in Python is paid once a block of models.

A reference is two blocks of bytes: what changes with every row, and what changes only where a block
of `BLOCK` rows ends, if the reference learns. Whoever keeps references between their rows need not
write the larger part each time; of the other the rows that are yet to come are left out. The row
loop is that of `update`, and so are the bits.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import BoolArray, FloatArray, IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.monitor.clocks import local_times
from kerneltrack.monitor.reference.episodes import (
    Episode,
    EpisodeRoom,
    make_room,
    read_episode,
)
from kerneltrack.monitor.reference.run import NOTHING_SAID, Scores, settings_of
from kerneltrack.monitor.reference.spec import BLOCK, ReferenceSpec
from kerneltrack.monitor.reference.state import (
    BEGAN,
    CALIBRATED,
    EPISODES_LEARNED,
    FLAGS,
    MODE_UNPLACED,
    OF_KERNEL,
    OPENED,
    PAD,
    PASSED_BY,
    SEEN,
    ReferenceState,
    Tables,
    count_passed,
    from_arrays,
    init,
    layout,
    layout_of_kernel,
    next_places,
    passed_last,
    storable,
)
from kerneltrack.native.binding import address, call, packed
from kerneltrack.trackers.common.first_rows import look_at_each, scaling_of_each
from kerneltrack.trackers.common.places import Lanes, Places, side_by_side, spans, words_of_each
from kerneltrack.trackers.common.scaling import Scaling, apply_scaling
from kerneltrack.trackers.covariance.state import CovarianceState
from kerneltrack.trackers.covariance.tracker import settings_of as tracking_of

Blocks = npt.NDArray[np.uint8]

KEPT_TABLES = (
    *("shift", "scale", "mean", "scatter", "whitener", "unseen", "scores", "calibration"),
    *("tally", "hours", "waiting", "causes", "units", "former", "episode_sums", "shapes"),
    *("ranges", "lasting"),
)
"""Those of the tables that only the end of a block changes; the kernel subspace is another."""
OF_ROWS = ("rows", "measured", *FLAGS)
"""Those that the open block's rows fill, one after the other."""
SCORES = Lanes.of(Scores.none(1).columns)
"""Room for what the loop says of rows."""


class BlockParts(NamedTuple):
    """A reference as bytes, or where the arrays of one lie in them.

    Attributes:
        moving: What changes with every row; folded where a single reference is meant.
        kept: What changes where a block ends.
    """

    moving: Any
    kept: Any


@dataclasses.dataclass(frozen=True)
class Watched:
    """What came of m models' rows, n of them.

    Attributes:
        scores: Of the n rows.
        episodes: Of each model, the episodes that were opened or closed.
        done: (m,) which models' rows have all been run; of the others nothing is said.
    """

    scores: Scores
    episodes: list[list[Episode]]
    done: BoolArray


@lru_cache(maxsize=16)
def parts_of(spec: ReferenceSpec, width: int) -> BlockParts:
    """Return where the arrays of references lie, for rows of so many channels."""
    tables = layout(spec, width)
    kept = {name: tables[name] for name in KEPT_TABLES}
    kernel = {f"{OF_KERNEL}{name}": like for name, like in layout_of_kernel(spec, width).items()}
    moving = {name: tables[name] for name in tables if name not in kept and name not in OF_ROWS}
    moving |= {name: tables[name] for name in OF_ROWS}
    return BlockParts(Places.of(moving), Places.of({**kept, **kernel}))


def _joined(spec: ReferenceSpec, state: ReferenceState) -> BlockParts:
    """Return the bytes of both parts, nothing left out."""
    parts = _orders(spec, len(state.tables.scale)).parts
    return BlockParts(*(b"".join(part((*state.tables, *state.kernel))) for part in parts))


def unpack(spec: ReferenceSpec, width: int, data: BlockParts) -> ReferenceState:
    """Return a reference that `pack` wrote, after a look at its values.

    Raises:
        ConfigError: for bytes of another length, or counts that no state has.
    """
    moving, kept = parts_of(spec, width)
    blocks, fine = unfold(spec, width, [data.moving])
    if not fine[0]:
        raise ConfigError("reference", f"{len(data.moving)} bytes", "as many as its rows take")
    named = {**moving.arrays(blocks[0].tobytes()), **kept.arrays(data.kept)}
    return from_arrays(spec, storable(named))


def fold(spec: ReferenceSpec, width: int, moving: Blocks) -> list[bytes]:
    """Return the moving parts of references, (m, bytes), each without what need not be kept."""
    places, head = parts_of(spec, width).moving, _head_of(spec, width)
    rows, measured, *flags = (places.column(moving, name) for name in _of_rows(places))
    ends = next_places(places.column(moving, "counts")).tolist()
    before = spec.lags_for(width) - 1
    return [
        b"".join(
            (
                moving[model, :head].tobytes(),
                rows[model, : before + end].tobytes(),
                measured[model, :, :end].tobytes(),
                *(flag[model, :end].tobytes() for flag in flags),
            )
        )
        for model, end in enumerate(ends)
    ]


def unfold(spec: ReferenceSpec, width: int, folded: Sequence[bytes]) -> tuple[Blocks, BoolArray]:
    """Return the moving parts, (m, bytes), that `fold` left, and which have the right length."""
    places, head = parts_of(spec, width).moving, _head_of(spec, width)
    moving = np.zeros((len(folded), places.size), np.uint8)
    fine = np.array([len(data) >= head for data in folded], np.bool_)
    for model in np.flatnonzero(fine).tolist():
        moving[model, :head] = np.frombuffer(folded[model], np.uint8, head)
    rows, measured, *flags = (places.column(moving, name) for name in _of_rows(places))
    ends = next_places(places.column(moving, "counts")).tolist()
    before = spec.lags_for(width) - 1
    for model in np.flatnonzero(fine).tolist():
        end, data = ends[model], folded[model]
        reals = width * (before + end), measured.shape[1] * end
        if len(data) != head + 8 * sum(reals) + len(flags) * end:
            fine[model] = False
            continue
        rows[model, : before + end].flat = np.frombuffer(data, np.float64, reals[0], head)
        at = head + 8 * reals[0]
        measured[model, :, :end].flat = np.frombuffer(data, np.float64, reals[1], at)
        for part, flag in enumerate(flags):
            flag[model, :end] = np.frombuffer(data, np.bool_, end, at + 8 * reals[1] + part * end)
    return moving, fine


def _of_rows(places: Places) -> list[str]:
    """Return the arrays that the open block's rows fill, without empty ones."""
    return [name for name in OF_ROWS if math.prod(places.likes[name].shape)]


def _head_of(spec: ReferenceSpec, width: int) -> int:
    """Return the bytes before what the open block's rows fill."""
    places: Places = parts_of(spec, width).moving
    return places.offsets[OF_ROWS[0]]


def columns_of(spec: ReferenceSpec, width: int, blocks: BlockParts) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of references, (m, ...) by name, in place; of (m, bytes) of each part."""
    return {
        name: places.column(part, name)
        for places, part in zip(parts_of(spec, width), blocks, strict=True)
        for name in places.likes
    }


def begin(spec: ReferenceSpec, rows: FloatArray, starts: IntArray, stops: IntArray) -> BlockParts:
    """Return the references of m models that begin, (m, bytes) of each part: `init` of each.

    Args:
        spec: The spec.
        rows: (n, D), finite.
        starts: (m,) place of each model's first row.
        stops: (m,) place after the last of its first rows, at least one.
    """
    one = _joined(spec, init(spec, rows[starts[0] : stops[0]]))
    blocks = BlockParts(*(side_by_side([part] * len(starts), len(part)) for part in one))
    if len(starts) == 1:
        return blocks
    columns, lengths = columns_of(spec, rows.shape[1], blocks), stops - starts
    scaling = scaling_of_each(rows, starts, stops)
    columns["shift"][...], columns["scale"][...] = scaling
    if spec.moves:
        return blocks
    # The kernel subspace begins with the same rows, scaled.
    owner = np.repeat(np.arange(len(starts)), lengths)
    ends = np.cumsum(lengths)
    first = np.arange(len(owner)) + np.repeat(starts - ends + lengths, lengths)
    of_rows = Scaling(scaling.shift[owner], scaling.scale[owner])
    scaled = apply_scaling(of_rows, rows[first], math.inf)
    seen = look_at_each(spec.kernel, scaled, ends - lengths, ends)
    for name, array in seen._asdict().items():
        columns[f"{OF_KERNEL}{name}"][...] = array
    return blocks


def go_on(  # noqa: PLR0913 - rows come as columns
    spec: ReferenceSpec,
    blocks: BlockParts,
    rows: FloatArray,
    starts: IntArray,
    stops: IntArray,
    times: IntArray,
    *,
    models: IntArray | None = None,
    learn: bool = True,
    said: Sequence[IntArray] = (),
) -> Watched:
    """Hold the rows of models against references that there are already.

    Args:
        spec: The spec.
        blocks: (m, bytes) of each part, nothing left out; written to.
        rows: (n, D), finite; a model's follow one another, in the order of their times.
        starts: (k,) place of each model's first row.
        stops: (k,) place after each model's last row.
        times: (n,) event times, ns.
        models: (k,) whose rows these are, places among the blocks; None: all of them, in order.
        learn: As of `update`.
        said: Of each of these models; none: nothing of any.

    Returns:
        What `update` says of each model's rows, bit for bit. A model whose new normal is accepted,
        or whose stretch an event time is to end, is not done.
    """
    many, width = len(starts), rows.shape[1]
    which = np.arange(many) if models is None else models
    laid = _laid_out(spec, width, learn)
    counts = counts_of(spec, width, blocks)[which]
    tables, subspaces = _words(spec, width, blocks, models)
    rooms = np.full((len(SCORES.kinds), len(rows)), np.nan), laid.episodes.room(len(rows))
    reached = np.zeros((many, 3), np.int64)
    ends = words_of_each(reached)
    both = times, local_times(times, spec.zone_of_hours)
    given = (
        spans(rows, starts, stops),
        *(spans(part, starts, stops) for part in both),
        _spans_of(said) if said else np.tile(_spans_of([NOTHING_SAID]), (many, 1)),
    )
    lanes = zip((SCORES, laid.episodes), rooms, strict=True)
    outs = [lane.spans(room, len(rows), starts, stops) for lane, room in lanes]
    words = (part.tobytes() for part in (*given, *outs, ends))
    call("reference_run_each", laid.settings, (many,), tables, laid.tracking, subspaces, *words)
    episodes: list[list[Episode]] = [[] for _ in range(many)]
    if np.count_nonzero(reached[:, 1]):
        room = EpisodeRoom(*laid.episodes.arrays(rooms[1], len(rows)))
        scales = columns_of(spec, width, blocks)["scale"][which]
        episodes = _episodes_of(room, starts, reached[:, 1], spec.lags_for(width), scales)
    done = (reached[:, 0] == stops - starts) & (reached[:, 2] == 0) & ~_by_time(spec, counts)
    return Watched(Scores(*rooms[0]), episodes, done)


def _spans_of(tables: Sequence[IntArray]) -> IntArray:
    """Return address and lengths of each table, (m, 3), which must live while these are used."""
    return np.array([(address(table), *table.shape) for table in tables], np.int64)


class _LaidOut(NamedTuple):
    """What the loop takes that is the same in each call.

    Attributes:
        settings: The spec.
        tracking: That of the kernel subspace.
        episodes: Room for what it tells of them.
    """

    settings: bytes
    tracking: bytes
    episodes: Lanes


@lru_cache(maxsize=16)
def _laid_out(spec: ReferenceSpec, width: int, learn: bool) -> _LaidOut:
    settings, tracking = settings_of(spec, width, learn), tracking_of(spec.kernel, True)
    return _LaidOut(packed(settings), packed(tracking), Lanes.of(make_room(1, width)))


class _Orders(NamedTuple):
    """How the arrays of a state, tables before kernel subspace, become those of parts, and back.

    Attributes:
        parts: Of each part: choose its arrays of a state's, in their order.
        state: Chooses a state's arrays of the parts', one part's after the other's.
        structure: (words,) tables and then kernel subspace as the loop takes them, where the
            parts begin at 0.
        addressed: (2, words) of each part, 1 where a word is an address in it, else 0.
        tables: How many of the words are those of the tables.
    """

    parts: tuple[Callable[[Any], tuple[Any, ...]], ...]
    state: Callable[[Any], tuple[Any, ...]]
    structure: IntArray
    addressed: IntArray
    tables: int


@lru_cache(maxsize=16)
def _orders(spec: ReferenceSpec, width: int) -> _Orders:
    names = [*Tables._fields, *(f"{OF_KERNEL}{name}" for name in CovarianceState._fields)]
    parts = [[*part.likes] for part in parts_of(spec, width)]
    there = [name for part in parts for name in part]
    places = parts_of(spec, width)
    likes = {**places.moving.likes, **places.kept.likes}
    ends = accumulate((1 + len(likes[name].shape) for name in there), initial=0)
    begins = dict(zip(there, ends, strict=False))
    words = [[*range(begins[n], begins[n] + 1 + len(likes[n].shape))] for n in names]
    structure = np.concatenate([part.structure for part in places])
    addressed = np.zeros((len(places), len(structure)), np.int64)
    edge = len(places.moving.structure)
    addressed[0, :edge], addressed[1, edge:] = (part.addressed for part in places)
    order = [*chain(*words)]
    return _Orders(
        tuple(itemgetter(*map(names.index, part)) for part in parts),
        itemgetter(*map(there.index, names)),
        structure[order],
        np.ascontiguousarray(addressed[:, order]),
        sum(map(len, words[: len(Tables._fields)])),
    )


def _words(
    spec: ReferenceSpec, width: int, blocks: BlockParts, models: IntArray | None = None
) -> tuple[bytes, bytes]:
    """Return tables and kernel subspaces of some references, or all, as the loop takes them."""
    orders = _orders(spec, width)
    places = np.arange(len(blocks.moving)) if models is None else models
    begins = np.empty((len(places), len(blocks)), np.int64)
    for at, table in enumerate(blocks):
        # A table may be part of a wider one, but each of its rows is contiguous.
        begins[:, at] = places * table.strides[0] + (address(table[0]) if len(table) else 0)
    words = begins @ orders.addressed
    words += orders.structure
    return words[:, : orders.tables].tobytes(), words[:, orders.tables :].tobytes()


def runs_one_by_one(spec: ReferenceSpec, width: int, blocks: BlockParts) -> BoolArray:
    """Return which references have a stretch that an event time is to end, (m,)."""
    return _by_time(spec, counts_of(spec, width, blocks))


def _by_time(spec: ReferenceSpec, counts: IntArray) -> BoolArray:
    """Return `runs_one_by_one` of references by their counts, (m, 22)."""
    if spec.until is None:
        return np.zeros(len(counts), np.bool_)
    found: BoolArray = (counts[:, CALIBRATED] <= 0) & (counts[:, BEGAN] <= 0)
    return found


def joined_states(
    spec: ReferenceSpec, width: int, states: Sequence[ReferenceState | None]
) -> BlockParts:
    """Return copies of references, (m, bytes) of each part; zeros where there is none."""
    places, orders = parts_of(spec, width), _orders(spec, width).parts
    arrays = [None if state is None else (*state.tables, *state.kernel) for state in states]
    blocks = []
    for part, chosen in zip(places, orders, strict=True):
        nothing = [bytes(part.size)]
        bodies = [nothing if each is None else chosen(each) for each in arrays]
        body = bytearray().join(chain.from_iterable(bodies))
        blocks.append(np.frombuffer(body, np.uint8).reshape(len(states), part.size))
    if any(state is None for state in states):
        # Nor is any episode open.
        counts = places.moving.column(blocks[0], "counts")
        counts[[state is None for state in states], OPENED] = -1
    return BlockParts(*blocks)


def pass_by(
    spec: ReferenceSpec, width: int, blocks: BlockParts, models: IntArray, rows: IntArray
) -> None:
    """Let so many rows of each of some models pass by: they count as rows, and nothing more.

    The next row is held against no row before it, as after a gap.
    """
    columns = columns_of(spec, width, blocks)
    counts = columns["counts"][models]
    count_passed(counts, rows)
    columns["counts"][models] = counts
    columns["previous"][models] = PASSED_BY


def passed_last_each(spec: ReferenceSpec, width: int, blocks: BlockParts) -> BoolArray:
    """Return whose newest row passed by, (m,)."""
    return passed_last(parts_of(spec, width).moving.column(blocks.moving, "previous"))


def counts_of(spec: ReferenceSpec, width: int, blocks: BlockParts) -> IntArray:
    """Return each reference's counts, in place, (m, k); see `Tables`."""
    counts: IntArray = parts_of(spec, width).moving.column(blocks.moving, "counts")
    return counts


def blocks_ended(spec: ReferenceSpec, width: int, blocks: BlockParts) -> IntArray:
    """Return how many blocks of rows each reference has seen the end of, (m,)."""
    counts = counts_of(spec, width, blocks)
    ended: IntArray = (counts[:, SEEN] + counts[:, PAD]) // BLOCK
    return ended


def state_at(spec: ReferenceSpec, width: int, blocks: BlockParts, place: int) -> ReferenceState:
    """Return one of m references, in place."""
    there = zip(parts_of(spec, width), blocks, strict=True)
    flat = _orders(spec, width).state([*chain(*(part.one(table, place) for part, table in there))])
    many = len(Tables._fields)
    return ReferenceState(Tables(*flat[:many]), CovarianceState(*flat[many:]))


def unplaced_rows(spec: ReferenceSpec, width: int, blocks: BlockParts) -> int:
    """Return how many rows of all references were of modes that have no place."""
    if not spec.modes:
        return 0
    modes = parts_of(spec, width).moving.column(blocks.moving, "modes")
    return int(modes[:, -1, MODE_UNPLACED].sum())


def learned_episodes(spec: ReferenceSpec, width: int, blocks: BlockParts) -> IntArray:
    """Return how many false episodes' rows each reference has learned, (m,)."""
    if not spec.moves:
        return np.zeros(len(blocks.moving), np.int64)
    episodes: IntArray = parts_of(spec, width).moving.column(blocks.moving, "episodes")
    return episodes[:, -1, EPISODES_LEARNED]


def ready_of(spec: ReferenceSpec, width: int, blocks: BlockParts) -> BoolArray:
    """Return which references are made, (m,); see `state.ready`."""
    counts = counts_of(spec, width, blocks)
    made: BoolArray = counts[:, CALIBRATED] > 0
    return made


def _episodes_of(
    room: EpisodeRoom, starts: IntArray, many: IntArray, lags: int, scales: FloatArray
) -> list[list[Episode]]:
    """Return each model's episodes of what the loop filled, from the place of its first row on.

    `scales`: (m, D) as of `Tables`.
    """
    episodes: list[list[Episode]] = [[] for _ in many]
    for model in np.flatnonzero(many).tolist():
        first = int(starts[model])
        places = range(first, first + int(many[model]))
        episodes[model] = [read_episode(room, at, lags, scales[model]) for at in places]
    return episodes
