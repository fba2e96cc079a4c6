"""A model as an ONNX graph: features, loss and, of a linear learner, predictions of rows.

All in float64; equal to `project` and `predict` up to the rounding of sums (1e-12 in the tests).
The graph holds the rows that the model stores.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

import kerneltrack
from kerneltrack import kernels
from kerneltrack.export.frozen import FrozenMap, LinearHead
from kerneltrack.kernels import Kernel
from kerneltrack.learners.common.base import FLOOR
from kerneltrack.learners.common.spec import BOTH, FEATURES
from kerneltrack.trackers.common.calls import MAX_KERNEL, MAX_SCALED

OPSET, IR_VERSION = 17, 8
"""Old enough for runtimes of 2022; all operators are there in float64."""
ROWS = "rows"
"""Name of the input."""
_LARGEST = float(np.finfo(np.float64).max)


class _Graph:
    """A graph in the making: nodes in their order, constants, outputs."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.outputs: list[Any] = []

    def constant(self, name: str, values: Any) -> str:
        """Add a constant; its name."""
        array = np.ascontiguousarray(values)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def node(self, kind: str, inputs: list[str], name: str, **attributes: Any) -> str:
        """Add a node with one output; its name."""
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def output(self, name: str, kind: int, *columns: int) -> None:
        """Make a node's output one of the graph's, (n, columns)."""
        self.outputs.append(helper.make_tensor_value_info(name, kind, ["n", *columns]))


def to_onnx(
    frozen: FrozenMap, head: LinearHead | None = None, about: Mapping[str, Any] | None = None
) -> bytes:
    """Write a frozen map, and a linear head on it, as an ONNX model.

    Its input is `rows`, float64, (n, D), as they were read. Its outputs are

    - `valid` (n,), whether a row can be taken: finite, and not too large to compute with; the other
      outputs of other rows mean nothing;
    - `features` (n, r), and `loss` (n,), ℓ of the row;
    - of classes: `label` (n,), a text, `score` (n,), its probability, `values` (n, C), what each
      class is decided by, and `probabilities` (n, C); of targets: `value` (n,).

    Args:
        frozen: The map.
        head: The head; None: features alone.
        about: Plain values to keep in the model's metadata, as JSON.

    Returns:
        The bytes; equal for equal arguments.
    """
    graph = _Graph()
    width = len(frozen.scale)
    scaled = _scaled(graph, frozen)
    checks = [(ROWS, _LARGEST), (scaled, MAX_SCALED)]
    if frozen.kernel is None:
        features = graph.node("Identity", [scaled], "features")
        nothing = graph.constant("nothing", np.zeros((width, 1)))
        flat = graph.node("MatMul", [scaled, nothing], "flat")
        graph.node("Squeeze", [flat, graph.constant("last", np.array([1]))], "loss")
    else:
        features, own = _project(graph, frozen, frozen.kernel, scaled)
        checks.append((own, MAX_KERNEL))
    _check(graph, checks)
    graph.output("valid", TensorProto.BOOL)
    graph.output("features", TensorProto.DOUBLE, len(frozen.frame))
    graph.output("loss", TensorProto.DOUBLE)
    if head is not None:
        _decide(graph, frozen, head, features)
    return _bytes_of(graph, width, about or {})


def _bytes_of(graph: _Graph, width: int, about: Mapping[str, Any]) -> bytes:
    rows = helper.make_tensor_value_info(ROWS, TensorProto.DOUBLE, ["n", width])
    made = helper.make_graph(graph.nodes, "kerneltrack", [rows], graph.outputs, graph.constants)
    model = helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="kerneltrack",
        producer_version=kerneltrack.__version__,
        doc_string="A kernel subspace model. It holds rows of the data that it was made of.",
    )
    helper.set_model_props(model, {"kerneltrack": json.dumps(dict(about), sort_keys=True)})
    onnx.checker.check_model(model, full_check=True)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _standardised(graph: _Graph, frozen: FrozenMap) -> str:
    """Add x/scale - shift, not clipped."""
    over = graph.node("Div", [ROWS, graph.constant("scale", frozen.scale)], "over_scale")
    return graph.node("Sub", [over, graph.constant("shift", frozen.shift)], "standardised")


