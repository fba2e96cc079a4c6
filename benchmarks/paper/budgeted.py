"""Classical online kernel classifiers, with a budget of stored rows or without, for two classes.

Each says f(x) = Σ_i α_i κ(x_i, x) of a row before it learns its label y = ±1. They are lines of
comparisons, written as their papers have them, a row at a time.

| method | on which rows | what gives way when B rows are stored | source |
|---|---|---|---|
| perceptron | errors | nothing: no budget | Rosenblatt 1958; Freund, Schapire 1999 |
| RBP | errors | one at random | Cavallanti, Cesa-Bianchi, Gentile 2007 |
| Forgetron | errors | the oldest, after all have shrunk | Dekel, Shalev-Shwartz, Singer 2008 |
| Projectron | errors | the new row, projected on the others | Orabona, Keshet, Caputo 2009 |
| Projectron++ | margin < 1 | the same | the same, section 4 |
| BPA-S | margin < 1 | the one whose going costs least | Wang, Vucetic 2010, section 4.1 |
| BOGD | margin < 1 | one at random, the others grow for it | Zhao et al. 2012 |
| NORMA | margin < ρ | the oldest | Kivinen, Smola, Williamson 2004 |
| SILK | margin < 1 | the oldest | Cheng et al. 2007 |
| OGD | margin < 1 | nothing: no budget | Shalev-Shwartz et al. 2011 (Pegasos) |
| DualSGD | margin < 1 | the oldest, moved to random features | Le et al. 2016 |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from kerneltrack.arrays import FloatArray

FLAT, LEAST, NEW = 1e-12, 1e-6, 1e-8
"""Terms of no size; the Forgetron's least φ; the least part of a row that is off the others."""


class Machine:
    """Rows x_i with weights α_i, and the Gaussian kernel exp(-‖x - y‖²/γ).

    Attributes:
        weights: (B,) α of the rows that are stored, the oldest first.
    """

    def __init__(self, budget: int, width: int, gamma: float, seed: int = 0) -> None:
        """Make room for B rows of D channels."""
        self.budget, self.gamma = budget, gamma
        self.rng = np.random.default_rng(seed)
        self._rows = np.zeros((budget + 1, width))
        self._squares = np.zeros(budget + 1)
        self.weights = np.zeros(0)
        self.seen = 0

    @property
    def rows(self) -> FloatArray:
        """(B, D) rows that are stored, the oldest first."""
        return self._rows[: len(self.weights)]

    def kernel(self, x: FloatArray) -> FloatArray:
        """Return κ(x_i, x) of the stored rows."""
        count = len(self.weights)
        distances = self._squares[:count] - 2.0 * (self._rows[:count] @ x) + x @ x
        return np.asarray(np.exp(-np.maximum(distances, 0.0) / self.gamma))

    def add(self, x: FloatArray, weight: float) -> None:
        """Store a row behind the others."""
        count = len(self.weights)
        self._rows[count], self._squares[count] = x, x @ x
        self.weights = np.append(self.weights, weight)

    def drop(self, place: int) -> None:
        """Forget a row."""
        count = len(self.weights)
        self._rows[place : count - 1] = self._rows[place + 1 : count].copy()
        self._squares[place : count - 1] = self._squares[place + 1 : count].copy()
        self.weights = np.delete(self.weights, place)

    @property
    def over(self) -> bool:
        """Whether one row too many is stored."""
        return len(self.weights) > self.budget

    def predictions(self, x: FloatArray, k: FloatArray) -> float:
        """Return f(x)."""
        return float(self.weights @ k)

    def learn(self, x: FloatArray, y: float, k: FloatArray, f: float) -> None:
        """Learn a row's label, given κ(x_i, x) and f(x)."""
        raise NotImplementedError


class RandomPerceptron(Machine):
    """RBP."""

    def learn(self, x: FloatArray, y: float, k: FloatArray, f: float) -> None:
        """Store a row that was wrong."""
        if y * f <= 0:
            self.add(x, y)
            if self.over:
                self.drop(int(self.rng.integers(self.budget)))


class Forgetron(Machine):
    """The self-tuned Forgetron."""

    errors, spent = 0, 0.0

    def learn(self, x: FloatArray, y: float, k: FloatArray, f: float) -> None:
        """Store a row that was wrong, shrink all, forget the oldest."""
        if y * f > 0:
            return
        self.errors += 1
        self.add(x, y)
        if not self.over:
            return
        weight = abs(float(self.weights[0]))
        margin = float(np.sign(self.weights[0]) * (self.weights @ self.kernel(self.rows[0])))
        square, room = weight * weight - 2.0 * weight * margin, 15 / 32 * self.errors - self.spent
        shrink = _largest(square, 2.0 * weight, room)
        self.spent += square * shrink**2 + 2.0 * weight * shrink
        self.weights *= shrink
        self.drop(0)


