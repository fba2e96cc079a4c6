"""The project's shape: which way imports point, what the wheel carries."""

from __future__ import annotations

import ast
import email
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from kerneltrack.native.binding import builds_here, path_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("kerneltrack", "transforms", "pipelines")
MODULES = tuple(
    path.relative_to(ROOT).as_posix()
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
)
WORKER_MODULES = tuple(name for name in MODULES if not name.startswith("pipelines/"))

NOT_FOR_PACKAGES = {"benchmarks", "pytest", "hypothesis", "tests"}
FORBIDDEN_IMPORTS = {
    "kerneltrack": NOT_FOR_PACKAGES | {"apache_beam", "pipelines", "transforms"},
    "transforms": NOT_FOR_PACKAGES | {"pipelines"},
    "pipelines": NOT_FOR_PACKAGES,
}
BEAM_NAMES = "kerneltrack.beam"
"""Offers the transforms by their names, when they are asked for: the one module of the core that
reaches them, by a name in a string. It imports none with itself."""
PICKLES = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def text_of(module: str) -> str:
    return (ROOT / module).read_text(encoding="utf-8")


def tree_of(module: str) -> ast.Module:
    return ast.parse(text_of(module), filename=module)


@cache
def imported_roots(module: str) -> list[tuple[int, str]]:
    """Top-level names of all absolute imports, those inside functions too, with their lines."""
    return [*_imported_roots(tree_of(module))]


