"""Which device is unlike the others: distances between models, who stands apart, and a map.

A device that was broken from its first row on is its own normal: only its neighbours show it. Three
views of a model are compared, as far as its state has them.

**Subspace**, of trackers that store rows and a factor of fixed size (okfeb, covariance, oana): the
principal angles between two models' kernel subspaces, each of rows in its own model's scale. With
the common kernel κ, whose bandwidth is the median of the models', stored rows S and factor A, G =
AᵀK_SA = CCᵀ, U = AC⁻ᵀ: the basis Φ_SU is orthonormal, the cosines of the angles between a and b
are the singular values of U_aᵀκ(S_a, S_b)U_b, and

    d² = (q_a + q_b)/2 - ‖U_aᵀκ(S_a, S_b)U_b‖_F²

with q the dimension is the sum of the squared sines: the projection distance on the Grassmann
manifold (Edelman, Arias, Smith 1998, section 4.3; Hamm and Lee 2008).

**Ties**, of models with a reference (`monitor.reference`): how channels go together in a row, and
from row to row. With C the reference's covariance of its embedded rows, in its own scale and with
its ridge, d² = ½tr(C_aC_b⁻¹ + C_bC_a⁻¹) - E: Jeffreys' divergence (1946) of normal distributions
of these covariances. It is made of hundreds of rows where the subspace has a few dozen, and sees
dynamics: of the views it is by far the sharpest.

**Level**: centre and spread of the model's first rows, of which its scale is made. A channel's
centre is counted in the median of all models' spreads, its spread by its logarithm, both then in
the fleet's own deviations; d is the largest difference over the channels, so that one that is off
is not averaged away.

**Who is unlike.** Of a view, s is the mean distance to the k nearest among the landmarks, the model
itself aside: in a fleet of several kinds of devices each has neighbours of its own kind. In
logarithms, and in units of the upper half's median deviation from the median over the fleet, over
the view's `LIMITS`, that is the model's score in this view; its largest one is `apart`. Above 1 a
model is called unlike the others, by that view; never in a fleet of fewer than `FEWEST`.

**Map.** With D² the sum of the views' ln²(1 + d/median d), in which what is far out leaves the rest
its room, the first two principal coordinates of the landmarks (Torgerson 1952), the others placed
among them (de Silva and Tenenbaum 2004).

A view counts if half of the landmarks have it; a model without it is not judged by it. At most
`most` models are compared, and each with at most `LANDMARKS` of them, fewer if that would take too
long: those of the least hashes of their IDs, so that the choice depends on nothing else. Cost for n
models: O(n·m(B²(D + r) + E²)) time, m landmarks; memory O(m(BD + E²) + n). The sums have a fixed
order (C): the same bits on every processor, whatever order models come in.

References: A. Edelman, T. A. Arias, S. T. Smith, "The geometry of algorithms with orthogonality
constraints", SIAM J. Matrix Anal. Appl. 20, 1998. J. Hamm, D. D. Lee, "Grassmann discriminant
analysis", ICML 2008. H. Jeffreys, "An invariant form for the prior probability in estimation
problems", Proc. R. Soc. A 186, 1946. W. S. Torgerson, "Multidimensional scaling: I", Psychometrika
17, 1952. V. de Silva, J. B. Tenenbaum, "Sparse multidimensional scaling using landmark points",
2004. Score and threshold are this project's.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kerneltrack.arrays import FloatArray
from kerneltrack.errors import ConfigError
from kerneltrack.kernels import Kernel, gram, make_kernel
from kerneltrack.monitor import reference
from kerneltrack.monitor.mismatch import stores_rows
from kerneltrack.monitor.most_compared import MOST_COMPARED
from kerneltrack.monitor.reference import ReferenceSpec, ReferenceState
from kerneltrack.native.binding import call
from kerneltrack.native.elementary import elementary
from kerneltrack.registry import get_tracker
from kerneltrack.trackers.common.spec import SubspaceSpec
from kerneltrack.trackers.common.state import directions_used

_S = TypeVar("_S")
_T = TypeVar("_T")

SUBSPACE, TIES, LEVEL = VIEWS = ("subspace", "ties", "level")
LANDMARKS = 256
"""Models that each is compared with, at most."""
FEWEST_LANDMARKS = 32
MOST_STEPS = 4_000_000_000
"""Multiplications for all models; where there would be more, landmarks are fewer, 32 at least."""
FEWEST = 10
"""Models that it takes to call one of them unlike the others."""
NEAREST = 5
"""Neighbours that a model's distance is taken from."""
LIMITS = {SUBSPACE: 4.5, TIES: 7.0, LEVEL: 7.0}
"""Deviations of a view that are a score of 1 (benchmarks/bench_neighbours.py)."""
LEAST_SPREAD = 0.05
"""Deviation of ln s that is taken for granted, however alike the models are."""
LEAST_LEVEL = 0.05
"""Deviation of a channel's level and of its ln spread that is taken for granted."""
LOOKS = 64
"""Models that a thread looks at before more are read."""
_RIDGE = 1e-9