def _largest(square: float, linear: float, room: float) -> float:
    """Return the largest φ in (0, 1] with square·φ² + linear·φ <= room."""
    if square + linear <= room:
        return 1.0
    if abs(square) < FLAT:
        return max(min(room / linear, 1.0), LEAST)
    inside = max(linear * linear + 4.0 * square * room, 0.0)
    return float(np.clip((np.sqrt(inside) - linear) / (2.0 * square), LEAST, 1.0))


class Projectron(Machine):
    """The Projectron, which stores errors until B are there and projects further ones."""

    margin = False

    def __init__(self, budget: int, width: int, gamma: float, seed: int = 0) -> None:
        super().__init__(budget, width, gamma, seed)
        self._inverse = np.zeros((0, 0))

    def learn(self, x: FloatArray, y: float, k: FloatArray, f: float) -> None:
        """Store a row, or add its projection."""
        if y * f >= (1.0 if self.margin else 0.0) and len(self.weights):
            return
        along = self._inverse @ k
        inside = float(k @ along)
        left = 1.0 - inside
        wrong = y * f <= 0
        if len(self.weights) < self.budget and wrong and left > NEW:
            self._grow(along, left)
            self.add(x, y)
            return
        size = 1.0
        if not wrong:
            # Of a correct row only as much as its projection holds of it (section 4).
            size = min(1.0, (1.0 - y * f) / max(inside, 1e-12))
            if 1.0 - y * f < left:
                return
        self.weights = self.weights + size * y * along

    def _grow(self, along: FloatArray, left: float) -> None:
        column = np.append(-along, 1.0)
        grown = np.zeros((len(column), len(column)))
        grown[:-1, :-1] = self._inverse
        self._inverse = grown + np.outer(column, column) / left


class ProjectronPlus(Projectron):
    """The Projectron++."""

    margin = True


class PassiveAggressive(Machine):
    """BPA-S: passive-aggressive on a budget, the new row alone takes up what goes."""

    aggressive = 1.0

    def learn(self, x: FloatArray, y: float, k: FloatArray, f: float) -> None:
        """Move just as far as the margin asks for."""
        loss = 1.0 - y * f
        if loss <= 0:
            return
        size = y * min(self.aggressive, loss)
        if len(self.weights) < self.budget:
            self.add(x, size)
            return
        each = self.weights * k + size
        costs = self.weights**2 - 2.0 * self.weights * each * k + each**2
        gone = int(np.argmin(costs))
        weight = float(each[gone])
        self.drop(gone)
        self.add(x, weight)


class GradientDescent(Machine):
    """BOGD with uniform removal: f ← (1 - ηλ)f + ηyκ, a removed row's share goes to the others."""

    step, ridge, largest = 0.2, 1e-4, 10.0

    def learn(self, x: FloatArray, y: float, k: FloatArray, f: float) -> None:
        """Take a step along the gradient of the hinge loss."""
        self.weights = self.weights * (1.0 - self.step * self.ridge)
        if y * f >= 1.0:
            return
        self.add(x, self.step * y)
        if self.over:
            self.drop(int(self.rng.integers(len(self.weights))))
            self.weights = np.clip(
                self.weights * (self.budget + 1) / self.budget, -self.largest, self.largest
            )


class SquaredDescent(GradientDescent):
    """BOGD on the squared error: targets in place of classes."""

    ridge = 0.0

    def learn(self, x: FloatArray, y: float, k: FloatArray, f: float) -> None:
        """Take a step along the gradient of the squared error."""
        self.add(x, self.step * (y - f))
        if self.over:
            self.drop(int(self.rng.integers(len(self.weights))))


class Norma(Machine):
    """NORMA with a margin that is steered, the oldest rows truncated."""

    step, ridge, share = 0.2, 1e-4, 0.1
    margin = 0.0

    def learn(self, x: FloatArray, y: float, k: FloatArray, f: float) -> None:
        """Take a step; the margin ρ falls with errors of it and grows without."""
        self.weights = self.weights * (1.0 - self.step * self.ridge)
        inside = y * f <= self.margin
        self.margin += self.step * (self.share - (1.0 if inside else 0.0))
        if inside:
            self.add(x, self.step * y)
            if self.over:
                self.drop(0)


class Silk(Machine):
    """SILK: the implicit step, as large as the margin of the row asks for behind it."""

    step, ridge = 0.2, 1e-4

    def learn(self, x: FloatArray, y: float, k: FloatArray, f: float) -> None:
        """Solve for the step: α in [0, η] with the margin behind it at most 1."""
        shrink = 1.0 / (1.0 + self.step * self.ridge)
        self.weights = self.weights * shrink
        size = min(max(1.0 - y * f * shrink, 0.0), self.step)
        if size > 0:
            self.add(x, y * size)
            if self.over:
                self.drop(0)


