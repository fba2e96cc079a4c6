"""What is said of a live job that does not run well."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from pipelines.cluster.interruption import Interruption
from pipelines.flink.client import Flink, FlinkError, cause_of
from pipelines.flink.counters import describe, shown
from pipelines.flink.health import RECENT, STALE, Health
from pipelines.live import status as stream_status
from pipelines.live.status import QUIET, LiveStatusLine, said_of, watch

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


def test_a_job_that_runs_again_or_was_stopped_is_not_said_to_be_started() -> None:
    again = Health("RUNNING", 6, NOW - 5, "NoResourceAvailableException: x", NOW - 1)
    text = "it failed 5 s ago and was started again: NoResourceAvailableException: x"
    assert again.troubles(NOW) == [text]
    for state in ("CANCELLING", "CANCELED"):
        assert Health(state, 6, NOW - 5, "x", NOW - STALE - 1).troubles(NOW) == []


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stale = Health("RUNNING", 0, None, "", NOW - STALE - 1)
    (line,) = stale.troubles(NOW, tmp_path)
    assert line == f"no checkpoint for {STALE + 1:.0f} s"
    monkeypatch.setattr("pipelines.flink.health.LEAST_FREE", 1 << 62)
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
    line = LiveStatusLine(shown, False)
    line.tell([])
    for seconds in (31, 32):
        line.tell([f"no checkpoint for {seconds} s"])
    line.tell(["no checkpoint for 33 s", "out: no answer"])
    for verb in ("is", "was"):
        line.tell([f"it failed 3 s ago and {verb} started again: x", "out: no answer"])
    line.tell([])
    line.tell([])
    line.tell(["no checkpoint for 31 s"])
    assert shown.getvalue().splitlines() == [
        "no checkpoint for 31 s",
        "out: no answer",
        "it failed 3 s ago and is started again: x",
        "the job runs well again",
        "no checkpoint for 31 s",
    ]


def test_a_jobmanager_that_does_not_answer_is_told_of_and_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_status, "INTERVAL", 0.01)
    # Nothing listens at port 1.
    flink, shown = Flink("127.0.0.1:1"), io.StringIO()
    line, looks = LiveStatusLine(shown, False), iter([True, True, False])

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


READ = {"rows_read": 3136, "rows_failed": 2, "rows_late": 1}
TRACKED = {**READ, "rows_tracked": 3000, "lag_milliseconds": 4_500_000, "dead_letters": 3}
SETTINGS = {"tracker": {"warmup": 500}, "drift": None, "reference": {"rows": 512}}


def test_rows_that_wait_for_the_warm_up_are_said_to() -> None:
    line = LiveStatusLine(io.StringIO(), True, said_of(SETTINGS))
    assert line.text(READ, None, NOW) == (
        "3,136 rows read, 0 rows/s, 0 tracked, 3,133 wait for the warm-up (500 rows of a model), "
        "lag -, 1 late, 2 failed, 0 episodes"
    )
    more = {**TRACKED, "rows_read": 3336, "episodes": 1, "alerts": 2}
    assert line.text(more, NOW - 0.5, NOW + 2) == (
        "3,336 rows read, 100 rows/s, 3,000 tracked, 333 wait, lag 2.5 s, 1 late, 2 failed, "
        "1 episode"
    )
    # Nothing is measured first: what waits does so for earlier rows.
    plain = LiveStatusLine(io.StringIO(), True, said_of({"tracker": {}, "drift": {"z": 1}}))
    text = plain.text({"rows_read": 5}, None, NOW)
    assert text == "5 rows read, 0 rows/s, 0 tracked, 5 wait, lag -, 0 late, 0 failed, 0 alerts"


def test_an_input_that_has_ended_is_told_instead_of_a_lag_that_grows() -> None:
    line = LiveStatusLine(io.StringIO(), True)
    assert ", lag 3.0 s, " in line.text(READ, NOW - 3, NOW)
    assert ", lag 23.0 s, " in line.text(READ, NOW - 3, NOW + QUIET)
    assert ", no row read for 286 s, " in line.text(READ, NOW - 3, NOW + 286)
    assert ", lag 290.0 s, " in line.text({"rows_read": 3137}, NOW - 3, NOW + 287)


def test_the_rate_is_that_of_some_seconds_since_counters_come_in_leaps() -> None:
    line = LiveStatusLine(io.StringIO(), True)
    rates = [
        line.text({"rows_read": read}, None, NOW + at).split(", ")[1]
        for at, read in ((0, 0), (10, 1000), (11, 1000), (19, 1000), (20, 2000), (40, 2000))
    ]
    assert rates == [f"{rate} rows/s" for rate in (0, 100, 91, 53, 100, 0)]
    # Started again: counters begin at 0.
    assert ", 0 rows/s, " in line.text({"rows_read": 5}, None, NOW + 41)
    assert ", 10 rows/s, " in line.text({"rows_read": 105}, None, NOW + 51)


def test_what_a_job_has_counted_is_told_in_words() -> None:
    assert describe(shown(TRACKED)) == (
        "3,136 rows read, 3,000 tracked, 133 wait, 1 late, 2 failed, 3 dead letters, mean lag 1.5 s"
    )
    more = {"rows_read": 100, "rows_learned_before": 70, "rows_duplicate": 10, "episodes": 2}
    assert shown(more)["rows_waiting"] == 20
    assert describe(shown(more)).endswith(
        ", mean lag -, 70 left out since the snapshots know them, 10 duplicates left out, "
        "2 episodes"
    )
    calls = {**TRACKED, "calls": 750, "models_called": 1500}
    assert shown(calls)["calls"] == {"many": 750, "rows": 4.0, "devices": 2.0}
    assert describe(shown({**calls, "episodes": 1})).endswith(
        ", mean lag 1.5 s, 750 calls of 4 rows and 2 devices on average, 1 episode"
    )
    # Rows that waited through a restart were read before it.
    assert shown({"rows_read": 5, "rows_tracked": 9})["rows_waiting"] == 0