def _clipped(graph: _Graph, values: str, clip: float, name: str) -> str:
    if math.isinf(clip):
        return values
    bounds = [graph.constant(f"{name}_{side}", np.float64(sign * clip)) for side, sign in _SIDES]
    return graph.node("Clip", [values, *bounds], name)


_SIDES = (("least", -1.0), ("most", 1.0))


def _scaled(graph: _Graph, frozen: FrozenMap) -> str:
    return _clipped(graph, _standardised(graph, frozen), frozen.clip, "scaled")


def _project(graph: _Graph, frozen: FrozenMap, kernel: Kernel, scaled: str) -> tuple[str, str]:
    """Add k, the features and ℓ; the names of the features and of κ(x,x)."""
    k = _kernel(graph, kernel, frozen.stored, scaled)
    own = _own(graph, kernel, scaled)
    coefficients = graph.constant("coefficients", frozen.coefficients)
    along = graph.node("MatMul", [k, coefficients], "along")
    frame = graph.constant("frame", frozen.frame.T)
    z = graph.node("MatMul", [along, frame], "z")
    if frozen.ridge is None:
        q = along
        rest = graph.node("Sub", [own, _squares(graph, q, "explained")], "rest")
    else:
        q = graph.node("MatMul", [z, graph.constant("frame_back", frozen.frame)], "q")
        left = graph.node("Sub", [own, _squares(graph, z, "explained")], "left")
        ridge = graph.constant("ridge", np.float64(frozen.ridge))
        penalty = graph.node("Mul", [_squares(graph, q, "length"), ridge], "penalty")
        rest = graph.node("Sub", [left, penalty], "rest")
    above = graph.node("Max", [rest, graph.constant("zero", np.float64(0.0))], "above")
    graph.node("Min", [above, own], "loss")
    chosen = z if frozen.emit == "z" else q
    return graph.node("Identity", [chosen], "features"), own


def _squares(graph: _Graph, values: str, name: str) -> str:
    """Add Σv² of each row, (n,)."""
    squared = graph.node("Mul", [values, values], f"{name}_squared")
    return graph.node("ReduceSum", [squared, _last_axis(graph, 1)], name, keepdims=0)


def _last_axis(graph: _Graph, axis: int) -> str:
    name = f"axis_{axis}"
    if all(constant.name != name for constant in graph.constants):
        graph.constant(name, np.array([axis]))
    return name


def _kernel(graph: _Graph, kernel: Kernel, stored: npt.NDArray[Any], scaled: str) -> str:
    """Add κ(S, x) of each row, (n, m)."""
    if kernel.code in (kernels.POLYNOMIAL, kernels.LINEAR):
        products = graph.node("MatMul", [scaled, graph.constant("stored", stored.T)], "products")
        return _of_product(graph, kernel, products, "k")
    one = graph.node("Unsqueeze", [scaled, _last_axis(graph, 1)], "row_by_row")
    gaps = graph.node("Sub", [one, graph.constant("stored", stored)], "gaps")
    if kernel.code == kernels.GAUSSIAN:
        sizes = graph.node("Mul", [gaps, gaps], "sizes")
    else:
        sizes = graph.node("Abs", [gaps], "sizes")
    distance = graph.node("ReduceSum", [sizes, _last_axis(graph, 2)], "distance", keepdims=0)
    slope = graph.constant("slope", np.float64(-kernel.inverse_gamma))
    return graph.node("Exp", [graph.node("Mul", [distance, slope], "exponent")], "k")


