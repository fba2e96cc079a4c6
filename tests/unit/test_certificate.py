"""The certificate bounds exact batch learners, and its command says what it assumes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.svm import SVC

from kerneltrack import CovarianceSpec, OKFEBSpec
from kerneltrack.errors import ConfigError
from kerneltrack.in_memory import run_all
from kerneltrack.kernels import gram, make_kernel
from kerneltrack.monitor.certificate import certify
from kerneltrack.monitor.mismatch import window_mismatch
from kerneltrack.registry import get_tracker
from pipelines.cli.main import main

Array = npt.NDArray[np.float64]
GAMMA = 3.0


def matrices(seed: int, rank: int, spec_type: Any = OKFEBSpec) -> tuple[Array, Array, Array]:
    """Kernel matrices of rows and of their features, and the residuals."""
    rows = np.random.default_rng(seed).normal(size=(160, 2))
    spec = spec_type(rank=rank, budget=2 * rank, gamma=GAMMA, standardise=False, warmup=40)
    state, _ = run_all(spec, rows[:100])
    z = get_tracker(spec.tracker).project(spec, state, rows).z
    assert z is not None
    residuals = np.clip(1.0 - (np.asarray(z) ** 2).sum(axis=1), 0.0, 1.0)
    found = certify(residuals)
    measured = window_mismatch(spec, state, rows)
    assert found.mismatch == pytest.approx(measured.residual, rel=1e-9)
    assert measured.value <= found.mismatch
    return gram(make_kernel("gaussian", GAMMA), rows, rows), np.asarray(z @ z.T), residuals


@pytest.mark.parametrize("spec_type", [OKFEBSpec, CovarianceSpec])
@pytest.mark.parametrize("rank", [3, 10, 25])
@pytest.mark.parametrize("ridge", [0.003, 0.03, 1.0])
def test_the_bounds_hold_for_exact_kernel_ridge_regression(
    rank: int, ridge: float, spec_type: Any
) -> None:
    whole, low, residuals = matrices(rank, rank, spec_type)
    rows = len(whole)
    y = np.sign(np.sin(3 * np.arange(rows))) * 2.0
    found = certify(residuals, ridge_penalty=ridge, largest_target=2.0)
    one, other = (
        np.linalg.solve(matrix + ridge * rows * np.eye(rows), y) for matrix in (whole, low)
    )
    assert np.linalg.norm(one - other) <= found.ridge_weights
    errors = [
        float(np.sqrt(np.mean((y - matrix @ beta) ** 2)))
        for matrix, beta in ((whole, one), (low, other))
    ]
    assert errors[1] - errors[0] <= found.ridge_excess
    # No weaker than what the weights say: λ√N times their distance, and never above |y|.
    assert found.ridge_excess == pytest.approx(
        min(ridge * np.sqrt(rows) * found.ridge_weights, 2.0)
    )


@pytest.mark.parametrize("rank", [3, 10, 25])
@pytest.mark.parametrize("penalty", [0.1, 1.0, 10.0])
def test_the_bounds_hold_for_exact_support_vector_machines(rank: int, penalty: float) -> None:
    whole, low, residuals = matrices(rank, rank)
    rows = len(whole)
    y = np.where(np.arange(rows) % 3 == 0, 1.0, -1.0)
    found = certify(residuals, svm_penalty=penalty)
    objectives = []
    for matrix in (whole, low):
        machine = SVC(C=penalty / rows, kernel="precomputed", tol=1e-6).fit(matrix, y)
        weights = np.zeros(rows)
        weights[machine.support_] = machine.dual_coef_[0]
        scores = matrix @ weights + machine.intercept_
        hinge = np.maximum(0.0, 1.0 - y * scores).mean()
        objectives.append(0.5 * weights @ matrix @ weights + penalty * hinge)
    assert objectives[1] - objectives[0] <= found.svm_excess + 1e-6
    assert found.svm_excess <= min(0.5 * found.svm_weights, penalty)


def test_residuals_out_of_range_are_refused() -> None:
    for bad in ([-0.1], [1.1], [np.nan], [], [[0.1]]):
        with pytest.raises(ConfigError, match="residuals"):
            certify(bad)
    for name in ("confidence", "svm_penalty", "ridge_penalty"):
        with pytest.raises(ConfigError, match=name.split("_")[-1]):
            certify([0.1], **{name: 0.0})


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three devices, and rows after its own, scored."""
    folder = tmp_path_factory.mktemp("certificate")
    rng = np.random.default_rng(0)
    for name, first in (("rows", 0), ("later", 300)):
        columns = {f"x{place}": rng.normal(size=900) for place in range(3)}
        time = np.tile(np.arange(first, first + 300), 3)
        device = np.repeat(["a", "b", "c"], 300)
        target = 3.0 * np.sin(columns["x0"])
        table = pa.table({"device": device, "time": time, "target": target, **columns})
        pq.write_table(table, folder / f"{name}.parquet")
    names = ["--model-id", "device", "--time", "time", "--time-unit", "s", "--label", "target"]
    flags = [*names, "--workers", "1"]
    tracked = ["--learner", "ridge", "--learner-task", "regression", "--neighbours", "0"]
    rows, out = str(folder / "rows.parquet"), str(folder / "out")
    assert (
        main(["track", rows, *flags, *tracked, "--rank", "4", "--budget", "8", "--output", out])
        == 0
    )
    for name in ("later", "rows"):
        snapshots = ["--snapshots", f"{out}/snapshots", "--output", str(folder / f"scored-{name}")]
        assert main(["score", str(folder / f"{name}.parquet"), *names, *snapshots]) == 0
    return folder


