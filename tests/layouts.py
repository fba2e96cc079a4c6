"""C's declarations of what crosses from Python: `kerneltrack/native/layouts.h`.

Each structure is a named tuple of Python; its members, their types and their order are written down
there alone. `python -m tests.layouts` writes the header anew; a test holds it against the tuples,
and the C compiler its sizes against what Python packs.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from kerneltrack.native import binding
from kerneltrack.native.layouts import WORDS

FILE = Path(binding.__file__).parent / "layouts.h"
NUMBERS = {float: "double", int: "int64_t", bool: "int64_t"}

STRUCTURES = {
    "kernel": "kernels:Kernel",
    "outputs": "trackers.common.state:Outputs",
    "okfeb_settings": "trackers.okfeb.state:OkfebSettings",
    "okfeb_state": "trackers.okfeb.state:SubspaceState",
    "covariance_settings": "trackers.covariance.state:CovarianceSettings",
    "covariance_state": "trackers.covariance.state:CovarianceState",
    "oana_settings": "trackers.oana.state:OanaSettings",
    "oana_state": "trackers.oana.state:OANAState",
    "rows_settings": "trackers.rows.tracker:RowsSettings",
    "rows_state": "trackers.rows.tracker:RowsState",
    "doubly_settings": "trackers.doubly.state:DoublySettings",
    "doubly_state": "trackers.doubly.state:DoublyState",
    "pair_state": "trackers.doubly.pair:PairState",
    "feature_map": "trackers.doubly.random_features:FeatureMap",
    "window_state": "monitor.moving:WindowState",
    "moving_mismatch": "monitor.moving:MovingMismatch",
    "drift_settings": "monitor.drift.detector:DriftSettings",
    "drift_state": "monitor.drift.detector:DriftState",
    "period_memory": "monitor.periods.sums:Memory",
    "period_sums": "monitor.periods.sums:PeriodSums",
    "sweep_settings": "batch.row_sparse:RowSparseSettings",
    "descent": "batch.row_sparse:Descent",
    "mode": "learners.common.prequential:Mode",
    "coded": "learners.common.labels:Coded",
    "predicted": "learners.common.prequential:Predicted",
    "linear_state": "learners.linear.common:LinearState",
    "gradient_settings": "learners.linear.common:GradientSettings",
    "lms_settings": "learners.linear.lms:LMSSettings",
    "pa_settings": "learners.linear.pa:PASettings",
    "pegasos_settings": "learners.linear.pegasos:PegasosSettings",
    "ridge_settings": "learners.linear.ridge:RidgeSettings",
    "dictionary_state": "learners.kernel.dictionary:DictionaryState",
    "bsgd_settings": "learners.kernel.bsgd:BSGDSettings",
    "polk_settings": "learners.kernel.polk:POLKSettings",
    "fogd_settings": "learners.kernel.fogd:FOGDSettings",
    "fogd_state": "learners.kernel.fogd:FOGDState",
    "nolana_settings": "learners.kernel.nolana:NOLANASettings",
    "nolana_state": "learners.kernel.nolana:NOLANAState",
    "reference_settings": "monitor.reference.run:ReferenceSettings",
    "reference_state": "monitor.reference.state:Tables",
    "reference_episodes": "monitor.reference.episodes:EpisodeRoom",
    "auto_settings": "learners.auto.learner:AutoSettings",
    "auto_state": "learners.auto.learner:AutoState",
}
"""C's name of each structure, and where its named tuple is."""

BEGIN = """\
/* What crosses from Python, written from its named tuples by `python -m tests.layouts`. */
#ifndef KT_LAYOUTS_H
#define KT_LAYOUTS_H

#include "shapes.h"

/* A structure is as many members of eight bytes as Python packs. */
#define KT_WORDS(type, many) \\
  _Static_assert(sizeof(type) == 8 * (many), #type " is not as Python packs it")
"""


def tuple_of(name: str) -> Any:
    """Return the named tuple of a structure."""
    module, _, type_name = STRUCTURES[name].partition(":")
    return getattr(importlib.import_module(f"kerneltrack.{module}"), type_name)


def members_of(kind: Any) -> dict[str, str]:
    """Return the members of a named tuple's structure with their types in C.

    What comes last and is neither a number nor an array (the names of classes) does not cross.

    Raises:
        TypeError: for anything else that is not one, or an array of which the dimensions are not
            said.
    """
    found: dict[str, str] = {}
    left_out = ""
    for name, hint in get_type_hints(kind, include_extras=True).items():
        declared = get_args(hint)[1] if get_origin(hint) is Annotated else NUMBERS.get(hint)
        if declared is None:
            left_out = name
        elif left_out:
            raise TypeError(f"{kind.__name__}.{left_out} does not cross, but what follows it does")
        else:
            found[name] = declared
    if left_out and not {"classes", "kept"} >= set(kind._fields) - set(found):
        raise TypeError(f"{kind.__name__}.{left_out}: say how many dimensions it has")
    return found


def words_of(kind: Any) -> int:
    """Return how many members of eight bytes a named tuple is packed into."""
    return sum(WORDS[declared] for declared in members_of(kind).values())


def _declarations() -> Iterator[str]:
    yield BEGIN
    for name in STRUCTURES:
        kind = tuple_of(name)
        about = " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())
        comment = textwrap.fill(f"/* {kind.__name__}: {about} */", 100)
        lines = [f"  {declared} {member};" for member, declared in members_of(kind).items()]
        whole = [comment, "typedef struct {", *lines, f"}} {name};"]
        yield "\n".join([*whole, f"KT_WORDS({name}, {words_of(kind)});", ""])
    yield "#endif"


def header() -> str:
    """Return the text of the header."""
    return "\n".join(_declarations()) + "\n"


if __name__ == "__main__":
    FILE.write_text(header(), encoding="utf-8")
