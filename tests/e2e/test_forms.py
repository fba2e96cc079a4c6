"""Each form of the table in docs/tracking.md is read by its example, to the same bits."""

from __future__ import annotations

import datetime
import re
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from kerneltrack.in_memory import run_all
from kerneltrack.trackers import OKFEBSpec
from pipelines.cli.main import main
from tests.e2e.forms import CHANNELS, FORMS, PLANT, Row
from tests.e2e.jobs import ROOT, SMALL, array_of, failures_of, features_of, record_of

SPEC = OKFEBSpec(rank=4, budget=7, warmup=50)
_ROW = re.compile(r"^\| (.+?) \| (.+?) \| `kerneltrack track (.+?)` \|$", re.M)


def _examples() -> dict[str, list[str]]:
    """The arguments of each example, by the first cell of its row."""
    page = (ROOT / "docs" / "tracking.md").read_text(encoding="utf-8")
    section = page.partition("## The forms that data comes in")[2].partition("\n## ")[0]
    return {what: shlex.split(example) for what, _, example in _ROW.findall(section)}


EXAMPLES = _examples()


def test_the_table_and_the_tests_have_the_same_forms() -> None:
    assert list(EXAMPLES) == list(FORMS)


@pytest.mark.parametrize("what", EXAMPLES)
def test_a_form_is_read_by_its_example(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = FORMS[what]
    monkeypatch.chdir(tmp_path)
    form.write(form.rows)
    arguments = EXAMPLES[what]
    with ExitStack() as stack:
        if "<" in arguments:
            *arguments, _, name = arguments
            monkeypatch.setattr(sys, "stdin", stack.enter_context(open(name, "rb")))
        assert main(["track", *arguments, *SMALL, "--output", "out"]) == 0
    output = tmp_path / "out"
    assert failures_of(output) == []
    assert record_of(output)["counts"]["rows_out"] == len(form.rows)
    features = features_of(output)
    assert sorted(set(features.column("model_id").to_pylist())) == sorted(form.devices)
    done = features.column("model_id").to_numpy(zero_copy_only=False)
    for name, device in form.devices.items():
        rows = [row for row in form.rows if row.device == device]
        own = features.filter(done == name)
        _, expected = run_all(SPEC, np.array([(row.flow, row.heat) for row in rows]))
        assert (array_of(own, "z") == expected.z).all()
        assert [_seconds(row) for row in rows] == [
            time.replace(tzinfo=datetime.timezone.utc).timestamp()
            for time in own.column("time").to_pylist()
        ]


def test_the_plant_tells_its_channels_apart() -> None:
    """Else a form that swaps them would pass."""
    swapped = np.array([(row.heat, row.flow) for row in PLANT])
    _, right = run_all(SPEC, swapped[:, ::-1])
    _, wrong = run_all(SPEC, swapped)
    assert len(CHANNELS) == swapped.shape[1]
    assert not np.array_equal(np.array(right.z), np.array(wrong.z))


def _seconds(row: Row) -> float:
    return row.time.replace(tzinfo=datetime.timezone.utc).timestamp()