def inspect(capsys: pytest.CaptureFixture[str], folder: Path, *more: str) -> str:
    capsys.readouterr()
    assert main(["inspect", str(folder / "out" / "snapshots"), "--model", "b", *more]) == 0
    return capsys.readouterr().out


def test_the_command_certifies_the_scored_rows(
    capsys: pytest.CaptureFixture[str], scored: Path
) -> None:
    later = ("--certificate", str(scored / "scored-later"))
    found = json.loads(inspect(capsys, scored, *later, "--json"))
    table = pq.read_table(scored / "scored-later" / "scores")
    mine = table.filter(pa.compute.equal(table["model_id"], "b"))
    z = np.array(mine["z"].to_pylist())
    targets = np.abs(np.array(mine["label"].to_pylist()))
    wanted = certify(1.0 - (z**2).sum(axis=1), largest_target=float(targets.max()))
    assert found["rows"] == 300
    assert found["mismatch"] == wanted.mismatch
    assert found["largest_target"] == float(targets.max()) > 1.0
    text = inspect(capsys, scored, *later)
    assert f"at most {wanted.mismatch:.4g}" in text
    assert "assumptions:" in text and "learned from none of the scored rows" in text
    again = inspect(capsys, scored, "--certificate", str(scored / "scored-rows"))
    assert "has learned from some of the scored rows" in again
    sharper = ("--confidence", ".5", "--svm-penalty", "2", "--ridge-penalty", ".1", "--json")
    other = json.loads(inspect(capsys, scored, *later, *sharper))
    assert other["future_mismatch"] < found["future_mismatch"]
    assert (other["confidence"], other["svm_penalty"], other["ridge_penalty"]) == (0.5, 2.0, 0.1)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model", "b", "--certificate", "{}/out"], "each under another state"),
        (["--model", "z", "--certificate", "{}/scored-later"], "snapshot"),
        (["--certificate", "{}/scored-later"], "--model"),
        (["--model", "b", "--confidence", ".9"], "--certificate only"),
        (["--model", "b", "--svm-penalty", "2"], "--certificate only"),
        (["--model", "b", "--kind", "learner", "--certificate", "{}/scored-later"], "without"),
        (["--model", "b", "--certificate", "{}/none"], "run.json"),
        (["--model", "b", "--certificate", "{}/scored-later", "--confidence", "1"], "confidence"),
    ],
)
def test_what_cannot_be_certified_is_named(
    capsys: pytest.CaptureFixture[str], scored: Path, flags: list[str], message: str
) -> None:
    capsys.readouterr()
    given = [flag.format(scored) for flag in flags]
    assert main(["inspect", str(scored / "out" / "snapshots"), *given]) == 2
    assert message in capsys.readouterr().err


def test_a_tracker_without_such_features_is_refused(
    capsys: pytest.CaptureFixture[str], scored: Path, tmp_path: Path
) -> None:
    names = ["--model-id", "device", "--time", "time", "--time-unit", "s", "--exclude", "target"]
    rows, out = str(scored / "rows.parquet"), str(tmp_path / "out")
    flags = ["--workers", "1", "--neighbours", "0", "--kernel", "linear", "--output", out]
    assert main(["track", rows, *names, *flags]) == 0
    given = ["--model", "b", "--certificate", str(scored / "scored-later")]
    assert main(["inspect", f"{out}/snapshots", *given]) == 2
    assert "kernel linear" in capsys.readouterr().err