class Fingerprint(NamedTuple):
    """What is compared of a model; what it has not is None.

    Attributes:
        centre: (D,) mean of its first rows.
        scale: (D,) their standard deviation.
        rows: (B, D) stored rows, scaled.
        factor: (r, B) Aᵀ.
        bandwidth: γ.
        ties: (E, E) covariance of the reference's embedded rows.
    """

    centre: FloatArray | None
    scale: FloatArray | None
    rows: FloatArray | None
    factor: FloatArray | None
    bandwidth: float
    ties: FloatArray | None


class Neighbour(NamedTuple):
    """A model among the others.

    Attributes:
        model: Its ID.
        apart: The largest of its scores; NaN where nothing could be compared.
        view: The view that it is of, None likewise.
        unlike: Whether it is called unlike the others.
        scores: Of each of the views that were compared, by name.
        nearest: The IDs of its nearest landmarks in that view, the nearest first.
        shares: (D,) what each channel contributes to it, adding up to 1; None where the view does
            not tell, or the model is not unlike.
        place: Its place on the map.
    """

    model: str
    apart: float
    view: str | None
    unlike: bool
    scores: dict[str, float]
    nearest: tuple[str, ...]
    shares: FloatArray | None
    place: tuple[float, float]


class Neighbours(NamedTuple):
    """The devices of a fleet that were compared with each other.

    Attributes:
        models: Those that were compared, the one that stands furthest apart first.
        total: Models of the fleet.
        views: The views that could be compared.
        landmarks: Models that all were compared with.
    """

    models: list[Neighbour]
    total: int
    views: tuple[str, ...]
    landmarks: int


def fingerprint(
    spec: SubspaceSpec,
    state: Any,
    normal: tuple[ReferenceSpec, ReferenceState] | None = None,
) -> Fingerprint:
    """Take from a model's state what is compared.

    Args:
        spec: The tracker's spec.
        state: Its state.
        normal: The model's own reference and its spec; one that was given to many says nothing.
    """
    centre = scale = rows = factor = ties = None
    bandwidth = 1.0
    if spec.standardise:
        scale, centre = state.scale, state.shift * state.scale
    tracker = get_tracker(spec.tracker)
    if stores_rows(tracker) and hasattr(spec, "budget") and state.size:
        rows = np.ascontiguousarray(state.support[: state.size])
        used = directions_used(state.counts, state.factor)
        factor = np.zeros((len(state.factor), state.size))
        factor[:used] = state.factor[:used, : state.size]
        bandwidth = float(state.bandwidth[0])
    if normal is not None and reference.ready(normal[1]):
        tables = normal[1].tables
        scale, centre = tables.scale, tables.shift * tables.scale
        ties = _covariance(normal[0], tables)
    if normal is not None and isinstance(normal[0].mode, int):
        centre, scale, ties = _without_channel(normal[0].mode, centre, scale, ties)
    return Fingerprint(centre, scale, rows, factor, bandwidth, ties)