def _imported_roots(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.lineno, (node.module or "").partition(".")[0]


def named(module: str) -> str:
    return module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports_of(module: str, known: Mapping[str, str]) -> set[str]:
    """Our modules that one imports, within functions too, but not for types alone.

    Args:
        module: Its file.
        known: Files of modules by name.
    """
    tree = tree_of(module)
    typed = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in typed:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            place = str(node.module)
            inner = {f"{place}.{alias.name}" for alias in node.names}
            found |= (inner & set(known)) or {place}
    own = named(module)
    # Python runs a package before what is in it.
    whole = {
        ".".join(name.split(".")[:length])
        for name in found & set(known)
        for length in range(1, name.count(".") + 2)
    }
    return {name for name in whole if name != own and not own.startswith(f"{name}.")}


def circles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Circles of what imports what, one through each name that is in any."""
    found: list[list[str]] = []
    left = dict(imports)
    while left:
        ends = [name for name, each in left.items() if not each & set(left)]
        if ends:
            for name in ends:
                del left[name]
            continue
        # All that is left leads on and on: the first name that comes twice closes a circle.
        way = [next(iter(left))]
        while way[-1] not in way[:-1]:
            way.append(min(left[way[-1]] & set(left)))
        found.append(way[way.index(way[-1]) :])
        del left[way[-1]]
    return found


def units_of(imports: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The same of packages, and of modules beside them: `transforms.read`, `transforms.rows`."""
    found: dict[str, set[str]] = {}
    for name, each in imports.items():
        unit = ".".join(name.split(".")[:2])
        others = {".".join(other.split(".")[:2]) for other in each if "." in other}
        found.setdefault(unit, set()).update(others - {unit})
    return {unit: others for unit, others in found.items() if "." in unit}


def test_a_circle_of_imports_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [["b", "c", "b"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
    assert units_of({"p.a.x": {"p.b.y"}, "p.b.z": {"p.a.w"}, "p.b.y": set()}) == {
        "p.a": {"p.b"},
        "p.b": {"p.a"},
    }


def test_imports_go_in_no_circle() -> None:
    """Neither between modules nor between packages: each can be read without those above it."""
    known = {named(module): module for module in MODULES}
    imports = {name: imports_of(module, known) for name, module in known.items()}
    assert circles(imports) == []
    assert circles(units_of(imports)) == []


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_package_is_looked_at() -> None:
    assert {name.partition("/")[0] for name in MODULES} == set(PACKAGES)


def test_imports_point_one_way() -> None:
    wrong = [
        (module, line, root)
        for module in MODULES
        for line, root in imported_roots(module)
        if root in FORBIDDEN_IMPORTS[module.partition("/")[0]]
    ]
    assert wrong == []


def test_one_module_of_the_core_reaches_the_transforms() -> None:
    found = {
        named(module)
        for module in MODULES
        if module.startswith("kerneltrack/") and "transforms" in text_of(module)
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Constant) and re.fullmatch(r"transforms(\.\w+)*", str(node.value))
    }
    assert found == {BEAM_NAMES}


def test_the_core_imports_without_beam() -> None:
    script = """
import importlib, sys
for blocked in ("apache_beam", "transforms", "pipelines"):
    sys.modules[blocked] = None
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*sorted(set(sys.argv[1:]) & set(sys.modules)))
"""
    names = sorted(
        module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for module in MODULES
        if module.startswith("kerneltrack/") and not module.endswith("/__main__.py")
    )
    done = run(sys.executable, "-c", script, *names)
    assert (done.returncode, done.stdout.split()) == (0, names), done.stderr


def test_no_print_and_no_pickle() -> None:
    pickles = [
        (module, line, root)
        for module in WORKER_MODULES
        for line, root in imported_roots(module)
        if root in PICKLES
    ]
    prints = [
        (module, node.lineno, node.func.id)
        for module in WORKER_MODULES
        for node in (ast.walk(tree_of(module)) if "print(" in text_of(module) else ())
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"print", "pprint"}
    ]
    assert pickles + prints == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built without a network from a copy: a build leaves folders in its tree.

    Its loops are compiled without optimisation: what is looked at is that they are there.
    """
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(
        ROOT,
        folder / "tree",
        ignore=shutil.ignore_patterns(
            ".*", "__pycache__", "*.egg-info", "build", "dist", "*.nbc", "*.nbi"
        ),
    )
    offline = ("--no-index", "--no-deps", "--no-build-isolation")
    built = run(
        *(sys.executable, "-m", "pip", "wheel", *offline),
        *("--quiet", "--config-settings=cmake.build-type=Debug"),
        *("--wheel-dir", str(folder), str(folder / "tree")),
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.mark.nightly
def test_the_wheel_carries_the_packages_only(wheel: zipfile.ZipFile) -> None:
    content = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assets = {
        path.relative_to(ROOT).as_posix()
        for folder in (
            "report/assets",
            "report/page/templates",
            "cluster/poms",
            "cluster/templates",
        )
        for path in (ROOT / "pipelines" / folder).rglob("*")
        if path.is_file()
    }
    stubs = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.pyi")
    }
    typed = {f"{package}/py.typed" for package in PACKAGES}
    # All builds, also those that this processor cannot run: an editable install leaves them out.
    first = builds_here()[0]
    files = {path_of(first).name.replace(first, name) for name in builds_here()}
    loops = {f"kerneltrack/native/{name}" for name in files}
    assert content == {*MODULES, *assets, *stubs, *typed, *loops}


@pytest.mark.nightly
def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    version = re.search(
        r'^__version__ = "(.+)"$', (ROOT / "kerneltrack" / "__init__.py").read_text("utf-8"), re.M
    )
    assert version is not None
    info = f"kerneltrack-{version[1]}.dist-info"
    metadata = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
    assert (metadata["Name"], metadata["Version"]) == ("kerneltrack", version[1])
    assert (metadata["License-Expression"], metadata["Requires-Python"]) == ("Apache-2.0", ">=3.10")
    assert wheel.read(f"{info}/entry_points.txt").decode().split() == (
        "[console_scripts] kerneltrack = pipelines.cli.main:main".split()
    )
    assert "Apache License" in wheel.read(f"{info}/licenses/LICENSE").decode()


def locked_lines() -> list[str]:
    """The lock's requirements, one string each, their hashes left out."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    return [
        line.removesuffix("\\").strip()
        for line in text.splitlines()
        if line and not line.startswith(("#", " "))
    ]


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_the_lock_pins_what_the_project_asks_for(python: str) -> None:
    environment = {"python_version": python, "python_full_version": f"{python}.0"}

    def holds(requirement: Requirement) -> bool:
        return requirement.marker is None or requirement.marker.evaluate(environment)

    pins: dict[str, list[str]] = {}
    for line in locked_lines():
        pin = Requirement(line)
        if holds(pin):
            (exact,) = pin.specifier
            assert exact.operator == "=="
            pins.setdefault(pin.name.lower(), []).append(exact.version)
    project = pyproject()["project"]
    asked = [
        requirement
        for lines in (project["dependencies"], *project["optional-dependencies"].values())
        for requirement in map(Requirement, lines)
        if holds(requirement) and requirement.name != project["name"]
    ]
    assert {name: versions for name, versions in pins.items() if len(versions) != 1} == {}
    unmet = [
        str(requirement)
        for requirement in asked
        if not requirement.specifier.contains(pins.get(requirement.name.lower(), ["0"])[0])
    ]
    assert unmet == []


def test_the_lock_names_hashes_and_no_host() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[a-z])", text, flags=re.M)[1:]
    assert len(blocks) == len(locked_lines())
    assert [block.splitlines()[0] for block in blocks if "--hash=sha256:" not in block] == []
    assert re.findall(r"://|^--?\S+|@ ", text, flags=re.M) == []
