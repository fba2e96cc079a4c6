"""Which device is off, since when, and why: a reference of its rows while all was well.

The moving subspace learns every row, a fault as well: within some twenty rows its loss says nothing
of it any more. So beside it stands a reference, made from a stretch of rows and then kept
("first"), or moved on slowly by rows that were not odd ("gated").

**What is held.** Rows are scaled as at the start and embedded: e_t = (x_t, ..., x_{t-L+1}), with L
`lags`, fewer where D·L would be above 128. Of them, over the n rows learned, mean m and scatter; of
C = scatter/n + ρ(tr C/E)I, E = DL, the root W with WᵀW = C⁻¹. And a kernel subspace of the rows
themselves, tracked by the covariance tracker, which takes a tenth of them in, by leverage.

**Scores.** d² = ‖W(e - m)‖² sees what is far out or breaks the channels' linear ties, now and over
time. α = √-ln ‖q‖² sees what lies where no row was, between the modes of a device too: ‖q‖² is the
squared cosine between a row and the kernel subspace, 1 - ℓ, so that α grows as the distance from
the nearest rows of the reference does and goes on where the residual ℓ is all but 1. In standard
deviations from their means, u and v, they make ln(e^u + e^v), about the larger one; the score is
its root, of the same sign. The units of d² are those of rows that were just learned, as those to
come will be measured.

**Calibration.** The first half of the stretch is learned unseen. From then on each row is scored
before it is learned, so that the second half's scores are those of rows that the reference did not
know. p is the share of them that is not below a score; beyond the highest tenth a generalised
Pareto tail (Hosking and Wallis 1987; Siffer et al. 2017) takes over, with a shape from .1 to .5. A
small p is surprising.

**Evidence.** S ← max(0, S - ln p - k), k `drift`: Page's sum (1954) of surprises, whose mean is 1
while all is well. A spike raises it at once, a slow ramp over time. A change between two modes that
are both usual is odd in its order alone, and for as long as there are lags: where no newest row
among the last L is surprising by itself, one by the first D entries of W(e - m), -ln p counts as
at most 4. Excursions of S from 0 have heights with an exponential tail (Cramér and Lundberg); h is
where one is as rare as stated, by the highest quarter of those so far, ten to 64: by their lowest
h₀, how many rows they came in, and the mean m of what the k others have beyond it. As m is
estimated, the tail is that of the predictive distribution, (1 + (h - h₀)/km)^-k. So rows that
resemble their neighbours, or that are wilder than the calibration's, raise h by themselves; no
independence is assumed. m is at least that of independent rows. An episode that is over counts,
too: where they come more often than stated, h rises.

**Stuck channels** may lie well inside all that is usual. A channel that repeats its value for k
rows more than four times its longest run before the calibration, and five, has the surprise
-k ln q, q how often it repeated one then, at most ½; a row's surprise is at least the largest of
its channels'.

**Episodes.** One is open from where S exceeds h until it fell by 60 from its highest, or to 0; S
stays below 1.5h. So it ends some hundred usual rows after the last odd one, which `last` names: the
last of p < .01 before S fell by 15. It began where S last was below h/10. Its kind is `spike` (a
few odd rows), `ramp` (rows became odder after it was noticed), `stuck` (a channel is, in most of
its rows) or `shift`. One that never came to 1.5h may be none: its rows may be learned.

**Why.** With Ω = C⁻¹ and A the entries of some channels, d² would fall by v_AᵀΩ_AA⁻¹v_A, v = Ωe, if
these were what the others make of them (the conditional mean of a normal distribution). Of each row
of an episode the channel is taken out without which d² is smallest, then the next one beside it, up
to three, until what is left is usual; what each took along is its share. It says what the linear
ties speak of; what only the residual sees has no share.

**Until.** Where the stretch ends at an event time, it is learned from on as above, half of `rows`
unseen, and calibrated by the last 512 scores before that time. A rate in event time is one in rows
by the mean distance of the stretch's rows in time.

**A new normal.** An episode that lasts longer than `accept_after` rows is closed as accepted, and
the reference is made anew, from the rows that follow, by the scale of the last 128. By default none
is: a fault that lasts stays one.

**Gated.** Every 128 rows those are learned that lie in no episode, with a memory of eight
stretches; the calibration is made anew when as many rows were kept as it was made of.

Cost per row: O(E²) for d², O(BD + Br) for ℓ; O(128E + E³/128) where it learns. State: see
`ReferenceState`. All sums have one order: the same bits however rows are cut into calls.

References: E. S. Page, "Continuous inspection schemes", Biometrika 41, 1954. J. R. M. Hosking,
J. R. Wallis, "Parameter and quantile estimation for the generalized Pareto distribution",
Technometrics 29, 1987. A. Siffer, P.-A. Fouque, A. Termier, C. Largouët, "Anomaly detection in
streams with extreme value theory", KDD 2017. S. Asmussen, "Applied Probability and Queues", 2003,
section XIII.5, for the excursions. The combination is this project's.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from kerneltrack.errors import ConfigError
from kerneltrack.limits import (
    Like,
    Limit,
    check_counts,
    check_finite,
    check_positive,
    check_whole,
    copies_like,
    real,
    whole,
)
from kerneltrack.monitor.spans import Span, parse_moment, parse_span
from kerneltrack.native.binding import call, packed
from kerneltrack.settings import OneOf, Range
from kerneltrack.specs import Spec
from kerneltrack.trackers.common import scaling
from kerneltrack.trackers.common.calls import copied, first_matrix, matrix_of
from kerneltrack.trackers.covariance.spec import CovarianceSpec
from kerneltrack.trackers.covariance.state import CovarianceState
from kerneltrack.trackers.covariance.tracker import CovarianceTracker

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

FIRST, GATED = LEARNINGS = ("first", "gated")
BLOCK = 128
"""Rows after which the reference learns, all at once."""
MOST_KEPT = 512
"""Scores that a calibration is made of, at most."""
MOST_PEAKS = 64
"""Excursions that the threshold is made of."""
MOST_COLUMNS = 128
"""Embedded columns, at most: lags are fewer where there would be more."""
MOST_DEVIATION = 1e3
"""Largest |x| after scaling, in deviations (native/reference.c)."""
SPIKE_ROWS = 5
"""An episode of so many odd rows is a spike; each row is seen for as long as its lags."""
MOST_RATE = 0.1
"""False alarms a row, at most."""
MEMORY = 8
"""Stretches that are remembered by a reference that goes on learning."""
EARLY_ROWS = 20
"""Rows of an episode that say how it began (native/reference.h)."""
RAMP = 1.5
"""A ramp's mean surprise is so many times that of its first rows."""
KERNEL = CovarianceTracker()

