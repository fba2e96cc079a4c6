"""Experts side by side, and a mixture that is nearly as good as the best of them.

The learner is told of a row its own channels x and the features z that a tracker makes of it
(`begin` says how many of the inputs are channels). It has, for classes as for targets,

- two memories, each a recursive ridge over (1, x, κ(u_1, x), ..., κ(u_m, x), z): one of all rows,
  one of about the last 1/(1 - ρ). Each is read off at four places, as the ridge over 1 (the
  commonest label), over (1, x), over (1, x, map) and over all: eight experts;
- a passive-aggressive follower on (1, x);
- the 16 nearest rows of a window, the last W that were learned from: three experts, which weigh
  them by 1/distance⁴, take the first 4 alike, or all;
- random ferns on x, one expert;
- the last label, if labels come at once: it stays as often as it did, and after each label others
  come as often as they did, of late;
- a stack: a logistic (for targets linear) regression on what all these say;

and mixes the fifteen.

**The map** and the nearest rows measure ‖s∘(x - u)‖, s a scale of each channel. At row 128 s is
the same for all channels, such that rows of the window are √2 apart (root mean square), whatever
unit they came in; at 512 (2,048 ...) and when the window is full for the first time

    s_d² ~ .9·G_d/ΣG + .1/D,   G_d = mean over rows of Σ_c (∂f_c/∂x_d)²,

f_c what the long memory says of class c: channels that do not matter no longer blur those that do.
Of a target G_d is the variance of the slopes: what rises evenly along a channel the ridge over the
row has.
Each time nine tenths of the landmarks are chosen anew among the rows of the window, each in
proportion to 1 - κ to the nearest one chosen before, by evenly spaced draws; and the memories begin
anew by all rows of the window, which are all rows so far, as if this map had been there at the
first row: by the last 128 at once, by the others, the oldest first, 16 with each row that follows,
with the weight that forgetting has left them. So no row takes many rows' time. The other landmarks
are rows that come later, the sooner the farther they are from all others and the less probable
their class was, by (1 - κ)²·(1 - p), and at least so often that all are met within about W rows,
unless rows repeat themselves.

**Nested ridges.** A memory keeps the inverse of H = Σρ^{n-i}x_i x_iᵀ + D_n as NᵀDN, N lower
triangular with ones on the diagonal, D diagonal, and g = DN Σρ^{n-i}y_i x_i. With f = Nx the ridge
over all coordinates says Σ_i f_i g_i, and the sum over the first j is what the ridge over the first
j coordinates alone says, exactly. A row takes all on, coordinate by coordinate (Bierman's update of
such factors): from α_0 = 1, u = 0 and the label as e_0,

    v = D_i f_i/ρ,   α_i = α_{i-1} + f_i v,   e_i = e_{i-1} - f_i g_i,   g_i ← g_i + e_i v/α_i,
    D_i ← D_i α_{i-1}/(ρ α_i),   N_i ← N_i - u f_i/α_{i-1},   u ← u + v N_i  (N_i as it was),

e_i the error of the ridge over the first i coordinates. λ that forgetting costs is restored to one
coordinate in turn, every fourth row (see `ridge`).

**Ferns.** Each of F ferns asks four questions x_d > t and has a leaf for each of their 16 outcomes.
When the map is made, d is drawn among all channels and t between what two rows of the window have
there (random numbers by counters, the same for every learner); the leaves begin at 0, and learn all
rows anew as the memories do. A class's value is the sum of what the leaves say that the row comes
to; a labelled row moves these by

    (.8/√F)·(1 + G)^-½·(y - softmax(values)),   G ← .99·G + ‖y - softmax(values)‖²,

G one of each leaf; in regression by (1/F)·(1 + G)^-½ of the error, G ← .99·G + .1: all together
never by more than the error.

In regression the constant has no λ (`scale_targets`): D_0 = 1e100 at first. And the map's weights a
are held back as a function of the kernel's space is, by 10λ·aᵀ(K + .01·I)a, K of the landmarks:
a plain λ·aᵀa, kept for classes, holds smooth functions back the most.

**Probabilities.** An expert's decision values s become softmax(βs), β by Newton steps on its own
log loss; .001 of each is spread over all classes. The mixture's logarithms go through a β of their
own in the same way: a mean of experts is less sure than it should be. `score` is what comes of it.

**The mixture.** w_e ← (1 - α)·w_e p_e(y)/Σ w p(y) + α/E: fixed share, the loss being -log p_e(y),
for targets min(25, (y - ŷ_e)²/σ²)/16, σ² the mixture's recent mean squared error. So over T
labelled rows the mixture's loss -log Σ_e w_e exp(-loss_e) is at most that of any sequence of
experts that changes k times, plus

    ln E + k·ln(E/α) + (T - 1 - k)·ln(1/(1 - α)):

a path's prior weight is at least that product. In classification it is the mixture's log loss.

The state keeps the losses, right predictions and weights of all (`tally`), so that it can be said
what carried the stream.

Cost O(p² + WD + Ep + EC + FC) a row, p = 1 + D + m + r. Flops a labelled row: 6p² + p²/2 + 12Cp +
3mD + 4WD + 6FC, one that is predicted only 2p² + 4Cp + 3mD + 4WD + 2FC. The distances to the W
rows, 4WD, are in single precision. Maps are made from 128, 512, ... W rows: less than 1½W rows'
time more, once.

References: M. Herbster, M. K. Warmuth, "Tracking the best expert", Machine Learning 32, 1998 (fixed
share, here with a start-over that includes the expert itself); G. J. Bierman, "Factorization
methods for discrete sequential estimation", Academic Press 1977, chapter V (here of the inverse's
lower factor, so that the first coordinates' ridges are there, too); D. Arthur, S. Vassilvitskii,
"k-means++: the advantages of careful seeding", SODA 2007 (landmarks in proportion to their
distance; here by evenly spaced draws instead of random ones); A. Radhakrishnan, D. Beaglehole, P.
Pandit, M. Belkin, "Mechanism for feature learning in neural networks and backpropagation-free
machine learning models", Science 383, 2024 (the scale by mean squared gradients; here the diagonal
alone); M. Özuysal et al., "Fast keypoint recognition using random ferns", IEEE Trans. Pattern Anal.
Mach. Intell. 32, 2010 (here with weights that are learned together instead of counts); J. Duchi, E.
Hazan, Y. Singer, "Adaptive subgradient methods", JMLR 12, 2011 (their steps, here with a sum that
fades); K. Crammer et al., see `pa`; E. Hazan, A. Agarwal, S. Kale, "Logarithmic regret algorithms
for online convex optimization", Machine Learning 69, 2007 (the stack's steps).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.arrays import FloatArray, IntArray
from kerneltrack.errors import ConfigError
from kerneltrack.learners.auto.spec import AutoSpec
from kerneltrack.learners.common.base import CARRIED, COUNTS, LEARNED
from kerneltrack.learners.common.kept_classes import KeptClasses
from kerneltrack.learners.common.labels import Coded, no_labels
from kerneltrack.learners.common.prequential import (
    CENTRED,
    Mode,
    Predicted,
    PrequentialLearner,
    empty_predictions,
    first_sums,
    many_sums,
)
from kerneltrack.learners.common.spec import LearnerSpec
from kerneltrack.limits import ArrayForm, Limit, check_counts, real, whole
from kerneltrack.native.binding import call
from kerneltrack.native.elementary import elementary
from kerneltrack.native.layouts import FloatMatrix, FloatVector, IntVector, SingleMatrix
from kerneltrack.settings import check_int

MAX_INPUTS = 4000
"""Most inputs: a state of so many has 270 MB."""

# As in native/auto.c.
MET, LATEST, MAPPED, ANEW, ANEW_END = range(COUNTS, COUNTS + 5)
"""Places in `counts` behind those of all learners."""
MEMORIES, SIDE, REALS, FERN_TESTS = 2, 8, 6, 4
LEAVES = 2**FERN_TESTS
NO_CLASS = -1.0
"""Label of a row of the window whose class gave way to another."""
LOSS, RIGHT, WEIGHT = range(3)
"""Columns of `tally`."""
SPANS = 32
"""Lines of `course`."""

EXPERTS = (
    "commonest label",
    "rows",
    "rows, map",
    "rows, map, features",
    "recent commonest label",
    "recent rows",
    "recent rows, map",
    "recent rows, map, features",
    "follower",
    "nearest rows",
    "4 nearest rows",
    "16 nearest rows",
    "ferns",
    "last label",
    "stack",
)
"""The experts, in the order of `shares` and `tally`; recent: of the shorter memory."""
FIRST_BETA = 4.0
FREE_PIVOT = 1e100
"""D of the constant where targets are centred: no λ holds it back."""
FIRST_BLENDING = 0.1
"""How far the stack's steps go at first: the smaller, the longer it stays the experts' mean."""


class AutoSettings(NamedTuple):
    """A spec as numbers, and how many inputs are channels."""

    ridge: float
    share: float
    inverse_gamma: float
    last_label: bool
    memories: FloatVector
    window: int
    channels: int


class AutoState(NamedTuple):
    """State of the learner; see `LearnerState` for what all states hold.

    With D channels, r features, m landmarks, p = 1 + D + m + r, F ferns, C classes (1 in
    regression) and w rows in the window, W at most, the bytes of its arrays are
    8(q(q + 4) + 2p(C + 1) + (m + 1)D + C(D + C + 3) + 8F(2C + 3) + w + 800) + 4v(D + r), q and v
    being p rounded up to fours and w to eights; 8 more in regression.

    Attributes:
        factors: (2, q(q+4)/2) N of each memory, four rows at a time with all columns up to theirs.
        pivots: (2, p) D of each memory, all above 0.
        aims: (2p, C) g of each memory.
        landmarks: (m, D) rows in the map's scale; those from `met` on are unused.
        chase: (C, 1 + D) the follower's weights.
        tempers: (14, 2) β of each expert but the stack, and the curvature met so far.
        shares: (15,) w.
        blending: (14, 14) the stack's step matrix.
        blend: (14,) its weights.
        seen: (C,) rows of each class.
        following: (C, C) how often each class came after each of late, the former a line.
        scales: (D,) s.
        fern_channels: (4F,) d of each question, fern by fern.
        fern_thresholds: (4F,) t.
        fern_weights: (16F, C) what each leaf says, leaves of a fern one after another.
        fern_squares: (16F,) G of each leaf.
        recent: (v(D + r)/8, 8) the window's rows in single precision, eight side by side with a
            line for each input; when it is full the oldest row makes room.
        recent_labels: (w,) their targets or classes' places, -1 where a class gave way to another.
        tally: (16, 3) of each expert, the mixture last: its loss (log loss; squared error), rows
            it had right (of the last label: rows that had it, too), and weight it had, over the
            rows learned from.
        course: (32, 15) the weights that the experts had, added up over spans of as many rows
            learned from; see `course`.
        reals: (6,) what has come towards the next landmark; labels of late that were as the last
            one, and that were not; the last target; mean squared error and mean square of late,
            both in the variance of targets.
        sums: (4 + C,), in regression (6,), as in `LearnerState`.
        counts: (9,) as in `LearnerState`, then landmarks, the last label's place plus 1, whether
            the map is there, and the places in the window of the next row that is to be learned
            anew, and of the one behind the last.
        classes, kept: As in `LearnerState`.
    """

    factors: FloatMatrix
    pivots: FloatMatrix
    aims: FloatMatrix
    landmarks: FloatMatrix
    chase: FloatMatrix
    tempers: FloatMatrix
    shares: FloatVector
    blending: FloatMatrix
    blend: FloatVector
    seen: FloatVector
    following: FloatMatrix
    scales: FloatVector
    fern_channels: IntVector
    fern_thresholds: FloatVector
    fern_weights: FloatMatrix
    fern_squares: FloatVector
    recent: SingleMatrix
    recent_labels: FloatVector
    tally: FloatMatrix
    course: FloatMatrix
    reals: FloatVector
    sums: FloatVector
    counts: IntVector
    classes: tuple[str, ...]
    kept: KeptClasses | None = None

    @property
    def met(self) -> int:
        """Landmarks met so far."""
        return int(self.counts[MET])


class Auto(PrequentialLearner[AutoSpec, AutoState]):
    """The learner that chooses for itself (see the module).

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(400, 2))
        >>> labels = ["in" if row @ row < 1 else "out" for row in rows]
        >>> spec, learner = AutoSpec(), Auto()
        >>> state, found = learner.update(spec, learner.init(spec, 2), rows, labels)
        >>> learner.predict(spec, state, [[0.1, 0.0], [2.0, 1.0]]).names
        ['in', 'out']
    """

    name = "auto"
    spec_type: type[LearnerSpec] = AutoSpec
    state_type = AutoState

    def init(self, spec: AutoSpec, width: int) -> AutoState:
        """Make the state of a learner whose inputs are all the row's own; see `Learner.init`."""
        return self.begin(spec, width, width)

    def begin(self, spec: AutoSpec, width: int, channels: int) -> AutoState:
        """Make the state of a learner that has seen no label; see `Learner.begin`."""
        check_int("width", width, 1, MAX_INPUTS)
        check_int("channels", channels, 1, width)
        size = 1 + width + spec.landmarks
        factor = np.zeros(entries(size))
        factor[places(np.arange(size), np.arange(size))] = 1.0
        classes, many = 0 if spec.classifies else 1, len(EXPERTS)
        pivots = np.full((MEMORIES, size), 1.0 / spec.ridge)
        if self.units(spec) == CENTRED:
            pivots[:, 0] = FREE_PIVOT
        tempers = np.tile([FIRST_BETA, 1.0], (many - 1, 1))
        tempers[EXPERTS.index("ferns"), 0] = 1.0
        return AutoState(
            factors=np.stack([factor] * MEMORIES),
            pivots=pivots,
            aims=np.zeros((MEMORIES * size, classes)),
            landmarks=np.zeros((spec.landmarks, channels)),
            chase=np.zeros((classes, 1 + channels)),
            tempers=tempers,
            shares=np.full(many, 1.0 / many),
            blending=np.eye(many - 1) * FIRST_BLENDING,
            blend=np.full(many - 1, 1.0 / (many - 1)),
            seen=np.zeros(classes),
            following=np.zeros((classes, classes)),
            scales=np.ones(channels),
            fern_channels=np.zeros(FERN_TESTS * spec.ferns, dtype=np.int64),
            fern_thresholds=np.zeros(FERN_TESTS * spec.ferns),
            fern_weights=np.zeros((LEAVES * spec.ferns, classes)),
            fern_squares=np.zeros(LEAVES * spec.ferns),
            recent=np.zeros((0, SIDE), np.float32),
            recent_labels=np.zeros(0),
            tally=np.zeros((many + 1, 3)),
            course=np.zeros((SPANS, many)),
            reals=np.zeros(REALS),
            sums=first_sums(spec, 1.0),
            counts=np.zeros(ANEW_END + 1, dtype=np.int64),
            classes=(),
        )

    def settings(self, spec: AutoSpec, state: AutoState) -> AutoSettings:
        """Return the spec as numbers, as the loop takes it."""
        return AutoSettings(
            ridge=float(spec.ridge),
            share=float(spec.share),
            inverse_gamma=1.0 / float(spec.bandwidth),
            last_label=spec.last_label,
            memories=np.array([1.0, float(spec.shorter)]),
            window=spec.rows_kept(self.width(spec, state)),
            channels=state.landmarks.shape[1],
        )

    def width(self, spec: AutoSpec, state: AutoState) -> int:
        """Return the number of inputs that a state was made for."""
        size: int = len(state.aims) // MEMORIES
        return size - 1 - len(state.landmarks)

    def values(self, spec: AutoSpec, state: AutoState, features: npt.ArrayLike) -> FloatArray:
        """Return the mixture's probability of every class, or predicted target, of rows."""
        return self._evaluated(spec, state, features)[:, -1]

    def probabilities(
        self, spec: AutoSpec, state: AutoState, features: npt.ArrayLike
    ) -> FloatArray:
        """Return the mixture's probabilities at its own temperature; see the module."""
        values = self.values(spec, state, features)
        # Before the first label there are none; a class's is never 0.
        logs = elementary("log", values.ravel()).reshape(values.shape)
        call("chances", state.sums, logs)
        return logs

    def experts(self, spec: AutoSpec, state: AutoState, features: npt.ArrayLike) -> FloatArray:
        """Return what each of `EXPERTS` says of rows, (n, 15, C): probabilities, or targets."""
        return self._evaluated(spec, state, features)[:, :-1]

    def _evaluated(self, spec: AutoSpec, state: AutoState, features: npt.ArrayLike) -> FloatArray:
        rows, valid = self.checked_rows(spec, state, features)
        classes = state.aims.shape[1]
        out = np.zeros((len(rows), (len(EXPERTS) + 1) * classes))
        mode = self.mode(spec, state, False, False)
        predictions, none = empty_predictions(spec, valid), no_labels(len(rows))
        arguments = (
            self.settings(spec, state),
            mode,
            self.numbers_of(state),
            rows,
            none,
            predictions,
            out,
        )
        call("auto_values", *arguments)
        out = self.in_target_units(spec, state, out)
        return out.reshape(len(rows), len(EXPERTS) + 1, classes)

    def counters(self, state: AutoState) -> dict[str, int | float]:
        """Return running totals; see `Learner.counters`.

        Beside them what weight each expert had over the rows learned from (`CARRIED`).
        """
        found = super().counters(state)
        weights = state.tally[:-1, WEIGHT]
        for expert, weight in zip(EXPERTS, weights, strict=True):
            found[CARRIED + plain_name(expert)] = round(1000 * weight)
        return found

    def roomy(
        self, spec: AutoSpec, state: AutoState, classes: tuple[str, ...], rows: int
    ) -> AutoState:
        """Return a copy of a state with room for the classes and rows of a call."""
        named: dict[str, Any] = {name: array.copy() for name, array in self.arrays(state).items()}
        more = (len(classes) if spec.classifies else 1) - state.aims.shape[1]
        named["aims"] = np.pad(named["aims"], ((0, 0), (0, more)))
        named["fern_weights"] = np.pad(named["fern_weights"], ((0, 0), (0, more)))
        named["chase"] = np.pad(named["chase"], ((0, more), (0, 0)))
        named["seen"] = np.pad(named["seen"], (0, more))
        named["following"] = np.pad(named["following"], (0, more))
        width, before = self.width(spec, state), len(state.recent_labels)
        kept = min(before + rows, spec.rows_kept(width))
        lines = -(-kept // SIDE) * width - len(state.recent)
        named["recent"] = np.pad(named["recent"], ((0, lines), (0, 0)))
        named["recent_labels"] = np.pad(named["recent_labels"], (0, kept - before))
        return AutoState(**named, classes=classes)

    def vacated(self, spec: AutoSpec, state: AutoState, place: int) -> AutoState:
        """Return a state that knows nothing of the class in a place; its rows are of no class."""
        named = {
            name: getattr(state, name).copy()
            for name in ("aims", "chase", "seen", "following", "fern_weights", "counts")
        }
        for name in ("aims", "fern_weights", "following"):
            named[name][:, place] = 0.0
        for name in ("chase", "seen", "following"):
            named[name][place] = 0.0
        if named["counts"][LATEST] == place + 1:
            named["counts"][LATEST] = 0
        labels = np.where(state.recent_labels == place, NO_CLASS, state.recent_labels)
        return state._replace(recent_labels=labels, **named)

    def process(
        self,
        spec: AutoSpec,
        mode: Mode,
        state: AutoState,
        features: FloatArray,
        labels: Coded,
        out: Predicted,
    ) -> AutoState:
        """Run rows through the compiled loop; see `PrequentialLearner.process`."""
        arguments = self.settings(spec, state), mode, self.numbers_of(state), features, labels, out
        call("auto_run", *arguments)
        return state

    def layout(
        self, spec: AutoSpec, arrays: dict[str, npt.NDArray[Any]], classes: int
    ) -> dict[str, ArrayForm]:
        """Return what a state's arrays should be like; see `PrequentialLearner`."""
        landmarks, aims, counts = arrays["landmarks"], arrays["aims"], arrays["counts"]
        if landmarks.ndim != 2 or aims.ndim != 2 or counts.shape != (ANEW_END + 1,):
            shapes = landmarks.shape, aims.shape, counts.shape
            raise ConfigError("shapes of landmarks, aims, counts", shapes, "(m, D), (2p, C), (9,)")
        channels, width = landmarks.shape[1], len(aims) // MEMORIES - 1 - spec.landmarks
        if not 1 <= channels <= width <= MAX_INPUTS:
            raise ConfigError("state.aims", aims.shape, f"of 1 to {MAX_INPUTS} inputs")
        if counts.dtype != np.int64:
            raise ConfigError("state.counts", str(counts.dtype), "int64")
        check_counts("state.counts", counts)
        kept = min(int(counts[LEARNED]), spec.rows_kept(width))
        size, many = 1 + width + spec.landmarks, len(EXPERTS)
        return {
            "factors": real(MEMORIES, entries(size)),
            "pivots": real(MEMORIES, size),
            "aims": real(MEMORIES * size, classes),
            "landmarks": real(spec.landmarks, channels),
            "chase": real(classes, 1 + channels),
            "tempers": real(many - 1, 2),
            "shares": real(many),
            "blending": real(many - 1, many - 1),
            "blend": real(many - 1),
            "seen": real(classes),
            "following": real(classes, classes),
            "scales": real(channels),
            "fern_channels": whole(FERN_TESTS * spec.ferns),
            "fern_thresholds": real(FERN_TESTS * spec.ferns),
            "fern_weights": real(LEAVES * spec.ferns, classes),
            "fern_squares": real(LEAVES * spec.ferns),
            "recent": ArrayForm((-(-kept // SIDE) * width, SIDE), np.float32),
            "recent_labels": real(kept),
            "tally": real(many + 1, 3),
            "course": real(SPANS, many),
            "reals": real(REALS),
            "sums": real(many_sums(spec, classes)),
            "counts": whole(ANEW_END + 1),
        }

    def sound(self, spec: AutoSpec, state: AutoState) -> AutoState:
        """Check what the row loop is led by."""
        check_counts(
            "state.counts",
            state.counts,
            Limit("landmarks", MET, spec.landmarks),
            Limit("place of the last label", LATEST, len(state.classes)),
            Limit("whether the map is there", MAPPED, 1),
            Limit("rows to learn again", ANEW_END, len(state.recent_labels)),
        )
        channels = state.fern_channels
        if ((channels < 0) | (channels >= len(state.scales))).any():
            raise ConfigError("state.fern_channels", channels.tolist(), "places of channels")
        for name in ("fern_squares", "following"):
            counts = getattr(state, name)
            if not (counts >= 0.0).all():
                raise ConfigError(f"state.{name}", float(counts.min()), "numbers from 0 on")
        places, kept = state.recent_labels, state.kept
        first = int(NO_CLASS) if kept is not None and kept.changed else 0
        if spec.classifies and not np.isin(places, np.arange(first, len(state.classes))).all():
            raise ConfigError("state.recent_labels", places.tolist(), "places of classes")
        if not (state.pivots > 0.0).all():
            raise ConfigError("state.pivots", float(state.pivots.min()), "numbers above 0")
        return state


def plain_name(expert: str) -> str:
    """Return an expert's name as counters and metrics have it.

    Example:
        >>> plain_name("recent rows, map")
        'recent_rows_map'
    """
    return expert.replace(", ", "_").replace(" ", "_")


def entries(size: int) -> int:
    """Return how many entries N of so many coordinates has, see `AutoState`."""
    return 8 * -(-size // 4) * (-(-size // 4) + 1)


def places(row: IntArray, column: IntArray) -> IntArray:
    """Return where entries of N are, `column` <= `row`."""
    four = row // 4 * 4
    return four * (four + 4) // 2 + column // 4 * 16 + (row - four) * 4 + column % 4


def course(state: AutoState) -> tuple[IntArray, FloatArray]:
    """Return how the experts' weights went: where each span of rows ends, and mean weights in it.

    Up to 32 rows learned from a span is one row; whenever all 32 lines are full, spans become twice
    as long and each line takes the next one in.

    Returns:
        (k,) rows learned from up to the end of each span, and (k, 15) weights, k <= 32.
    """
    learned, span = int(state.counts[LEARNED]), 1
    while learned > SPANS * span:
        span *= 2
    ends = np.minimum(span * np.arange(1, -(-learned // span) + 1), learned)
    rows = np.diff(ends, prepend=0)
    return ends, state.course[: len(ends)] / rows[:, None]


def carried(state: AutoState) -> dict[str, float]:
    """Return the mean weight that each expert had over the rows learned from; 0 before them."""
    total = float(state.tally[:-1, WEIGHT].sum())
    means = state.tally[:-1, WEIGHT] / total if total else np.zeros(len(EXPERTS))
    return dict(zip(EXPERTS, means.tolist(), strict=True))
