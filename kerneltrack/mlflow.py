"""What MLflow loads a fleet with: `mlflow.pyfunc.load_model` of what `kerneltrack export` wrote.

No pickle: the model's data are snapshots, as jobs write them. MLflow itself is not imported.
"""

from __future__ import annotations

from typing import Any

from kerneltrack.frames.fleet import Fleet


class FleetModel:
    """A fleet behind MLflow's interface: rows in, what is said of them out; nothing is learned.

    Args:
        fleet: The fleet.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Return what `Fleet.score` says of a frame's rows, a line each.

        Args:
            model_input: A data frame with the columns of the signature.
            params: None are known.
        """
        del params
        return self.fleet.score(model_input)


def _load_pyfunc(path: str) -> FleetModel:
    """Return the model whose data are in a folder: what MLflow calls."""
    return FleetModel(Fleet.load(path))
