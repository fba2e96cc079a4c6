"""What is said of a live job that does not run well."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from pipelines.cluster.interruption import Interruption
from pipelines.live import status as stream_status
from pipelines.live.flink import Flink, FlinkError, cause_of
from pipelines.live.health import RECENT, STALE, Health
from pipelines.live.status import StatusLine, watch

NOW = 1_800_000_000.0
WELL = Health("RUNNING", 0, None, "", NOW - 1)
TRACE = """java.io.IOException: Could not perform checkpoint 36.
\tat org.apache.flink.Task.run
Caused by: java.lang.RuntimeException: Error received from SDK harness: Traceback
  File "transforms/kafka/send.py", line 100, in finish_bundle
    raise SendError(why)
transforms.kafka.send.SendError: 2 of 5 messages for out: no answer [while running 'Features/Send']

\t... 1 more
"""


def test_a_job_that_runs_well_has_no_troubles() -> None:
    assert WELL.troubles(NOW) == []
    mended = Health("RUNNING", 3, NOW - RECENT - 1, "SendError: x", NOW - 1)
    assert mended.troubles(NOW) == []


def test_restarts_and_old_checkpoints_are_told_with_their_reason() -> None:
    ill = Health("RESTARTING", 3, NOW - 5, "SendError: x", NOW - STALE - 2)
    assert ill.troubles(NOW) == [
        "it failed 5 s ago and is started again: SendError: x",
        f"no checkpoint for {STALE + 2:.0f} s",
    ]
    assert ill.troubles(NOW + 1000)[0].startswith("it failed 1005 s ago")


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stale = Health("RUNNING", 0, None, "", NOW - STALE - 1)
    (line,) = stale.troubles(NOW, tmp_path)
    assert line == f"no checkpoint for {STALE + 1:.0f} s"
    monkeypatch.setattr("pipelines.live.health.LEAST_FREE", 1 << 62)
    (line,) = stale.troubles(NOW, tmp_path)
    assert line.endswith(f": the disk of {tmp_path} is full")


def test_the_cause_is_python_s_error_without_what_is_around_it() -> None:
    assert cause_of(TRACE) == "SendError: 2 of 5 messages for out: no answer"
    wrapped = "RuntimeError: OSError: [Errno 28] No space left on device: 'x' [while running 'W']"
    assert cause_of(wrapped) == "OSError: [Errno 28] No space left on device: 'x'"
    assert cause_of("java.io.IOException: gone\n\tat x") == "IOException: gone"
    assert cause_of("") == "it does not say why"


def test_each_trouble_is_told_once_and_its_end() -> None:
    shown = io.StringIO()
    line = StatusLine(shown, False)
    line.tell([])
    for seconds in (31, 32):
        line.tell([f"no checkpoint for {seconds} s"])
    line.tell(["no checkpoint for 33 s", "out: no answer"])
    line.tell([])
    line.tell([])
    line.tell(["no checkpoint for 31 s"])
    assert shown.getvalue().splitlines() == [
        "no checkpoint for 31 s",
        "out: no answer",
        "the job runs well again",
        "no checkpoint for 31 s",
    ]


def test_a_jobmanager_that_does_not_answer_is_told_of_and_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_status, "INTERVAL", 0.01)
    # Nothing listens at port 1.
    flink, shown = Flink("127.0.0.1:1"), io.StringIO()
    line, looks = StatusLine(shown, False), iter([True, True, False])

    def look() -> bool:
        if next(looks):
            flink.state("a job")
        line.tell([])
        return True

    with Interruption() as interruption:
        assert watch(look, line, interruption)
        silent, well = shown.getvalue().splitlines()
        assert silent.startswith("Flink at 127.0.0.1:1 does not answer: ")
        assert well == "the job runs well again"
        with pytest.raises(FlinkError, match="does not answer"):
            watch(lambda: bool(flink.state("a job")), line, interruption, silence=0.05)
