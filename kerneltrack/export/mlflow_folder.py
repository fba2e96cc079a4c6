"""A fleet as a folder that MLflow loads as a Python function, without pickle.

The folder is MLflow's own format: `MLmodel` names the loader (`kerneltrack.mlflow`), the folder of
data (snapshots) and the signature; `requirements.txt` and `python_env.yaml` say what to install.
It is written without MLflow, and holds no time and no random id: equal fleets give equal folders.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

import yaml

import kerneltrack
from kerneltrack.errors import ConfigError
from kerneltrack.frames.fleet import Fleet
from kerneltrack.frames.table import FrameColumns
from kerneltrack.snapshots.files import write_whole

DATA = "data"
FORMAT = "3.1.0"
"""The version of MLflow whose form of `MLmodel` this is."""


def write_mlflow(fleet: Fleet, folder: str) -> None:
    """Write a fleet as an MLflow model.

    Args:
        fleet: Its columns must be known; what waits to begin does so.
        folder: Where to: empty, or not there.

    Raises:
        ConfigError: for a fleet whose columns are not known, or a folder that holds something.
        OSError: if a file cannot be written.
    """
    columns = fleet.columns
    if columns is None:
        allowed = "known: from a job's run.json, or a fleet's columns.json, next to the snapshots"
        raise ConfigError("columns", None, allowed)
    place = Path(folder)
    fleet.save(place / DATA)
    python = platform.python_version()
    model = {
        "flavors": {
            "python_function": {
                "loader_module": "kerneltrack.mlflow",
                "data": DATA,
                "python_version": python,
                "env": {"virtualenv": "python_env.yaml"},
            }
        },
        "mlflow_version": FORMAT,
        "signature": {"inputs": json.dumps(_inputs(columns)), "outputs": None, "params": None},
        "metadata": {
            "holds_rows_of_the_data": True,
            "models": len(fleet),
            "tracker": fleet.tracker.to_dict(),
            "learner": None if fleet.learner is None else fleet.learner.to_dict(),
        },
    }
    # pandas: what MLflow gives, and gets.
    needs = f"kerneltrack=={kerneltrack.__version__}\npandas>=2.2,<4\n"
    environment = {
        "python": python,
        "build_dependencies": ["pip"],
        "dependencies": ["-r requirements.txt"],
    }
    write_whole(str(place / "requirements.txt"), needs.encode())
    write_whole(str(place / "python_env.yaml"), _yaml(environment))
    write_whole(str(place / "MLmodel"), _yaml(model))


def _inputs(columns: FrameColumns) -> list[dict[str, object]]:
    """Return the signature: ids and times may be of several types."""
    kept = [name for name in (columns.model_id, columns.time) if name is not None]
    named: list[dict[str, object]] = [{"name": name, "type": "any"} for name in kept]
    named += [{"name": name, "type": "double"} for name in columns.features]
    return [{**one, "required": True} for one in named]


def _yaml(values: object) -> bytes:
    text: str = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    return text.encode()
