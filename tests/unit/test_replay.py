"""The same bits on every processor: all builds, and another architecture, against stored hashes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kerneltrack.native import binding
from tests.native.recording import SOURCES, function_names, hash_of
from tests.parts import program

ROOT = Path(__file__).resolve().parents[2]
REPLAY = ROOT / "tests" / "native" / "replay.c"
STORED = json.loads((ROOT / "tests" / "golden" / "bits.json").read_text("utf-8"))
FLAGS = ("-std=gnu11", "-O2", "-ffp-contract=off", "-fno-math-errno", "-Wno-psabi", "-static")


def runnable() -> list[str]:
    """The builds that this processor can run."""
    names = binding.builds_here()
    return list(names[: names.index(binding.build()) + 1])


def run(*command: str | Path, **environment: str) -> bytes:
    """Run a program that must succeed; gives what it printed."""
    done = subprocess.run(
        command, env={**os.environ, **environment}, cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("build", runnable())
def test_every_build_gives_the_stored_bits(build: str) -> None:
    found = run(sys.executable, "-m", "tests.native.recording", **{binding.CHOICE: build})
    assert json.loads(found) == STORED


@pytest.mark.nightly
def test_another_architecture_gives_the_stored_bits(tmp_path: Path) -> None:
    """Recorded calls of all loops, replayed by a program for aarch64 on an emulated processor."""
    compiler = program("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")
    emulator = program("qemu-aarch64", "qemu-user")
    reported = run(sys.executable, "-m", "tests.native.recording", tmp_path / "calls.bin")
    found = json.loads(reported)
    after = found.pop("calls")
    assert found == STORED
    lines = [f"FUNCTION({name})\n" for name in function_names()]
    (tmp_path / "functions.h").write_text("".join(lines))
    sources = sorted(SOURCES.glob("*.c"))
    replay = tmp_path / "replay"
    run(compiler, *FLAGS, f"-I{tmp_path}", REPLAY, *sources, "-lm", "-o", replay)
    assert hash_of([run(emulator, replay, tmp_path / "calls.bin")]) == after