def _without_channel(
    channel: int, centre: FloatArray | None, scale: FloatArray | None, ties: FloatArray | None
) -> tuple[FloatArray | None, FloatArray | None, FloatArray | None]:
    """Return level and ties of one whose channel of modes is as everybody's: it measures nothing.

    The tracker's rows have 0 there already.
    """
    if centre is not None and scale is not None:
        centre, scale = centre.copy(), scale.copy()
        centre[channel], scale[channel] = 0.0, 1.0
        if ties is not None:
            own = np.arange(len(ties)) % len(centre) == channel
            ties = np.where(own[:, None] | own[None, :], np.diag(own.astype(float)), ties)
    return centre, scale, ties


def _covariance(spec: ReferenceSpec, tables: reference.Tables) -> FloatArray:
    """Return C = scatter/n + ρ(tr C/E)I of a reference's embedded rows, without means.

    Of one with modes it is that of the mode with the most rows.
    """
    mode, learned = 0, tables.counts[reference.LEARNED]
    if spec.modes:
        of_modes = tables.modes[:-1, reference.MODE_LEARNED]
        mode, learned = int(of_modes.argmax()), of_modes.max()
    size = len(tables.mean) // len(tables.scatter)
    own = size - tables.memory.shape[1]
    lower = reference.square(tables.scatter[mode], size)[:own, :own] / float(learned)
    trace = math.fsum(np.diag(lower).tolist())
    whole: FloatArray = lower + np.tril(lower, -1).T
    ridge = spec.ridge * trace / len(whole)
    whole[np.diag_indices(len(whole))] += ridge if ridge > 0 else 1.0
    return whole


def compare(
    spec: SubspaceSpec,
    names: Sequence[str],
    read: Callable[[str], Fingerprint | None],
    most: int = MOST_COMPARED,
    threads: int = 1,
) -> Neighbours:
    """Compare the models of a fleet.

    Args:
        spec: The tracker's spec, which all have.
        names: IDs of all models, in any order.
        read: Gives a model's fingerprint, None of one that has nothing yet. Those of landmarks are
            kept, the others not.
        most: Models that are compared, at most.
        threads: How many compare; `read` is called by one.

    Returns:
        The same, bit for bit, in whatever order names come.

    Raises:
        ConfigError: for models whose fingerprints are of different widths.

    Example:
        >>> from kerneltrack import CovarianceSpec, run_all
        >>> rng = np.random.default_rng(0)
        >>> ties = rng.normal(size=(2, 4))
        >>> spec, states = CovarianceSpec(rank=4, budget=20), {}
        >>> for number in range(40):
        ...     rows = rng.normal(size=(600, 2)) @ ties + 0.1 * rng.normal(size=(600, 4))
        ...     rows[:, 1] *= -1 if number == 7 else 1
        ...     states[f"pump-{number}"], _ = run_all(spec, rows)
        >>> found = compare(spec, list(states), lambda name: fingerprint(spec, states[name]))
        >>> first = found.models[0]
        >>> first.model, first.view, first.unlike
        ('pump-7', 'subspace', True)
    """
    if most < 1:
        raise ConfigError("most", most, "a number of models, at least 1")
    order = chosen(names, most)
    first = next((found for name in order if (found := read(name)) is not None), None)
    many = 0 if first is None else _landmarks_for(first, len(order))
    kept = [(name, found) for name in order[:many] if (found := read(name)) is not None]
    marks = _Landmarks(spec, kept, threads)
    among = {name: place for place, (name, _) in enumerate(kept)}
    compared: list[str] = []

    def each() -> Iterator[tuple[Fingerprint, int | None]]:
        for name in order:
            at = among.get(name)
            found = kept[at][1] if at is not None else read(name)
            if found is not None:
                compared.append(name)
                yield found, at

    far = list(_of_each(lambda model: marks.look(*model), each(), threads))
    return _neighbours(marks, compared, far, read, len(names))