class DualSgd(Machine):
    """DualSGD: the row that gives way lives on in random Fourier features."""

    step, ridge, features = 0.2, 1e-4, 200

    def __init__(self, budget: int, width: int, gamma: float, seed: int = 0) -> None:
        """Draw the features."""
        super().__init__(budget, width, gamma, seed)
        scale = np.sqrt(2.0 / gamma)
        self._omega = self.rng.normal(scale=scale, size=(self.features, width))
        self._outside = np.zeros(2 * self.features)

    def _mapped(self, x: FloatArray) -> FloatArray:
        angles = self._omega @ x
        both = np.concatenate([np.cos(angles), np.sin(angles)])
        return np.asarray(both / np.sqrt(self.features))

    def predictions(self, x: FloatArray, k: FloatArray) -> float:
        """Return f(x), of both parts."""
        return super().predictions(x, k) + float(self._outside @ self._mapped(x))

    def learn(self, x: FloatArray, y: float, k: FloatArray, f: float) -> None:
        """Take a step; move the oldest row."""
        shrink = 1.0 - self.step * self.ridge
        self.weights, self._outside = self.weights * shrink, self._outside * shrink
        if y * f >= 1.0:
            return
        self.add(x, self.step * y)
        if self.over:
            self._outside = self._outside + float(self.weights[0]) * self._mapped(self.rows[0])
            self.drop(0)


MACHINES: dict[str, type[Machine]] = {
    "RBP": RandomPerceptron,
    "Forgetron": Forgetron,
    "Projectron": Projectron,
    "Projectron++": ProjectronPlus,
    "BPA-S": PassiveAggressive,
    "BOGD": GradientDescent,
    "NORMA, budget": Norma,
    "SILK": Silk,
    "DualSGD": DualSgd,
}


def run(machine: Machine, rows: FloatArray, labels: FloatArray) -> FloatArray:
    """Return f(x) of each row before it is learned.

    Args:
        machine: Learns in place.
        rows: (n, D).
        labels: (n,) ±1.
    """
    predictions = np.zeros(len(rows))
    for place, (x, y) in enumerate(zip(rows, labels.tolist(), strict=True)):
        k = machine.kernel(x)
        predictions[place] = f = machine.predictions(x, k)
        machine.learn(x, y, k, f)
    return predictions


Weigh = Callable[[int, float, float], tuple[float, float]]
"""(row's number t from 1, y, f) -> what f shrinks by, and the weight of the row behind it."""


def perceptron(number: int, y: float, f: float) -> tuple[float, float]:
    """The perceptron: a row that is wrong, with weight 1."""
    return 1.0, y if y * f <= 0 else 0.0


def pegasos(ridge: float) -> Weigh:
    """Return OGD with the steps 1/(λt) on the hinge loss."""

    def weigh(number: int, y: float, f: float) -> tuple[float, float]:
        step = 1.0 / (ridge * number)
        return 1.0 - step * ridge, step * y if y * f < 1.0 else 0.0

    return weigh


def least_mean_squares(step: float) -> Weigh:
    """Return OGD on the squared error: targets in place of classes."""

    def weigh(number: int, y: float, f: float) -> tuple[float, float]:
        return 1.0, step * (y - f)

    return weigh


def without_budget(
    weigh: Weigh, rows: FloatArray, labels: FloatArray, gamma: float, block: int = 500
) -> FloatArray:
    """Return f(x) of each row before it is learned, all rows with a weight stored.

    Kernel values are computed in blocks; the weights are those of one row after another.
    """
    predictions = np.zeros(len(rows))
    stored, weights = np.zeros((0, rows.shape[1])), np.zeros(0)
    for begin, part, wanted in _blocks(rows, labels, block):
        before = (
            weights @ rbf_kernel(stored, part, gamma=1.0 / gamma)
            if len(stored)
            else np.zeros(len(part))
        )
        inner = rbf_kernel(part, part, gamma=1.0 / gamma)
        own, shrunk = np.zeros(len(part)), 1.0
        for place, y in enumerate(wanted.tolist()):
            f = shrunk * float(before[place]) + float(own[:place] @ inner[:place, place])
            predictions[begin + place] = f
            shrink, weight = weigh(begin + place + 1, y, f)
            own[:place] *= shrink
            shrunk *= shrink
            own[place] = weight
        kept = own != 0.0
        stored = np.vstack([stored, part[kept]])
        weights = np.concatenate([weights * shrunk, own[kept]])
    return predictions


def _blocks(
    rows: FloatArray, labels: FloatArray, block: int
) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    for begin in range(0, len(rows), block):
        yield begin, rows[begin : begin + block], labels[begin : begin + block]
