"""The names that users, their data and running jobs depend on: `tests/golden/names.txt`.

Columns, flags, settings, steps, states, counters, files. A name that changes breaks a query, a
script, a dashboard or a saved state, so none changes by the way: a test holds the file against the
code. Where one is meant to change, `python -m tests.frozen_names` writes the file anew, and
CHANGELOG.md says so.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import kerneltrack.learners
import kerneltrack.monitor
import kerneltrack.trackers
import transforms
from kerneltrack import codec
from kerneltrack.learners.auto.spec import AutoSpec
from kerneltrack.registry import TRACKERS, get_tracker
from kerneltrack.settings import settings_of
from kerneltrack.snapshots.files import snapshot_name
from kerneltrack.snapshots.index import INDEX
from kerneltrack.trackers.okfeb.spec import OKFEBSpec
from pipelines.cli.main import COMMANDS, main, parser_of
from pipelines.cli.spec_options import LANDMARKS, ROLES
from pipelines.files.neighbours import SCHEMA as NEIGHBOURS_SCHEMA
from pipelines.flink.counters import KNOWN
from pipelines.output_lock import LOCK
from pipelines.run_folder import REPORT, REPORT_DEVICES, RUN
from tests.crafted_states import ROWS, cases
from transforms import outputs
from transforms.failures import FAILURE_SCHEMA
from transforms.kafka.gather import Reason, dead_letter
from transforms.kafka.messages import Message
from transforms.keyed.commands import FEEDBACK, HEADER, QUIET, REPLACE, RESET
from transforms.outputs import OUTPUTS, Asked
from transforms.track.clock import Clock
from transforms.track.order import Order

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "golden" / "names.txt"
SOURCES = tuple(
    path
    for name in ("kerneltrack", "transforms", "pipelines")
    for path in (ROOT / name).rglob("*.py")
)


def flags() -> Iterator[str]:
    for name in COMMANDS:
        yield from _flags_of(f"kerneltrack {name}", _commands(parser_of(name))[name])


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def _flags_of(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            yield from (f"{name} {flag}" for flag in action.option_strings or [action.dest])
    for inner, its in _commands(parser).items():
        yield from _flags_of(f"{name} {inner}", its)


def settings() -> Iterator[str]:
    for role in (*ROLES, LANDMARKS):
        for name, kind in role.kinds.items():
            yield from (f"{role.name} {name}: {field}" for field in settings_of(kind))
    yield from (f"order: {field}" for field in settings_of(Order))


def columns() -> Iterator[str]:
    every: dict[str, Any] = {"measure": True, "drift": True, "reference": True, "devices": True}
    every |= {
        "periods": True,
        "silent": True,
        "listed": True,
        "late": True,
        "metrics_window": True,
        "in_order": True,
        "extras": ("q", "s"),
    }
    for task in ("classification", "regression"):
        asked = Asked(OKFEBSpec(), True, 6, pa.string(), learner=AutoSpec(task=task), **every)
        for live in (False, True):
            for name, schema in outputs.schemas(asked._replace(bounded=not live)).items():
                yield from _fields(name, schema)
    yield from _fields(outputs.FAILURES, FAILURE_SCHEMA)
    yield from _fields(outputs.NEIGHBOURS, NEIGHBOURS_SCHEMA)


def _fields(name: str, schema: pa.Schema) -> Iterator[str]:
    return (f"{name}: {field.name}, {field.type}" for field in schema)


def topics_and_messages() -> Iterator[str]:
    yield from (f"topic OUTPUT-{each.topic}" for each in OUTPUTS if each.has_named_topic)
    letter = dead_letter(Message("t", 0, 0, 0, None, None), [Reason(0, "why")])
    yield from (f"header of a dead letter: {name}" for name, _ in letter[2])
    yield from (f"command {HEADER}: {action}" for action in (RESET, REPLACE, FEEDBACK, QUIET))
    yield from (f"header of a command: {name}" for name in (codec.TRACKER, codec.LEARNER))


def files() -> Iterator[str]:
    yield from (f"{name}/" for name in outputs.FOLDERS)
    yield from (RUN, REPORT, f"{REPORT_DEVICES}/", LOCK, f"{outputs.SNAPSHOTS}/{INDEX}")
    for kind in (codec.TRACKER, codec.LEARNER):
        for rows in (None, 5):
            yield f"{outputs.SNAPSHOTS}/{snapshot_name('MODEL', rows, kind)}"


def states() -> Iterator[str]:
    """Arrays of states, and what their headers say."""
    for name, make in cases().items():
        data = make().data
        if not name.startswith(("tracker", "learner", "model", "learning")):
            continue
        kind = name.partition("-")[0]
        text, arrays = codec.parts_of(data)
        header = json.loads(text)
        yield from (f"{kind}: {array}" for array in arrays)
        yield from (f"header: {key}" for key in header)
        yield from (f"header: about.{key}" for key in header["about"])
    yield from (f"clock: {field}" for field in Clock._fields)


def steps() -> Iterator[str]:
    """Labels of steps, under which Flink keeps their state."""
    for _, tree in _trees(">>", "run_step"):
        for node in ast.walk(tree):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.RShift):
                yield from _text_of(node.left)
        for call in _calls(tree):
            if ast.unparse(call.func) == "run_step":
                yield from _text_of(call.args[1])


def cells() -> Iterator[str]:
    """Names of states and timers of Beam's."""
    for _, tree in _trees("StateSpec", "TimerSpec"):
        for call in _calls(tree):
            if call.args and ast.unparse(call.func).endswith(("StateSpec", "TimerSpec")):
                yield from _text_of(call.args[0])


