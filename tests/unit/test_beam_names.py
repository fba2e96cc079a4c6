"""`kerneltrack.beam` offers the transforms, whatever else is called `transforms`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

import kerneltrack.beam
import transforms
from kerneltrack import OKFEBSpec, RidgeSpec
from kerneltrack.beam import (
    ChunksToRows,
    Order,
    RowsToChunks,
    TrackSubspace,
    TrainLinear,
    features_schema,
)
from kerneltrack.errors import ConfigError

SPEC = OKFEBSpec(rank=2, budget=4)
ROWS = [beam.Row(pump="a", at=float(at), flow=float(at % 7)) for at in range(20)]


def test_it_has_all_names_of_the_package_and_a_few_more() -> None:
    names = kerneltrack.beam.__dir__()
    assert set(dir(transforms)) < set(names)
    for name in names:
        assert getattr(kerneltrack.beam, name) is not None
    assert kerneltrack.beam.TrackSubspace is transforms.TrackSubspace
    with pytest.raises(AttributeError, match=f"{name}s"):
        getattr(kerneltrack.beam, name + "s")


def test_the_stub_has_the_same_names() -> None:
    stub = Path(kerneltrack.beam.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    offered = {line.rpartition(" as ")[2] for line in stub.splitlines()}
    assert offered == set(kerneltrack.beam.__dir__())


ROOT = Path(__file__).resolve().parents[2]
PLAIN = f"""
import sys
# Modules are looked for on the path alone, this folder first, as with an installed wheel.
sys.meta_path[:] = [each for each in sys.meta_path if each.__module__.startswith("_frozen")]
sys.path.append({str(ROOT)!r})
"""


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    (folder / "transforms.py").write_text("mine = 1\n", encoding="utf-8")
    (folder / "job.py").write_text(PLAIN + script, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "job.py"], cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_file_of_the_same_name_hides_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "from kerneltrack.beam import TrackSubspace\nprint(TrackSubspace)\n")
    assert done.stdout.strip() == "<class 'transforms.track.transform.TrackSubspace'>", done.stderr


def test_one_that_is_imported_already_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "import transforms\nfrom kerneltrack.beam import TrackSubspace\n")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ") and "transforms.py is imported as `transforms`" in last


def chunks(pipeline: beam.Pipeline) -> dict[str, beam.PCollection[Any]]:
    made = pipeline | beam.Create(ROWS)
    found: dict[str, beam.PCollection[Any]] = made | RowsToChunks(
        model_id="pump", time="at", features=["flow"]
    )
    return found


def test_all_outputs_in_the_place_of_one_are_refused() -> None:
    pipeline = beam.Pipeline()
    made = chunks(pipeline)
    with pytest.raises(ConfigError, match=r"rows, failures.*choose an output.*outputs\['rows'\]"):
        made | TrackSubspace(SPEC)
    tracked = made["rows"] | "Track" >> TrackSubspace(SPEC)
    with pytest.raises(ConfigError, match=r"outputs\['features'\]"):
        tracked | ChunksToRows(features_schema(SPEC, None, has_time=True))
    with pytest.raises(ConfigError, match="one PCollection"):
        {"rows": made["rows"]} | "Again" >> RowsToChunks(
            model_id="pump", time="at", features=["flow"]
        )


def test_names_in_the_place_of_specs_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"spec = 'okfeb': must be a SubspaceSpec, such as OKFEB"):
        TrackSubspace("okfeb")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"reference = 'first': must be a ReferenceSpec"):
        TrackSubspace(SPEC, reference="first")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"order = 2.0: must be a Order|an Order"):
        TrackSubspace(SPEC, 2.0)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"spec = 'ridge': must be a LearnerSpec"):
        TrainLinear("ridge")  # type: ignore[arg-type]
    assert TrainLinear(RidgeSpec()) is not None and TrackSubspace(SPEC, Order()) is not None


def test_a_misspelt_field_is_named() -> None:
    with pytest.raises(ConfigError, match="features = 'flwo': must be a field of the rows: pump,"):
        (
            beam.Pipeline()
            | beam.Create(ROWS)
            | RowsToChunks(model_id="pump", time="at", features=["flwo"])
        )