def _own(graph: _Graph, kernel: Kernel, scaled: str) -> str:
    """Add κ(x,x) of each row, (n,)."""
    square = _squares(graph, scaled, "own_square")
    if kernel.code in (kernels.POLYNOMIAL, kernels.LINEAR):
        return _of_product(graph, kernel, square, "own")
    # One, of as many rows as there are; of a row that is not finite no number.
    nothing = graph.node("Mul", [square, graph.constant("none", np.float64(0.0))], "own_nothing")
    return graph.node("Exp", [nothing], "own")


def _of_product(graph: _Graph, kernel: Kernel, product: str, name: str) -> str:
    if kernel.code == kernels.LINEAR:
        return graph.node("Identity", [product], name)
    offset = graph.constant(f"{name}_offset", np.float64(kernel.offset))
    base = graph.node("Add", [product, offset], f"{name}_base")
    power = base
    for time in range(1, kernel.degree):
        power = graph.node("Mul", [power, base], f"{name}_power_{time + 1}")
    return graph.node("Identity", [power], name)


def _check(graph: _Graph, checks: list[tuple[str, float]]) -> None:
    """Add whether the values of a row are all at most so large, which no NaN is."""
    found = []
    for number, (values, most) in enumerate(checks):
        size = graph.node("Abs", [values], f"size_{number}")
        limit = graph.constant(f"limit_{number}", np.float64(most))
        good = graph.node("LessOrEqual", [size, limit], f"good_{number}")
        if values in (ROWS, "standardised", "scaled"):
            bad = graph.node("Not", [good], f"bad_{number}")
            counted = graph.node("Cast", [bad], f"counted_{number}", to=TensorProto.DOUBLE)
            total = graph.node(
                "ReduceSum", [counted, _last_axis(graph, 1)], f"total_{number}", keepdims=0
            )
            half = graph.constant(f"half_{number}", np.float64(0.5))
            good = graph.node("Less", [total, half], f"all_good_{number}")
        found.append(good)
    while len(found) > 1:
        last = found.pop()
        found[-1] = graph.node("And", [found[-1], last], f"{found[-1]}_and_{last}")
    graph.node("Identity", found, "valid")


def _decide(graph: _Graph, frozen: FrozenMap, head: LinearHead, features: str) -> None:
    """Add what a linear learner says."""
    row_inputs = features
    if head.inputs != FEATURES:
        own = _clipped(graph, "standardised", head.own_clip, "own_clipped")
        root = graph.constant("root", np.float64(math.sqrt(len(frozen.scale))))
        row_inputs = graph.node("Div", [own, root], "own_inputs")
        if head.inputs == BOTH:
            row_inputs = graph.node("Concat", [row_inputs, features], "inputs", axis=1)
    products = graph.node(
        "MatMul", [row_inputs, graph.constant("weights", head.weights.T)], "weighed"
    )
    values = graph.node("Add", [products, graph.constant("bias", head.bias)], "values")
    if not head.classes:
        graph.node("Squeeze", [values, _last_axis(graph, 1)], "value")
        graph.output("value", TensorProto.DOUBLE)
        return
    best = graph.node("ArgMax", [values], "best", axis=1, keepdims=0)
    beta = graph.constant("beta", np.float64(head.beta))
    soft = graph.node("Softmax", [graph.node("Mul", [values, beta], "tempered")], "soft", axis=1)
    kept = graph.node("Mul", [soft, graph.constant("kept", np.float64(1.0 - FLOOR))], "soft_kept")
    spread = graph.constant("spread", np.float64(FLOOR / len(head.classes)))
    chances = graph.node("Add", [kept, spread], "probabilities")
    names = graph.constant("classes", np.array(head.classes, dtype=object))
    graph.node("Gather", [names, best], "label")
    graph.node("ReduceMax", [chances], "score", axes=[1], keepdims=0)
    graph.output("label", TensorProto.STRING)
    graph.output("score", TensorProto.DOUBLE)
    graph.output("values", TensorProto.DOUBLE, len(head.classes))
    graph.output("probabilities", TensorProto.DOUBLE, len(head.classes))