def counters() -> Iterator[str]:
    yield from KNOWN
    yield from (each.counter for each in OUTPUTS if each.counter)
    for name in TRACKERS:
        yield from get_tracker(name).counters(_state_of(name))
    for path, tree in _trees("count(", "name_model("):
        for call in _calls(tree):
            if call.args and ast.unparse(call.func) in ("count", "name_model", "self._count"):
                first = call.args[0]
                yield from _text_of(first)
                if isinstance(first, ast.Name):
                    value = getattr(_module(path), first.id, None)
                    yield from (value,) if isinstance(value, str) else ()


def _trees(*signs: str) -> Iterator[tuple[Path, ast.Module]]:
    """Yield the sources that have one of these texts; the others need not be parsed."""
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if any(sign in text for sign in signs):
            yield path, ast.parse(text)


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _module(path: Path) -> Any:
    return importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def _text_of(node: ast.expr) -> Iterator[str]:
    """Return a text as it stands, with brackets where something is put in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    if isinstance(node, ast.JoinedStr):
        yield re.sub(r"\{[^}]*\}", "{}", ast.unparse(node)[2:-1])


def _state_of(tracker: str) -> Any:
    spec = TRACKERS.parse({"tracker": tracker, "warmup": 20, "rank": 4})
    return get_tracker(tracker).init(spec, ROWS[: spec.rows_to_start])


def record() -> Iterator[str]:
    """What `run.json` has of a run in which much is asked for."""
    with TemporaryDirectory() as folder:
        many = 2 * len(ROWS) * 7
        table = pa.table(
            {
                "id": np.repeat(["a", "b"], many // 2),
                "time": np.tile(np.arange(many // 2), 2),
                "label": np.resize(["up", "down"], many),
                **{f"x{k}": np.resize(ROWS[:, k], many) for k in range(ROWS.shape[1])},
            }
        )
        pq.write_table(table, f"{folder}/rows.parquet")
        columns = ["--model-id", "id", "--time", "time", "--label", "label"]
        asked = ["--reference", "first", "--drift", "--window", "60", "--learner", "ridge"]
        asked += ["--periods", "day", "--silent-after", "auto", "--fleet-false-share", ".2"]
        place = [f"{folder}/rows.parquet", "--output", f"{folder}/out", "--no-progress"]
        with redirect_stdout(io.StringIO()):
            code = main(["track", *place, *columns, *asked, "--workers", "1"])
        if code:
            raise RuntimeError(f"the run ended with code {code}")
        found = json.loads(Path(folder, "out", RUN).read_text(encoding="utf-8"))
    for key, value in found.items():
        yield key
        if key in ("columns", "counts", "seconds", "times", "processes", "versions", "missing"):
            yield from (f"{key}.{inner}" for inner in value)


def variables() -> Iterator[str]:
    for path in SOURCES:
        yield from re.findall(r"\bKERNELTRACK_\w+", path.read_text(encoding="utf-8"))


def api() -> Iterator[str]:
    packages: Iterable[Any] = (
        *(kerneltrack, kerneltrack.trackers, kerneltrack.learners, kerneltrack.monitor),
        transforms,
    )
    for package in packages:
        yield from (f"{package.__name__}.{name}" for name in package.__all__)


SECTIONS: dict[str, Callable[[], Iterator[str]]] = {
    "Columns of outputs, with their types": columns,
    "Topics and messages": topics_and_messages,
    "Files of an output folder": files,
    "Record of a run (run.json)": record,
    "Counters": counters,
    "Commands and flags": flags,
    "Settings": settings,
    "States: arrays and headers": states,
    "States and timers of steps": cells,
    "Labels of steps": steps,
    "Environment variables": variables,
    "Python": api,
}


def written() -> str:
    """Return the file as the code has it."""
    parts = []
    for title, names in SECTIONS.items():
        parts.append(f"# {title}\n" + "".join(f"{name}\n" for name in sorted(set(names()))))
    return "\n".join(parts)


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