def _landmarks_for(found: Fingerprint, models: int) -> int:
    """Return how many landmarks so many models like this one can be compared with in some time."""
    cost = len(_given(found.ties)) ** 2
    if found.rows is not None:
        (stored, width), rank = found.rows.shape, len(_given(found.factor))
        cost += stored**2 * (width + rank) + stored * rank**2
    return max(min(LANDMARKS, MOST_STEPS // max(models * cost, 1)), FEWEST_LANDMARKS)


def chosen(names: Iterable[str], most: int = MOST_COMPARED) -> list[str]:
    """Return the models of a fleet that are compared, in the order in which they are looked at."""
    return heapq.nsmallest(most, names, key=_hash)


def _hash(name: str) -> tuple[bytes, str]:
    data = name.encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).digest(), name


class _Look(NamedTuple):
    """A model against the landmarks.

    Attributes:
        mean: Its mean distance to the nearest, by view.
        nearest: Which they are, by view.
        place: Its place on the map.
    """

    mean: dict[str, float]
    nearest: dict[str, list[int]]
    place: tuple[float, float]


class _Landmarks:
    """The models that all are compared with."""

    def __init__(
        self, spec: SubspaceSpec, models: Sequence[tuple[str, Fingerprint]], threads: int = 1
    ) -> None:
        self.names = [name for name, _ in models]
        self.prints = [found for _, found in models]
        self._spec = spec
        self._have = {view: self._those_with(view) for view in VIEWS}
        self.views = tuple(view for view in VIEWS if self._have[view])
        having = {view: [self.prints[at] for at in self._have[view]] for view in VIEWS}
        if LEVEL in self.views:
            self._level = _Levels(having[LEVEL])
        if TIES in self.views:
            self._ties = _Packed([found.ties for found in having[TIES]])
        if SUBSPACE in self.views:
            self._bases = _Bases(spec, having[SUBSPACE])
        self._lay_out(threads)

    def _those_with(self, view: str) -> list[int]:
        """Return the landmarks that have a view, of the shape that most have; none if too few."""
        shapes = [_shape(found, view) for found in self.prints]
        known = [shape for shape in shapes if shape is not None]
        if not known:
            return []
        usual = max(dict.fromkeys(known), key=known.count)
        having = [at for at, shape in enumerate(shapes) if shape == usual]
        return having if 2 * len(having) >= len(shapes) else []

    def distances(self, found: Fingerprint) -> dict[str, FloatArray]:
        """Return a model's distances to the landmarks, by view, (m,); NaN where one has it not."""
        away = {}
        for view in self.views:
            having = self._have[view]
            away[view] = np.full(len(self.prints), np.nan)
            if _shape(found, view) != _shape(self.prints[having[0]], view):
                continue
            if view == SUBSPACE:
                away[view][having] = self._bases.distances(found)
            elif view == TIES:
                away[view][having] = self._ties.distances(found.ties)
            else:
                away[view][having] = self._level.distances(found)
        return away

    def _lay_out(self, threads: int) -> None:
        """Make the map of the landmarks."""
        count = len(self.prints)
        tables = {view: np.zeros((count, count)) for view in self.views}
        for at, apart in enumerate(_of_each(self.distances, self.prints, threads)):
            for view, away in apart.items():
                tables[view][at] = away
        self._own, self._usual = tables, {}
        above = np.triu_indices(count, 1)
        for view, table in tables.items():
            # Each of a pair was measured by itself: equal but for rounding.
            table[...] = (table + table.T) / 2
            table[np.diag_indices(count)] = 0.0
            known = table[above][~np.isnan(table[above])]
            usual = float(np.median(known)) if len(known) else 1.0
            self._usual[view] = usual if usual > 0 else 1.0
        square = np.zeros((count, count))
        for view, table in tables.items():
            square += self._squashed(view, table)
        self._map = _Map(square)

    def _squashed(self, view: str, distance: FloatArray) -> FloatArray:
        """Return what a view's distances add to the squared ones of the map.

        Where there is none the usual one stands in.
        """
        known = np.where(np.isnan(distance), self._usual[view], distance)
        logs = elementary("log", 1.0 + np.ravel(known) / self._usual[view])
        square: FloatArray = (logs**2).reshape(distance.shape)
        return square

    def look(self, found: Fingerprint, at: int | None) -> _Look:
        """Look at a model; `at`: which of the landmarks it is, if it is one."""
        away = (
            self.distances(found)
            if at is None
            else {view: table[at] for view, table in self._own.items()}
        )
        mean, nearest = {}, {}
        square = np.zeros(len(self.prints))
        for view, distance in away.items():
            square += self._squashed(view, distance)
            there = np.flatnonzero(~np.isnan(distance))
            there = there[there != at] if at is not None else there
            if not len(there):
                continue
            order = np.argsort(distance[there], kind="stable")[:NEAREST]
            nearest[view] = there[order].tolist()
            mean[view] = math.fsum(distance[nearest[view]].tolist()) / len(order)
        return _Look(mean, nearest, self._map.place(square))

    def shares(self, found: Fingerprint, view: str, nearest: Sequence[int]) -> FloatArray | None:
        """Return what each channel contributes to a model's distance from its nearest landmarks."""
        if view == SUBSPACE:
            return None
        parts = [
            self._level.parts(found, self.prints[place])
            if view == LEVEL
            else _parts_of_ties(found.ties, self.prints[place].ties, len(_given(found.scale)))
            for place in nearest
        ]
        total = np.zeros(len(_given(found.scale)))
        for part in parts:
            total += part
        whole = math.fsum(total.tolist())
        return total / whole if whole > 0 else None


def _given(array: FloatArray | None) -> FloatArray:
    return np.zeros(0) if array is None else array


def _shape(found: Fingerprint, view: str) -> tuple[int, ...] | None:
    """Return what must be equal for two models to be compared in a view."""
    if view == LEVEL:
        return None if found.centre is None else found.centre.shape
    if view == TIES:
        return None if found.ties is None else found.ties.shape
    return None if found.rows is None else (found.rows.shape[1],)


class _Levels:
    """Centres and spreads of the landmarks, in the fleet's deviations."""

    def __init__(self, prints: Sequence[Fingerprint]) -> None:
        scales = np.array([found.scale for found in prints])
        self._unit = np.median(scales, axis=0)
        points = np.array([self._raw(found) for found in prints])
        middle = np.median(points, axis=0)
        spread = 1.4826 * np.median(np.abs(points - middle), axis=0)
        self._spread = np.maximum(spread, LEAST_LEVEL)
        self._points = points / self._spread

    def _raw(self, found: Fingerprint) -> FloatArray:
        return np.concatenate(
            [_given(found.centre) / self._unit, elementary("log", _given(found.scale))]
        )

    def distances(self, found: Fingerprint) -> FloatArray:
        point = self._raw(found) / self._spread
        away: FloatArray = np.abs(self._points - point).max(axis=1)
        return away

    def parts(self, left: Fingerprint, right: Fingerprint) -> FloatArray:
        """Return by how much the channels differ, squared."""
        gap = np.abs(self._raw(left) - self._raw(right)) / self._spread
        parts: FloatArray = gap.reshape(2, -1).max(axis=0) ** 2
        return parts


class _Packed:
    """Covariances of the landmarks and their inverses, as rows whose products are traces."""

    def __init__(self, ties: Sequence[FloatArray | None]) -> None:
        whole = [_given(found) for found in ties]
        self._size = len(whole[0])
        self._rows = np.array([_row(found) for found in whole])
        self._inverses = np.array([_row(_inverse(found)) for found in whole])

    def distances(self, ties: FloatArray | None) -> FloatArray:
        own = _given(ties)
        forth, back = np.empty((2, 1, len(self._rows)))
        call("multiply_transposed", _row(own)[None], self._inverses, forth)
        call("multiply_transposed", _row(_inverse(own))[None], self._rows, back)
        away: FloatArray = np.sqrt(np.maximum((forth + back)[0] / 2 - self._size, 0.0))
        return away


def _row(matrix: FloatArray) -> FloatArray:
    """Return a symmetric matrix as a row; the product of two such is the trace of theirs."""
    at = np.tril_indices(len(matrix))
    row: FloatArray = matrix[at] * np.where(at[0] == at[1], 1.0, math.sqrt(2.0))
    return np.ascontiguousarray(row)


def _inverse(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a positive definite matrix."""
    size = len(matrix)
    chol, half, turned, out = np.zeros((4, size, size))
    call("inverse_cholesky", np.ascontiguousarray(matrix), (0.0,), chol, half, turned)
    call("multiply_transposed", np.ascontiguousarray(turned), turned, out)
    return out


def _divergence(left: FloatArray, right: FloatArray) -> float:
    both = _Packed([right])
    return float(both.distances(left)[0] ** 2)


def _parts_of_ties(left: FloatArray | None, right: FloatArray | None, width: int) -> FloatArray:
    """Return by how much d² falls where a channel is left out, of each channel."""
    a, b = _given(left), _given(right)
    whole, parts = _divergence(a, b), np.zeros(width)
    for channel in range(width if width > 1 else 0):
        kept = np.flatnonzero(np.arange(len(a)) % width != channel)
        part = np.ix_(kept, kept)
        parts[channel] = max(whole - _divergence(a[part], b[part]), 0.0)
    return parts if width > 1 else np.ones(1)


class _Bases:
    """Orthonormal bases of the landmarks' subspaces under one kernel."""

    def __init__(self, spec: SubspaceSpec, prints: Sequence[Fingerprint]) -> None:
        gamma = sorted(found.bandwidth for found in prints)[len(prints) // 2]
        self._kernel: Kernel = make_kernel(spec.kernel, gamma, spec.degree, spec.offset)
        slots = max(len(_given(found.rows)) for found in prints)
        width = _given(prints[0].rows).shape[1]
        rank = len(_given(prints[0].factor))
        self._rows = np.zeros((len(prints), slots, width))
        self._bases = np.zeros((len(prints), rank, slots))
        self._own = np.zeros(len(prints))
        for at, found in enumerate(prints):
            basis = self._basis(found)
            self._rows[at, : len(_given(found.rows))] = found.rows
            self._bases[at, :, : basis.shape[1]] = basis
            self._own[at] = self._overlap(found, basis)

    def _basis(self, found: Fingerprint) -> FloatArray:
        """Return Uᵀ, (r, B): rows of directions that are not there are zero, or all but zero."""
        factor, rows = _given(found.factor), _given(found.rows)
        rank = len(factor)
        image, square = np.empty((rank, len(rows))), np.empty((rank, rank))
        call("multiply_transposed", factor, gram(self._kernel, rows, rows), image)
        call("multiply_transposed", image, factor, square)
        trace = math.fsum(np.diag(square).tolist())
        if not trace > 0:
            return np.zeros_like(factor)
        chol, half, turned, basis = (np.zeros((rank, rank)) for _ in range(4))
        call("inverse_cholesky", square, (_RIDGE * trace / rank,), chol, half, turned)
        basis = np.empty_like(factor)
        call("multiply_transposed", half, np.ascontiguousarray(factor.T), basis)
        return basis

    def _overlap(self, found: Fingerprint, basis: FloatArray) -> float:
        out = np.empty(1)
        rows = np.ascontiguousarray(_given(found.rows))
        call("overlaps", self._kernel, rows, basis, rows, basis, out)
        return float(out[0])

    def distances(self, found: Fingerprint) -> FloatArray:
        basis, out = self._basis(found), np.empty(len(self._own))
        own = self._overlap(found, basis)
        rows = np.ascontiguousarray(_given(found.rows))
        width, slots = self._rows.shape[2], self._rows.shape[1]
        others = self._rows.reshape(-1, width), self._bases.reshape(-1, slots)
        call("overlaps", self._kernel, rows, basis, *others, out)
        away: FloatArray = np.sqrt(np.maximum((own + self._own) / 2 - out, 0.0))
        return away


class _Map:
    """Two principal coordinates of points that are known by their squared distances, (m, m)."""

    def __init__(self, square: FloatArray) -> None:
        count = len(square)
        self._means = np.array([math.fsum(row) / max(count, 1) for row in square.tolist()])
        mean = math.fsum(self._means.tolist()) / max(count, 1)
        centred = (self._means[:, None] + self._means[None, :] - square - mean) / 2
        values, across, along = np.empty((3, count))
        turns = np.empty((count, count))
        if count:
            call("eigenvectors", np.ascontiguousarray(centred), values, across, along, turns)
        order = sorted(range(count), key=lambda place: (-values[place], place))[:2]
        self._axes = np.zeros((2, count))
        for axis, place in enumerate(order):
            # Below rounding there is no axis.
            if values[place] > 1e-12 * abs(values[order[0]]):
                vector = turns[place]
                sign = 1.0 if vector[int(np.abs(vector).argmax())] >= 0 else -1.0
                self._axes[axis] = sign * vector / math.sqrt(values[place])

    def place(self, square: FloatArray) -> tuple[float, float]:
        """Return the place of a point with these squared distances, (m,)."""
        gap = (self._means - square) / 2
        first, second = (math.fsum((axis * gap).tolist()) for axis in self._axes)
        return first, second


def _of_each(look: Callable[[_S], _T], models: Iterable[_S], threads: int) -> Iterator[_T]:
    """Look at models, some in each thread: the sums are C's, which keeps no lock of Python's."""
    if threads == 1:
        yield from map(look, models)
        return
    models = iter(models)
    with ThreadPoolExecutor(threads) as pool:
        while some := list(islice(models, threads * LOOKS)):
            parts = [some[start::threads] for start in range(threads)]
            looks = list(pool.map(lambda part: list(map(look, part)), parts))
            yield from (looks[at % threads][at // threads] for at in range(len(some)))


def _neighbours(
    marks: _Landmarks,
    names: Sequence[str],
    looks: Sequence[_Look],
    read: Callable[[str], Fingerprint | None],
    total: int,
) -> Neighbours:
    scores = {
        view: _scores([look.mean.get(view) for look in looks], LIMITS[view]) for view in marks.views
    }
    found = []
    for at, (name, look) in enumerate(zip(names, looks, strict=True)):
        own = {view: scores[view][at] for view in marks.views if view in look.mean}
        view = max(own, key=lambda view: own[view]) if own else None
        apart = own[view] if view is not None else math.nan
        unlike = apart > 1.0 and len(names) >= FEWEST
        near = look.nearest[view] if view is not None else []
        nearest, shares = tuple(marks.names[place] for place in near), None
        if unlike and view is not None and (again := read(name)) is not None:
            shares = marks.shares(again, view, near)
        found.append(Neighbour(name, apart, view, unlike, own, nearest, shares, look.place))
    found.sort(key=lambda model: (math.isnan(model.apart), -model.apart, model.model))
    return Neighbours(found, total, marks.views, len(marks.names))


def _scores(means: Iterable[float | None], limit: float) -> list[float]:
    """Return how far ln s of each model is from the median, in the upper half's deviations."""
    known = [value if value is not None else math.nan for value in means]
    logs = elementary("log", np.maximum(np.nan_to_num(np.array(known), nan=1.0), 1e-12))
    there = ~np.isnan(np.array(known))
    if not there.any():
        return known
    middle = float(np.median(logs[there]))
    above = logs[there & (logs > middle)] - middle
    spread = max(float(np.median(above)) if len(above) else 0.0, LEAST_SPREAD)
    scores: list[float] = np.where(there, (logs - middle) / (limit * spread), np.nan).tolist()
    return scores