# Places in the state's `reals` and `counts`, as in native/reference.h.
THRESHOLD, EVIDENCE = 12, 13
EVIDENCES = slice(EVIDENCE, EVIDENCE + 6)
"""S and what goes along with it, none of it below 0."""
REALS = 23
SEEN, LEARNED, KEPT, CALIBRATED, DUE, ZERO, OPENED, LAST_SURPRISE = range(8)
SURPRISES, EPISODES, EXCURSIONS, WATCHED = range(8, 12)
STRETCHED, STUCK_ROWS, RECENT_ROW, BEGAN, PAD = range(12, 17)
COUNTS = 19
NEWEST_TIME, FIRST_TIME, STRETCH_TIME = range(3, 6)
MEASURES = ("d²", "d² of the newest row alone", "α")
"""What is measured of a row."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReferenceSpec(Spec):
    """What a model's reference is told.

    Example:
        >>> ReferenceSpec(rows=1000, false_alarms=2).rate
        2e-06
    """

    role: ClassVar[str] = "reference"
    reference: ClassVar[str] = "reference"

    learning: Annotated[
        str,
        OneOf(LEARNINGS),
        """"first" keeps what the stretch showed, "gated" goes on learning from rows that are not
        odd.""",
    ] = FIRST
    rows: Annotated[
        int,
        Range(2 * BLOCK, 10_000_000),
        "Rows at the start, taken as normal, that the reference is made from; the fewest, with "
        "`until`.",
    ] = 512
    until: Annotated[
        str | None,
        """Event time, in ISO 8601 (UTC unless it says otherwise): the rows before it are those that
        the reference is made from, however many, in whole blocks of 128. A model with fewer than
        `rows` of them has none.""",
    ] = None
    lags: Annotated[
        int, Range(1, MOST_COLUMNS), "Rows that are looked at together: the row and those before."
    ] = 5
    ridge: Annotated[
        float, Range(1e-12, 1e6), "ρ added to the embedded rows' covariance, as a part of its mean."
    ] = 0.01
    rank: Annotated[int, Range(1, 1000), "Dimension r of the reference's kernel subspace."] = 10
    budget: Annotated[int, Range(1, 10_000), "Rows B that the kernel subspace stores."] = 20
    drift: Annotated[
        float, Range(1, 100, "()"), "k: surprise -ln p, of mean 1, that is let pass in every row."
    ] = 1.5
    false_alarms: Annotated[
        float, Range(0, 1e6, "()"), "False alarms of a model that are accepted in `per` rows."
    ] = 1.0
    per: Annotated[
        str | int,
        """What `false_alarms` are counted in: rows, or event time (1000000 rows, 30 days), at the
        pace that the model's rows had while the reference was made.""",
    ] = "1000000 rows"

    accept_after: Annotated[
        int | None,
        Range(BLOCK, 10**12),
        """Rows of an episode after which it is accepted as the new normal, and the reference made
        anew; none: it stays an episode.""",
    ] = None

    def resolve(self) -> None:
        """Take a bare number as one of rows."""
        number = str(self.per).strip()
        if not isinstance(self.per, bool) and number.isascii() and number.isdigit():
            self.replace("per", f"{int(number)} rows")

    def check_together(self) -> None:
        """Refuse a rate of more than an alarm in ten rows, and a budget below the rank."""
        rows = self.span.rows
        if rows is not None and self.false_alarms > MOST_RATE * rows:
            raise ConfigError("false_alarms", self.false_alarms, f"at most {MOST_RATE * rows:g}")
        if self.budget < self.rank:
            raise ConfigError("budget", self.budget, f"at least {self.rank}, the rank")
        if self.until is not None:
            parse_moment("until", self.until)

    @property
    def span(self) -> Span:
        """What `per` says."""
        return parse_span("per", str(self.per))

    @property
    def needs_times(self) -> bool:
        """Whether rows must have event times."""
        return self.until is not None or self.span.rows is None

    @property
    def rate(self) -> float | None:
        """False alarms a row; None where it depends on the model's pace."""
        rows = self.span.rows
        return None if rows is None else self.false_alarms / rows

    @property
    def fit_rows(self) -> int:
        """Rows of the stretch that are learned before any is scored: whole blocks are left."""
        return self.rows - self.rows // 2 // BLOCK * BLOCK

    @property
    def memory(self) -> int:
        """Rows that count fully in what is learned."""
        return MEMORY * self.rows

    def lags_for(self, width: int) -> int:
        """Return the lags of rows with D channels."""
        return max(1, min(self.lags, MOST_COLUMNS // width))

    @property
    def kernel(self) -> CovarianceSpec:
        """The kernel subspace's own spec."""
        return CovarianceSpec(
            rank=self.rank,
            budget=self.budget,
            standardise=False,
            admission="leverage",
            admission_rate=0.1,
            halflife=float(self.memory) if self.learning == GATED else None,
        )


class Tables(NamedTuple):
    """The part of a reference's state that its own row loops work on (native/reference.c).

    Attributes:
        shift: (D,) centre over scale.
        scale: (D,) standard deviation.
        rows: (BLOCK + L - 1, D) the open block's rows, scaled, behind the L - 1 before it.
        good: (BLOCK,) which of them may be learned.
        mean: (E,) m.
        scatter: (E, E) lower triangle of Σ(e - m)(e - m)ᵀ.
        whitener: (E, E) W, lower triangle.
        scores: (3, 512) ring of the `MEASURES` that the next calibration is made of.
        calibration: (2, 512) the scores of the last one, of embedded rows and of newest rows alone,
            sorted.
        measured: (3, BLOCK) the `MEASURES` of the open block's rows.
        peaks: (64,) heights of the highest excursions of S that were no episodes, falling.
        blame: (D,) the channels' shares in the excursion of S, summed up.
        stuck: (D,) the surprises that they were stuck, summed up likewise.
        previous: (D,) the newest row, scaled.
        runs: (D,) rows that repeat the one before, up to the newest.
        longest: (D,) the longest of these runs before the first calibration.
        repeated: (D,) rows that repeated the one before, until then.
        reals: (23,) means of the `MEASURES`, then their standard deviations; begin, shape and width
            of the two scores' tails; h; S, and its largest value since it was 0; since it was low
            the largest surprise and their sum; their sum over an episode's first rows; the largest
            surprise of a newest row alone of late; mean and squared deviations of the d² of rows
            once they were learned, since the last calibration, of embedded and of newest rows.
        counts: (19,) rows seen, learned, kept for calibrations; rows of the last calibration, rows
            kept when the next is due; the row at which S left h/10, the one that opened an episode
            (-1: none), the last one of p < .01 and how many; episodes; excursions kept, and the
            rows that they came in; rows before the first calibration; rows since S was low whose
            surprise was that of a channel that is stuck; the row of the largest surprise of late;
            the row that the reference began with; the place of row 0 in its block; rows of the
            squared deviations; excursions so far.
        times: (6,) event times, ns, of the row at which S left h/10, that opened an episode, that
            was the last one of p < .01, and of the newest; of the first row, and of the last one
            that the reference was made from; 0 without times.
    """

    shift: FloatArray
    scale: FloatArray
    rows: FloatArray
    good: BoolArray
    mean: FloatArray
    scatter: FloatArray
    whitener: FloatArray
    scores: FloatArray
    calibration: FloatArray
    measured: FloatArray
    peaks: FloatArray
    blame: FloatArray
    stuck: FloatArray
    previous: FloatArray
    runs: IntArray
    longest: IntArray
    repeated: IntArray
    reals: FloatArray
    counts: IntArray
    times: IntArray


class ReferenceState(NamedTuple):
    """A model's reference; every array keeps its shape for the model's whole life.

    The bytes of its arrays are 8(E(2E + 1) + D(L + 135) + 3056) + 128 and those of the kernel
    subspace's `CovarianceState`, E = DL.

    Attributes:
        tables: What the row loops work on.
        kernel: State of the kernel subspace of the scaled rows.
    """

    tables: Tables
    kernel: CovarianceState


class Settings(NamedTuple):
    """A spec as numbers."""

    lags: int
    ridge: float
    drift: float
    rate: float
    memory: int


@dataclasses.dataclass(frozen=True, slots=True)
class Scores:
    """What a reference says of n rows, each before it is learned.

    Attributes:
        distance: (n,) d = ‖W(e - m)‖; NaN before the reference has learned half its stretch.
        residual: (n,) ℓ under the reference's kernel subspace; NaN likewise.
        score: (n,) root of ln(e^u + e^v), about 1 while all is well; NaN before the calibration.
        p: (n,) share of normal rows that are at least as odd, small where a row is surprising; NaN
            before the calibration.
        evidence: (n,) S/h: an episode is open from where it is above 1 until it is 0; NaN likewise.
    """

    distance: FloatArray
    residual: FloatArray
    score: FloatArray
    p: FloatArray
    evidence: FloatArray


class Episode(NamedTuple):
    """A stretch of rows that do not look like the reference.

    Attributes:
        number: Of the model's episodes, from 1: with the model's ID it is the episode's own.
        kind: "spike", "ramp", "stuck" or "shift".
        start: Index of the row since when.
        opened: Index of the row at which it was noticed.
        row: Index of the row that this was said after.
        closed: Whether it is over.
        accepted: Whether that is because its rows are taken as the new normal.
        last: Index of the last row that was surprising by itself (p < .01), `start` if none was.
        severity: Sum of -log₁₀ p of its rows.
        peak: Smallest p.
        times: Event times, ns, of the rows `start`, `opened`, `row` and `last`; 0 without times.
        shares: (D,) what each channel contributes, adding up to 1.
    """

    number: int
    kind: str
    start: int
    opened: int
    row: int
    closed: bool
    last: int
    severity: float
    peak: float
    times: tuple[int, int, int, int]
    shares: FloatArray
    accepted: bool = False

    @property
    def state(self) -> str:
        """One of "open", "closed" and "accepted"."""
        if self.accepted:
            return "accepted"
        return "closed" if self.closed else "open"

    def moved(self, rows: int) -> Episode:
        """Return the episode with so many rows added to every index."""
        return self._replace(
            start=self.start + rows,
            opened=self.opened + rows,
            row=self.row + rows,
            last=self.last + rows,
        )


class Watched(NamedTuple):
    """Rows of `Scores` that the row loop fills."""

    score: FloatArray
    p: FloatArray
    evidence: FloatArray


class Told(NamedTuple):
    """Arrays that a call fills, one entry an episode that was opened or closed."""

    number: IntArray
    start: IntArray
    opened: IntArray
    row: IntArray
    closed: BoolArray
    peak: FloatArray
    surprise: FloatArray
    early: FloatArray
    last: IntArray
    surprises: IntArray
    stuck_rows: IntArray
    times: IntArray
    blame: FloatArray
    stuck: FloatArray


def layout(spec: ReferenceSpec, width: int) -> dict[str, Like]:
    """Return what the arrays of the tables for rows of D channels are like."""
    lags = spec.lags_for(width)
    columns = lags * width
    return {
        "shift": real(width),
        "scale": real(width),
        "rows": real(BLOCK + lags - 1, width),
        "good": Like((BLOCK,), np.bool_),
        "mean": real(columns),
        "scatter": real(columns, columns),
        "whitener": real(columns, columns),
        "scores": real(len(MEASURES), MOST_KEPT),
        "calibration": real(2, MOST_KEPT),
        "measured": real(len(MEASURES), BLOCK),
        "peaks": real(MOST_PEAKS),
        "blame": real(width),
        "stuck": real(width),
        "previous": real(width),
        "runs": whole(width),
        "longest": whole(width),
        "repeated": whole(width),
        "reals": real(REALS),
        "counts": whole(COUNTS),
        "times": whole(6),
    }


def init(spec: ReferenceSpec, first_rows: npt.ArrayLike) -> ReferenceState:
    """Make the reference of a model from its first rows, (m, D): scale and bandwidth only.

    Raises:
        ConfigError: if they are not a finite matrix of one row and one column at the least.
    """
    rows = first_matrix(first_rows)
    scale = scaling.standard_scaling(rows, math.inf)
    tables = _empty(spec, scale.shift, scale.scale, 0)
    return ReferenceState(
        tables, KERNEL.init(spec.kernel, scaling.apply_scaling(scale, rows, math.inf))
    )


def _empty(spec: ReferenceSpec, shift: FloatArray, scale: FloatArray, began: int) -> Tables:
    """Make the tables of a reference that begins with a row of this index."""
    arrays = {name: like.zeros() for name, like in layout(spec, len(scale)).items()}
    tables = Tables(**arrays)._replace(shift=shift, scale=scale)
    counts = tables.counts
    counts[SEEN] = counts[BEGAN] = counts[ZERO] = began
    counts[OPENED] = -1
    counts[DUE] = MOST_KEPT
    # The stretch ends where a block does.
    counts[PAD] = -(began + spec.rows) % BLOCK
    return tables


def update(
    spec: ReferenceSpec,
    state: ReferenceState,
    rows: npt.ArrayLike,
    times: IntArray | None = None,
    *,
    learn: bool = True,
) -> tuple[ReferenceState, Scores, list[Episode]]:
    """Score rows, each before it is learned, and learn those that the spec lets in.

    Args:
        spec: The spec that the state was made with.
        state: Not written to.
        rows: Shape (n, D), finite, in the order of their times.
        times: (n,) event times, ns, none before the one before it, for the episodes to name; a
            spec with `needs_times` depends on them.
        learn: False keeps a reference that is `ready` as it is, whatever the spec says: evidence
            and episodes go on, nothing is learned.

    Returns:
        The new state, the rows' scores, and the episodes that were opened or closed, in the order
        of the rows: the same, bit for bit, however rows are cut into calls.

    Raises:
        ConfigError: for rows of another width, or that are not finite, or without the times that
            the spec needs.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(2000, 3))
        >>> rows[1500:1600, 1] += 6
        >>> spec = ReferenceSpec()
        >>> _, scores, told = update(spec, init(spec, rows[:512]), rows)
        >>> [(e.kind, abs(e.start - 1500) < 10, int(e.shares.argmax())) for e in told if e.closed]
        [('shift', True, 1)]
    """
    tables = copied(state.tables)
    matrix = matrix_of(rows, len(tables.scale))
    check_finite("rows", matrix)
    stamps = np.zeros(len(matrix), np.int64) if times is None else np.ascontiguousarray(times)
    if stamps.shape != (len(matrix),) or stamps.dtype != np.int64:
        raise ConfigError("times", stamps.shape, f"whole numbers of shape ({len(matrix)},)")
    if times is None and spec.needs_times:
        raise ConfigError("times", None, "event times of the rows: the spec goes by them")
    before = _rows_before_end(spec, state, stamps)
    if before < len(matrix):
        return _through_end(spec, state, matrix, stamps, before, learn)
    run, found = _Run(spec, tables, state.kernel, learn), np.full((5, len(matrix)), np.nan)
    told: list[Episode] = []
    _begin_lags(tables, matrix)
    start = 0
    while start < len(matrix):
        stop = min(len(matrix), start + BLOCK - next_place(run.tables))
        found[:, start:stop] = run.watch(matrix, stamps, start, stop, told)
        if next_place(run.tables) == 0:
            run.end_block(told)
        start = stop
    return ReferenceState(run.tables, run.kernel), Scores(*found), told


def _settings(spec: ReferenceSpec, tables: Tables) -> Settings:
    """Return the spec as numbers, the rate by the model's own pace once that is known."""
    lags, rate = spec.lags_for(len(tables.scale)), spec.rate
    if rate is None:
        first, last = tables.times[[FIRST_TIME, STRETCH_TIME]].tolist()
        intervals = max(int(tables.counts[STRETCHED]) - 1, 1)
        # Rows of one time come as fast as can be: no rate is too low for them.
        pace = max(last - first, 1) / intervals
        rate = min(spec.false_alarms * pace / (spec.span.time or 1), MOST_RATE)
    return Settings(lags, spec.ridge, spec.drift, rate, spec.memory)


def _rows_before_end(spec: ReferenceSpec, state: ReferenceState, times: IntArray) -> int:
    """Return how many rows come before the time that ends the stretch; all, if it has ended."""
    if spec.until is None or _goes_by_rows(spec, state.tables) or ready(state):
        return len(times)
    late = times >= parse_moment("until", spec.until)
    return int(late.argmax()) if late.any() else len(times)


def _through_end(
    spec: ReferenceSpec,
    state: ReferenceState,
    rows: FloatArray,
    times: IntArray,
    before: int,
    learn: bool,
) -> tuple[ReferenceState, Scores, list[Episode]]:
    """Run rows that the end of the stretch divides; see `update`."""
    state, scores, told = update(spec, state, rows[:before], times[:before], learn=learn)
    state = end_stretch(spec, state)
    nothing = np.full((5, len(rows) - before), np.nan)
    rest, more = Scores(*nothing), told[:0]
    if ready(state):
        state, rest, more = update(spec, state, rows[before:], times[before:], learn=learn)
    names = [field.name for field in dataclasses.fields(Scores)]
    joined = [np.concatenate([getattr(scores, name), getattr(rest, name)]) for name in names]
    return state, Scores(*joined), told + more


def end_stretch(spec: ReferenceSpec, state: ReferenceState) -> ReferenceState:
    """Return the reference made of the whole blocks so far; not `ready` if they are too few."""
    if state.tables.counts[SEEN] < spec.rows:
        return state
    tables = copied(state.tables)
    _calibrate(spec, tables)
    return ReferenceState(tables, state.kernel)


def _calibrate(spec: ReferenceSpec, tables: Tables) -> None:
    """Make the calibration, and say when the next one is due."""
    if tables.counts[CALIBRATED] == 0:
        tables.times[STRETCH_TIME] = tables.times[NEWEST_TIME]
    call("reference_calibrate", _settings(spec, tables), tables)
    tables.counts[DUE] = tables.counts[KEPT] + min(tables.counts[CALIBRATED], MOST_KEPT)


def next_place(tables: Tables) -> int:
    """Return the next row's place in its block."""
    return int(tables.counts[SEEN] + tables.counts[PAD]) % BLOCK


def _goes_by_rows(spec: ReferenceSpec, tables: Tables) -> bool:
    """Check whether the stretch ends after a number of rows: a new normal's always does."""
    return spec.until is None or bool(tables.counts[BEGAN] > 0)


def _begin_lags(tables: Tables, rows: FloatArray) -> None:
    """Let all before the first of rows be as it is in that, if they follow none (`restarted`)."""
    first = next_place(tables)
    before = tables.rows[first : first + len(tables.rows) - BLOCK]
    if len(rows) and np.isnan(before).any():
        scaled = rows[0] / tables.scale - tables.shift
        before[...] = np.clip(scaled, -MOST_DEVIATION, MOST_DEVIATION)


class _Run:
    """One call's way through the rows, block by block."""

    def __init__(
        self, spec: ReferenceSpec, tables: Tables, kernel: CovarianceState, learn: bool
    ) -> None:
        self.spec, self.learn = spec, learn
        self._take(tables, kernel)

    def _take(self, tables: Tables, kernel: CovarianceState) -> None:
        """Go on with these; what the loops are told in every call is laid out once."""
        self.tables, self.kernel = tables, kernel
        self.settings = _settings(self.spec, tables)
        self.room = _room(BLOCK, len(tables.scale))
        self._fixed = packed(self.settings), packed(tables)
        self._packed_room = packed(self.room)
        self._ahead: FloatArray | None = None

    def watch(
        self, rows: FloatArray, times: IntArray, start: int, stop: int, told: list[Episode]
    ) -> FloatArray:
        """Score rows of one block; distance, residual, score, p and evidence of each, (5, n)."""
        tables, there = self.tables, slice(start, stop)
        out, residual = np.full((5, stop - start), np.nan), np.zeros(stop - start)
        since, first = int(tables.counts[SEEN] - tables.counts[BEGAN]), next_place(tables)
        if since == 0:
            tables.times[FIRST_TIME] = times[start]
        call("reference_embed", *self._fixed, rows[there])
        if since >= self.spec.fit_rows:
            residual = self._residual(rows, start, stop)
            out[0], out[1] = np.sqrt(tables.measured[0, first:][: len(residual)]), residual
        watched = Watched(*out[2:])
        parts = residual, times[there], watched, self._packed_room
        many = call("reference_watch", *self._fixed, *parts)
        told += [_episode(self.room, at, self.settings.lags) for at in range(many)]
        tables.counts[SEEN] += stop - start
        return out

    @property
    def _learns(self) -> bool:
        """Whether further rows may change the reference."""
        made = self.tables.counts[CALIBRATED] > 0
        return self.learn and (not made or self.spec.learning == GATED)

    def _residual(self, rows: FloatArray, start: int, stop: int) -> FloatArray:
        """Return ℓ of rows; of all that are left, at once, if the kernel subspace stays."""
        if self._ahead is None or self._learns:
            tables, end = self.tables, stop if self._learns else len(rows)
            scaled = rows[start:end] / tables.scale - tables.shift
            scaled = np.clip(scaled, -MOST_DEVIATION, MOST_DEVIATION)
            self._ahead = KERNEL.project(self.spec.kernel, self.kernel, scaled).loss
            self._ahead_from = start
        return np.ascontiguousarray(self._ahead[start - self._ahead_from : stop - self._ahead_from])

    def end_block(self, told: list[Episode]) -> None:
        """Learn a whole block's good rows, and calibrate if that is due, or begin anew."""
        spec, tables = self.spec, self.tables
        counts, lags = tables.counts, self.settings.lags
        seen, made = int(counts[SEEN] - counts[BEGAN]), bool(counts[CALIBRATED] > 0)
        learning = self._learns
        if learning:
            if seen > spec.fit_rows:
                call("reference_keep", tables)
            call("reference_learn", *self._fixed)
            good = np.ascontiguousarray(tables.rows[lags - 1 :][tables.good])
            self.kernel, _ = KERNEL.update(spec.kernel, self.kernel, good)
        ends = _goes_by_rows(spec, tables) and seen == spec.rows
        if ends or (made and learning and counts[KEPT] >= counts[DUE]):
            _calibrate(spec, tables)
            self._take(tables, self.kernel)
        tables.rows[: lags - 1] = tables.rows[BLOCK : BLOCK + lags - 1].copy()
        if self.learn and _is_accepted(spec, tables):
            told.append(_close_accepted(spec, ReferenceState(tables, self.kernel)))
            self._take(*_made_anew(spec, tables))


def _is_accepted(spec: ReferenceSpec, tables: Tables) -> bool:
    opened, seen = tables.counts[[OPENED, SEEN]].tolist()
    return spec.accept_after is not None and 0 <= opened <= seen - spec.accept_after


def _close_accepted(spec: ReferenceSpec, state: ReferenceState) -> Episode:
    episode = open_episode(spec, state)
    assert episode is not None
    return episode._replace(closed=True, accepted=True)


def _made_anew(spec: ReferenceSpec, old: Tables) -> tuple[Tables, CovarianceState]:
    """Begin anew after a whole block, by the scale of its rows."""
    lags = spec.lags_for(len(old.scale))
    rows = (old.rows[lags - 1 :] + old.shift) * old.scale
    scale = scaling.standard_scaling(rows, math.inf)
    tables = _empty(spec, scale.shift, scale.scale, int(old.counts[SEEN]))
    scaled = scaling.apply_scaling(scale, rows, math.inf)
    first = -spec.rows % BLOCK
    tables.rows[first : first + lags - 1] = scaled[len(scaled) - lags + 1 :]
    tables.previous[:] = scaled[-1]
    tables.counts[EPISODES] = old.counts[EPISODES]
    tables.times[:] = old.times
    return tables, KERNEL.init(spec.kernel, scaled)


def _room(count: int, width: int) -> Told:
    wholes = [np.zeros(count, np.int64) for _ in range(7)]
    reals = [np.zeros(count) for _ in range(3)]
    number, start, opened, row, last, surprises, stuck_rows = wholes
    peak, surprise, early = reals
    closed, blame = np.zeros(count, np.bool_), np.zeros((count, width))
    times = np.zeros((count, 4), np.int64)
    stuck = np.zeros((count, width))
    said = (peak, surprise, early, last, surprises, stuck_rows, times, blame, stuck)
    return Told(number, start, opened, row, closed, *said)


def _episode(room: Told, at: int, lags: int) -> Episode:
    start, row = int(room.start[at]), int(room.row[at])
    last = max(int(room.last[at]), start)
    rows = last - int(room.opened[at]) + 1
    kind = "shift"
    if room.surprises[at] < SPIKE_ROWS + lags:
        kind = "spike"
    elif rows > 2 * EARLY_ROWS:
        late = (room.surprise[at] - room.early[at]) / (rows - EARLY_ROWS)
        if late > RAMP * room.early[at] / EARLY_ROWS:
            kind = "ramp"
    blame = room.blame[at].copy()
    if 2 * room.stuck_rows[at] > last - start + 1:
        kind, blame = "stuck", room.stuck[at].copy()
    total = float(blame.sum())
    return Episode(
        number=int(room.number[at]),
        kind=kind,
        start=start,
        opened=int(room.opened[at]),
        row=row,
        closed=bool(room.closed[at]),
        last=last,
        severity=float(room.surprise[at]) / math.log(10.0),
        peak=math.exp(-float(room.peak[at])),
        times=tuple(room.times[at].tolist()),
        shares=blame / total if total > 0.0 else blame,
    )


def open_episode(spec: ReferenceSpec, state: ReferenceState) -> Episode | None:
    """Return the episode that is open after the rows so far, None if there is none."""
    tables = state.tables
    if tables.counts[OPENED] < 0:
        return None
    room = _room(1, len(tables.scale))
    call("reference_note", tables, room)
    return _episode(room, 0, spec.lags_for(len(tables.scale)))


def restarted(state: ReferenceState) -> ReferenceState:
    """Return a reference for rows that do not follow those that it has seen.

    What it was made of stays. The evidence is 0, no episode is open or was, and before the next row
    all counts as it is in that.
    """
    tables = copied(state.tables)
    for place in (ZERO, LAST_SURPRISE, SURPRISES, EPISODES, STUCK_ROWS):
        tables.counts[place] = 0
    tables.counts[OPENED] = -1
    tables.reals[EVIDENCES] = 0.0
    tables.times[: NEWEST_TIME + 1] = 0
    for array in (tables.blame, tables.stuck, tables.runs):
        array[...] = 0
    tables.previous[...] = np.nan
    first = next_place(tables)
    tables.rows[first : first + len(tables.rows) - BLOCK] = np.nan
    return ReferenceState(tables, state.kernel)


def ready(state: ReferenceState) -> bool:
    """Check whether the reference is made: rows have a p, and episodes are found, only then."""
    return bool(state.tables.counts[CALIBRATED] > 0)


def arrays(state: ReferenceState) -> dict[str, npt.NDArray[Any]]:
    """Return the state's arrays by name, for the codec."""
    kernel = {f"kernel.{name}": array for name, array in KERNEL.arrays(state.kernel).items()}
    # The codec knows whole numbers and reals.
    return {**state.tables._asdict(), "good": state.tables.good.astype(np.int64), **kernel}


def from_arrays(spec: ReferenceSpec, arrays: Mapping[str, npt.NDArray[Any]]) -> ReferenceState:
    """Make a state of what `arrays` gave.

    Raises:
        ConfigError: for other names or shapes than the spec gives them, or counts that no state
            has.
    """
    own = {name: array for name, array in arrays.items() if not name.startswith("kernel.")}
    scale = own.get("scale", np.zeros(0))
    if scale.ndim != 1 or not len(scale):
        raise ConfigError("reference.scale", scale.shape, "of shape (D,)")
    like = {**layout(spec, len(scale)), "good": whole(BLOCK)}
    tables = Tables(**copies_like("reference", own, like))
    tables = tables._replace(good=tables.good != 0)
    check_positive("reference.scale", tables.scale)
    seen = int(tables.counts[SEEN])
    opened = tables.counts[OPENED]
    tables.counts[OPENED] = max(int(opened), 0)
    check_counts(
        "reference.counts",
        tables.counts,
        Limit("row that opened an episode", OPENED, seen),
        Limit("row at which the evidence was low", ZERO, seen),
        Limit("last surprising row", LAST_SURPRISE, seen),
        Limit("surprising rows", SURPRISES, seen),
        Limit("rows of stuck channels", STUCK_ROWS, seen),
        Limit("row of the largest surprise of late", RECENT_ROW, seen),
        Limit("episodes", EPISODES, seen),
        Limit("rows before the calibration", STRETCHED, seen),
        Limit("rows of the calibration", CALIBRATED, MOST_KEPT),
        Limit("excursions", EXCURSIONS, MOST_PEAKS),
        Limit("row that the reference began with", BEGAN, seen),
        Limit("place of row 0", PAD, BLOCK - 1),
    )
    # A block's rows are learned at its end: up to all of them, whatever part of it was seen here.
    whole_blocks = seen - next_place(tables) + BLOCK
    check_counts(
        "reference.counts",
        tables.counts,
        Limit("rows learned", LEARNED, whole_blocks),
        Limit("scores kept", KEPT, whole_blocks),
    )
    tables.counts[OPENED] = max(int(opened), -1)
    for name in ("runs", "longest", "repeated"):
        check_whole(f"reference.{name}", getattr(tables, name), 0, seen)
    named = {
        name.removeprefix("kernel."): array
        for name, array in arrays.items()
        if name.startswith("kernel.")
    }
    kernel = KERNEL.from_arrays(spec.kernel, named)
    if len(kernel.scale) != len(scale):
        raise ConfigError("reference.kernel.scale", kernel.scale.shape, f"of shape ({len(scale)},)")
    return ReferenceState(tables, kernel)
