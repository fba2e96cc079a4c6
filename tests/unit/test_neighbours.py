"""Neighbours: distances against slow formulas, who is found, and that no order changes a bit."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.linalg
from scipy.signal import lfilter

from kerneltrack import (
    CovarianceSpec,
    DSKPCASpec,
    OANASpec,
    OKFEBSpec,
    OKFESpec,
    RowsSpec,
    SubspaceSpec,
    run_all,
)
from kerneltrack.errors import ConfigError
from kerneltrack.fleet.conditions import without_modes
from kerneltrack.kernels import gram, make_kernel
from kerneltrack.monitor import neighbours, reference
from kerneltrack.monitor.neighbours import Fingerprint, compare, fingerprint
from kerneltrack.monitor.reference import ReferenceSpec
from kerneltrack.native import binding

Array = npt.NDArray[np.float64]
ROWS, WIDTH = 640, 4
ODD = {3: "ties", 11: "dynamics", 19: "level"}


def device(number: int, ties: Array, odd: str | None) -> Array:
    """Rows of a device of a fleet that shares its ties; each has its own level and spread."""
    rng = np.random.default_rng(1000 + number)
    memory = -0.6 if odd == "dynamics" else 0.8
    noise = rng.normal(size=(2, ROWS)) * math.sqrt(1 - memory**2)
    rows = lfilter([1.0], [1.0, -memory], noise).T @ (ties + 0.05 * rng.normal(size=ties.shape))
    if odd == "ties":
        rows[:, 2] *= -1
    rows = rows + 0.2 * rng.normal(size=rows.shape)
    rows = rows * np.exp(0.1 * rng.normal(size=WIDTH)) + 10 + rng.normal(size=WIDTH)
    if odd == "level":
        rows[:, 1] += 25
    return np.asarray(rows)


@pytest.fixture(scope="module")
def fleet() -> dict[str, Array]:
    """Forty devices, three of them unlike the others."""
    ties = np.random.default_rng(5).normal(size=(2, WIDTH))
    return {f"d{number}": device(number, ties, ODD.get(number)) for number in range(40)}


def prints(
    spec: SubspaceSpec, fleet: dict[str, Array], held: bool = True
) -> dict[str, Fingerprint]:
    reported, made = ReferenceSpec(), {}
    for name, rows in fleet.items():
        state, _ = run_all(spec, rows)
        own = None
        if held:
            own = (
                reported,
                reference.update(reported, reference.init(reported, rows[:512]), rows)[0],
            )
        made[name] = fingerprint(spec, state, own)
    return made


SPEC = CovarianceSpec(rank=5, budget=20, halflife=200.0)


@pytest.fixture(scope="module")
def made(fleet: dict[str, Array]) -> dict[str, Fingerprint]:
    return prints(SPEC, fleet)


def test_those_that_are_unlike_are_the_first(made: dict[str, Fingerprint]) -> None:
    found = compare(SPEC, list(made), made.__getitem__)
    assert found.views == neighbours.VIEWS
    assert (found.total, found.landmarks) == (40, 40)
    assert {model.model for model in found.models if model.unlike} == {f"d{n}" for n in ODD}
    by_name = {model.model: model for model in found.models}
    ties, dynamics, level = (by_name[f"d{number}"] for number in ODD)
    assert (dynamics.view, level.view) == ("ties", "level")
    assert ties.scores["ties"] > 1
    assert dynamics.shares is not None
    assert level.shares is not None
    assert sum(dynamics.shares) == pytest.approx(1.0)
    assert int(level.shares.argmax()) == 1
    assert sum(level.shares) == pytest.approx(1.0)
    assert {model.model for model in found.models[:3]} == {f"d{number}" for number in ODD}
    apart = [model.apart for model in found.models]
    assert apart == sorted(apart, reverse=True)
    assert all(len(model.nearest) == neighbours.NEAREST for model in found.models)
    assert all(model.model not in model.nearest for model in found.models)
    # On the map, too, they lie outside of all the others.
    places = np.array([model.place for model in found.models])
    away = np.hypot(*(places - np.median(places, axis=0)).T)
    assert away[:3].min() > np.median(away[3:])


@pytest.mark.parametrize("spec", [OKFEBSpec(), SPEC, OANASpec()], ids=lambda spec: spec.tracker)
def test_the_subspace_alone_sees_ties(spec: SubspaceSpec, fleet: dict[str, Array]) -> None:
    made = prints(spec, fleet, held=False)
    found = compare(spec, list(made), made.__getitem__)
    assert found.views == ("subspace", "level")
    order = sorted(found.models, key=lambda model: -model.scores["subspace"])
    assert "d3" in [model.model for model in order[:2]]


@pytest.mark.parametrize(
    "spec", [OKFESpec(rank=3), DSKPCASpec(), RowsSpec(rank=WIDTH)], ids=lambda spec: spec.tracker
)
def test_other_trackers_have_no_such_subspace(spec: Any, fleet: dict[str, Array]) -> None:
    made = prints(spec, {name: rows[:40] for name, rows in fleet.items()}, held=False)
    assert compare(spec, list(made), made.__getitem__).views == ("level",)


def test_without_anything_to_compare_there_are_no_views() -> None:
    spec = RowsSpec(rank=WIDTH, standardise=False)
    state, _ = run_all(spec, np.ones((3, WIDTH)))
    found = compare(spec, ["a", "b", "c"], lambda _: fingerprint(spec, state))
    assert found.views == ()
    assert [model.view for model in found.models] == [None] * 3
    assert not any(model.unlike for model in found.models)
    assert compare(spec, ["a", "b"], lambda _: None).models == []
    with pytest.raises(ConfigError, match="most = 0"):
        compare(spec, ["a"], lambda _: None, 0)


def basis(kernel: Any, found: Fingerprint) -> tuple[Array, Array]:
    """Stored rows, and coefficients of an orthonormal basis of the subspace."""
    assert found.rows is not None
    assert found.factor is not None
    values, vectors = np.linalg.eigh(
        found.factor @ gram(kernel, found.rows, found.rows) @ found.factor.T
    )
    kept = values > 1e-6 * values.max()
    return found.rows, (vectors[:, kept] / np.sqrt(values[kept])).T @ found.factor


@pytest.mark.parametrize("spec", [OKFEBSpec(), SPEC, OANASpec()], ids=lambda spec: spec.tracker)
def test_distances_are_those_of_principal_angles(
    spec: SubspaceSpec, fleet: dict[str, Array]
) -> None:
    names = ["d0", "d1", "d3"]
    made = prints(spec, {name: fleet[name] for name in names}, held=False)
    marks = neighbours._Landmarks(spec, list(made.items()))
    gamma = sorted(found.bandwidth for found in made.values())[1]
    kernel = make_kernel("gaussian", gamma)
    for name in names:
        away = marks.distances(made[name])["subspace"]
        for place, other in enumerate(names):
            (rows, left), (others, right) = basis(kernel, made[name]), basis(kernel, made[other])
            cosines = np.linalg.svd(left @ gram(kernel, rows, others) @ right.T)[1]
            square = (len(left) + len(right)) / 2 - np.sum(cosines**2)
            assert away[place] ** 2 == pytest.approx(square, abs=1e-4)


def test_a_linear_kernel_gives_the_angles_of_plain_subspaces() -> None:
    spec = CovarianceSpec(rank=2, budget=4, kernel="linear", standardise=False)
    rng = np.random.default_rng(0)
    planes = [np.linalg.qr(rng.normal(size=(5, 2)))[0] for _ in range(3)]
    made = {}
    for number, plane in enumerate(planes):
        state, _ = run_all(spec, rng.normal(size=(50, 2)) @ plane.T)
        made[str(number)] = fingerprint(spec, state)
    marks = neighbours._Landmarks(spec, list(made.items()))
    for left in range(3):
        away = marks.distances(made[str(left)])["subspace"]
        for right in range(3):
            angles = scipy.linalg.subspace_angles(planes[left], planes[right])
            assert away[right] == pytest.approx(math.sqrt(np.sum(np.sin(angles) ** 2)), abs=1e-3)


def test_ties_differ_by_jeffreys_divergence(made: dict[str, Fingerprint]) -> None:
    names = ["d0", "d3", "d11"]
    marks = neighbours._Landmarks(SPEC, [(name, made[name]) for name in names])
    for name in names:
        away = marks.distances(made[name])["ties"]
        for place, other in enumerate(names):
            a, b = made[name].ties, made[other].ties
            assert a is not None
            assert b is not None
            traces = np.trace(np.linalg.solve(b, a)) + np.trace(np.linalg.solve(a, b))
            assert away[place] ** 2 == pytest.approx(traces / 2 - len(a), rel=1e-9, abs=1e-7)


def test_the_channel_of_modes_is_as_everybody_s(fleet: dict[str, Array]) -> None:
    reported = ReferenceSpec(learning="auto", rows=256, memory="1024 rows", mode=2)
    made = {}
    times = 1_772_409_600 * 10**9 + 60 * 10**9 * np.arange(3 * ROWS)
    # Modes of other names, that alternate at other paces.
    for name, codes, every in (("d0", (0, 1), 60), ("d1", (0, 1), 40), ("d2", (7000, 9), 30)):
        rows = np.tile(fleet[name], (3, 1))
        rows[:, 2] = np.asarray(codes)[np.arange(len(rows)) // every % 2]
        state, _ = run_all(SPEC, without_modes(reported, rows))
        own = reference.update(reported, reference.init(reported, rows[:256]), rows, times)[0]
        made[name] = fingerprint(SPEC, state, (reported, own))
    ties, centre, scale = made["d2"].ties, made["d2"].centre, made["d2"].scale
    assert ties is not None
    assert centre is not None
    assert scale is not None
    assert (centre[2], scale[2]) == (0.0, 1.0)
    assert (np.diag(ties)[2::WIDTH] == 1.0).all()
    marks = neighbours._Landmarks(SPEC, list(made.items()))
    for view in ("ties", "level"):
        shares = marks.shares(made["d2"], view, [0, 1])
        assert shares is not None
        assert shares[2] == pytest.approx(0.0, abs=1e-12)
        assert sum(shares) == pytest.approx(1.0)


def test_a_channel_of_other_ties_has_the_largest_share(made: dict[str, Fingerprint]) -> None:
    shares = neighbours._parts_of_ties(made["d3"].ties, made["d0"].ties, WIDTH)
    assert int(shares.argmax()) == 2


def test_points_of_a_plane_are_mapped_as_they_lie() -> None:
    points = np.random.default_rng(0).normal(size=(20, 2))
    gaps = points[:, None] - points[None]
    laid = neighbours._Map(np.sum(gaps**2, axis=2))
    placed = np.array([laid.place(np.sum((points - point) ** 2, axis=1)) for point in points])
    found = placed[:, None] - placed[None]
    assert np.abs(np.sum(found**2, axis=2) - np.sum(gaps**2, axis=2)).max() < 1e-9


def test_no_order_of_names_changes_a_bit(made: dict[str, Fingerprint]) -> None:
    names = list(made)
    found = compare(SPEC, names, made.__getitem__)
    assert repr(compare(SPEC, names[::-1], made.__getitem__)) == repr(found)


@pytest.mark.parametrize("threads", [2, 3])
def test_no_number_of_threads_changes_a_bit(
    threads: int, made: dict[str, Fingerprint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "LOOKS", 4)
    found = compare(SPEC, list(made), made.__getitem__)
    assert repr(compare(SPEC, list(made), made.__getitem__, threads=threads)) == repr(found)


def test_of_many_a_sample_is_compared_with_a_sample(
    made: dict[str, Fingerprint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "LANDMARKS", 12)
    monkeypatch.setattr(neighbours, "FEWEST_LANDMARKS", 3)
    asked: list[str] = []

    def read(name: str) -> Fingerprint:
        asked.append(name)
        return made[name]

    found = compare(SPEC, list(made), read, most=30)
    assert (len(found.models), found.total, found.landmarks) == (30, 40, 12)
    assert len(set(asked)) == 30
    more = compare(SPEC, list(made), read, most=40)
    assert {model.model for model in found.models} < {model.model for model in more.models}
    assert {model.model for model in more.models if model.unlike} == {f"d{n}" for n in ODD}


def test_many_large_models_have_fewer_landmarks(made: dict[str, Fingerprint]) -> None:
    small, large = made["d0"], made["d0"]._replace(ties=np.eye(128))
    assert neighbours._landmarks_for(small, 100) == neighbours.LANDMARKS
    assert 32 < neighbours._landmarks_for(large, 2_000) < neighbours.LANDMARKS
    assert neighbours._landmarks_for(large, 100_000) == neighbours.FEWEST_LANDMARKS


def test_few_models_are_placed_and_none_is_called_unlike(made: dict[str, Fingerprint]) -> None:
    names = ["d0", "d1", "d3", "d19"]
    found = compare(SPEC, names, made.__getitem__)
    assert not any(model.unlike for model in found.models)
    assert len({model.place for model in found.models}) == 4


def test_equal_models_stand_nowhere_apart(made: dict[str, Fingerprint]) -> None:
    found = compare(SPEC, [str(number) for number in range(20)], lambda _: made["d0"])
    assert not any(model.unlike for model in found.models)
    assert all(math.isfinite(x) for model in found.models for x in (model.apart, *model.place))


def test_models_without_a_complete_reference_are_compared_by_the_rest(
    made: dict[str, Fingerprint],
) -> None:
    bare = {**made, "d5": made["d5"]._replace(ties=None)}
    found = compare(SPEC, list(bare), bare.__getitem__)
    assert found.views == neighbours.VIEWS
    assert {model.model for model in found.models if model.unlike} == {f"d{n}" for n in ODD}
    (one,) = (model for model in found.models if model.model == "d5")
    assert set(one.scores) == {"subspace", "level"}
    assert all(math.isfinite(x) for x in (one.apart, *one.place))
    most = {name: one._replace(ties=None) for name, one in list(made.items())[:30]}
    few = {**made, **most}
    assert compare(SPEC, list(few), few.__getitem__).views == ("subspace", "level")


SCRIPT = """
import numpy as np
from kerneltrack import OKFEBSpec, run_all
from kerneltrack.monitor.neighbours import compare, fingerprint
made = {}
for number in range(12):
    rows = np.random.default_rng(number).normal(size=(200, 3))
    made[str(number)] = fingerprint(OKFEBSpec(), run_all(OKFEBSpec(), rows)[0])
print(repr(compare(OKFEBSpec(), list(made), made.__getitem__)))
"""


def test_all_builds_give_the_same_bits() -> None:
    names = binding.builds_here()
    able = names[: names.index(binding.build()) + 1]
    output_text = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, binding.CHOICE: name},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for name in able
    }
    assert len(output_text) == 1
    assert "Neighbours(" in output_text.pop()
