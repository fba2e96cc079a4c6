"""Row loops that get no memory: every function that asks for some, at every request."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from kerneltrack.native import binding
from tests.native.recording import SOURCES

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "tests" / "native" / "failing_allocator.h"
FUNCTION = re.compile(r"^[A-Za-z_][\w \*]*?\b(\w+)\([^;{}]*\) \{\n(.*?)^\}", re.M | re.S)


def functions_that_ask() -> set[str]:
    """The functions of Python's that take scratch space, or call what does, by the sources."""
    calls: dict[tuple[str, str], set[str]] = {}
    places: dict[str, set[str]] = defaultdict(set)
    for path in SOURCES.glob("*.[ch]"):
        text = re.sub(r"/\*.*?\*/", "", path.read_text("utf-8"), flags=re.S)
        for name, body in FUNCTION.findall(text):
            calls[path.name, name] = set(re.findall(r"\b(\w+)\(", body))
            places[name].add(path.name)
    found = {("arena.h", "take_block")}
    while True:
        more = {
            (file, name)
            for (file, name), called in calls.items()
            for each in called
            # Files have functions of their own that are called alike.
            for place in (places[each] if file not in places[each] else {file})
            if (place, each) in found
        }
        if more <= found:
            return {name.removeprefix("kt_") for _, name in found if name.startswith("kt_")}
        found |= more


def run(*command: str | Path, **variables: str) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.nightly
def test_every_function_that_asks_for_memory_says_that_there_is_none(tmp_path: Path) -> None:
    name, tools = binding.builds_here()[0], Path(sys.executable).parent
    run(
        *(tools / "cmake", "-S", ROOT, "-B", tmp_path / "build", "-G", "Ninja"),
        f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}",
        f"-DKERNELTRACK_OUTPUT={tmp_path / 'lib'}",
        *("-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_C_FLAGS=-O0 -include {HEADER}"),
    )
    run(tools / "cmake", "--build", tmp_path / "build", "--target", name, "--parallel", "2")
    variables = {binding.CHOICE: name, binding.FOLDER: str(tmp_path / "lib")}
    refused = run(sys.executable, "-m", "tests.native.failed_allocations", **variables)
    asking = functions_that_ask()
    assert len(asking) > 30
    assert set(json.loads(refused)) == asking
