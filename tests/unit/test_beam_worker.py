"""One door to Beam's inside: nothing else touches it; unknown versions of Beam are left alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator

import apache_beam as beam
import pytest

from tests.unit.test_layout import MODULES, ROOT, tree_of
from transforms.beam_worker.install import PARTS
from transforms.beam_worker.step_ids import use_stable_ids

DOOR = "transforms/beam_worker/"
INSIDE = (
    "apache_beam.runners",
    "apache_beam.internal",
    "apache_beam.pipeline.",
    "apache_beam.portability",
)
"""Modules that Beam's documentation does not describe."""
OF_TUPLES = {"_asdict", "_fields", "_make", "_replace"}
"""Public names of named tuples."""
OTHERS = {"_AUTO_OFFSET_RESET": "an error's name of confluent_kafka"}


def _is_beams(name: str) -> bool:
    return name == "apache_beam" or name.startswith("apache_beam.")


def touches(tree: ast.Module) -> Iterator[str]:
    """What of Beam's inside a module touches, as text."""
    beams: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [(alias.name, alias.asname or alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [
                (f"{node.module}.{alias.name}", alias.asname or alias.name) for alias in node.names
            ]
        else:
            continue
        for full, short in names:
            if _is_beams(full):
                beams.add(short)
                if full.startswith(INSIDE) or "._" in full:
                    yield full
    if not beams:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.startswith(INSIDE):
                yield node.value
        elif isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            private = re.match("_[^_]", node.attr) and node.attr not in OF_TUPLES | OTHERS.keys()
            changed = isinstance(node.ctx, ast.Store) and owner.partition(".")[0] in beams
            if (private and owner not in {"self", "cls", "super()"}) or changed:
                yield ast.unparse(node)


def test_nothing_but_the_door_touches_beams_inside() -> None:
    found = {
        module: inside
        for module in MODULES
        if not module.startswith(DOOR) and (inside := list(touches(tree_of(module))))
    }
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "from apache_beam.runners.worker import sdk_worker",
        "import apache_beam.internal.pickler",
        "from apache_beam.pipeline import ComponentIdMap",
        "from apache_beam.coders import _TimerCoder",
        "import apache_beam as beam\nname = 'apache_beam.runners.direct.X'",
        "import apache_beam as beam\npipeline._current_transform()",
        "from apache_beam import coders\ncoders.BytesCoder.encode = faster",
    ],
)
def test_what_counts(text: str) -> None:
    assert len(list(touches(ast.parse(text)))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import apache_beam as beam\nself._rows = beam.Row(x=1)._replace(x=2)",
        "from apache_beam.options.pipeline_options import PipelineOptions",
        "parser._actions",
    ],
)
def test_what_does_not(text: str) -> None:
    assert not list(touches(ast.parse(text)))


def test_each_module_of_the_door_says_what_it_is_for() -> None:
    for path in sorted((ROOT / DOOR).glob("*.py")):
        if path.name in {"__init__.py", "install.py", "live_worker.py", "state_stream.py"}:
            continue
        text = " ".join(str(ast.get_docstring(tree_of(f"{DOOR}{path.name}"))).split())
        assert "Changes: " in text, path.name
        assert "Needless once: " in text, path.name


def test_the_version_of_the_environment_was_checked() -> None:
    version = ".".join(beam.__version__.split(".")[:2])
    assert all(version in versions for _, versions, _ in PARTS)


RUN = """
import logging, sys
logging.basicConfig(level=logging.WARNING, stream=sys.stdout, format="%(message)s")
import apache_beam
from apache_beam.runners.worker import bundle_processor, sdk_worker, statecache, statesampler
apache_beam.__version__ = sys.argv[1]
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.transforms.environments import EmbeddedPythonGrpcEnvironment
from tests.stream.running import make_rows, track
rows = [(key, make_rows(30).chunk()) for key in ("a", "b")]
environment = EmbeddedPythonGrpcEnvironment.default()
found = track(rows, runner=FnApiRunner(default_environment=environment))
for each in (sdk_worker.GrpcStateHandler.start, statecache.objsize.get_deep_size,
             bundle_processor.SynchronousBagRuntimeState.commit):
    print("from", each.__module__.partition(".")[0])
print("period", statesampler.StateSampler.__init__.__defaults__[0])
for key in ("a", "b"):
    print("rows", {name: values.tolist() for name, values in found.table(key).items()})
"""


def _run(version: str) -> list[str]:
    command = [sys.executable, "-c", RUN, version]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.nightly
def test_an_unknown_version_of_beam_gives_the_same_rows_in_beams_own_way() -> None:
    known, unknown = _run(beam.__version__), _run("2.99.1")
    assert [line for line in known if line.startswith("rows")] == [
        line for line in unknown if line.startswith("rows")
    ]
    assert [line for line in known if line.startswith("from")] == ["from transforms"] * 3
    assert "period 5" in known
    beams = [line for line in unknown if line.startswith("from")]
    assert beams == ["from apache_beam", "from objsize", "from apache_beam"]
    assert "period 200" in unknown
    warned = [line for line in unknown if line.startswith("Beam 2.99.1 is not of the versions")]
    assert len(warned) == len(PARTS)
    assert not [line for line in known if "is not of the versions" in line]


def test_steps_are_known_by_their_labels() -> None:
    pipeline = beam.Pipeline()
    use_stable_ids(pipeline)
    pipeline | "Rows" >> beam.Create([1]) | "Copy" >> beam.Map(lambda row: row)
    ids = pipeline.to_runner_api().components.transforms
    assert {"Rows", "Copy"} <= set(ids)
    assert all(name == each.unique_name for name, each in ids.items() if each.unique_name)
