"""What a job came to: which failures are too many, and what a scheduler reads of it."""

from __future__ import annotations

import pytest

from kerneltrack.errors import ConfigError
from pipelines.files.max_failures import read_limit
from pipelines.files.outcome import end, judge, record_of
from pipelines.job import JobError


def counts(rows: int, failed: int, **more: int) -> dict[str, int]:
    return {"rows_in": rows, "rows_out": rows - failed, "rows_failed": failed, **more}


@pytest.mark.parametrize(
    ("allowed", "rows", "failed", "word"),
    [
        (None, 100, 0, "done"),
        (None, 100, 99, "done"),
        (None, 100, 100, "all rows failed"),
        (None, 0, 0, "no rows"),
        ("0", 0, 0, "no rows"),
        ("0%", 0, 0, "no rows"),
        ("0", 100, 0, "done"),
        ("0", 100, 1, "too many rows failed"),
        ("7", 100, 7, "done"),
        ("7", 100, 8, "too many rows failed"),
        # .29 as a float would allow 28 of 100.
        ("29%", 100, 29, "done"),
        ("29%", 100, 30, "too many rows failed"),
        ("0.5 %", 1000, 5, "done"),
        ("0.5%", 1000, 6, "too many rows failed"),
        ("100%", 100, 99, "done"),
        ("100%", 100, 100, "all rows failed"),
        ("100", 100, 100, "all rows failed"),
    ],
)
def test_rows_that_fail(allowed: str | None, rows: int, failed: int, word: str) -> None:
    most = read_limit(allowed)
    judged = judge(counts(rows, failed), most)
    code = 0 if word in ("done", "no rows") else 3
    assert (judged.word, judged.exit_code) == (word, code)
    assert record_of(judged, most) == {
        "outcome": word,
        "exit_code": code,
        "max_failures": allowed,
    }


@pytest.mark.parametrize(
    ("labels", "failed", "scored", "word"),
    [
        (9, 8, 1, "done"),
        (9, 9, 0, "all labels failed"),
        # The rows had labels of their own.
        (9, 9, 4, "done"),
        (0, 0, 0, "done"),
    ],
)
def test_labels_that_fail(labels: int, failed: int, scored: int, word: str) -> None:
    known = counts(5, 1, labels_in=labels, labels_failed=failed, scored=scored)
    assert judge(known, None).word == word


@pytest.mark.parametrize(
    ("allowed", "rows", "failed", "why"),
    [
        ("5", 1234, 6, "--max-failures 5: 6 of 1,234 rows failed (0.49%)"),
        ("5%", 1, 1, "the only row failed, nothing came out"),
        (None, 1234, 1234, "all 1,234 rows failed, nothing came out"),
    ],
)
def test_a_job_that_failed_says_why(allowed: str | None, rows: int, failed: int, why: str) -> None:
    with pytest.raises(JobError) as caught:
        end(judge(counts(rows, failed), read_limit(allowed)))
    assert caught.value.exit_code == 3
    assert str(caught.value) == f"{why}; the outputs are complete for a look"


@pytest.mark.parametrize(("rows", "output_text"), [(0, "the input holds no rows\n"), (5, "")])
def test_a_job_that_did_not(
    rows: int, output_text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end(judge(counts(rows, 0), None)) == 0
    assert capsys.readouterr().out == output_text


@pytest.mark.parametrize(
    "text", ["", "-1", "5.5", "101%", "%", "5%%", "five", "1e3", "nan%", "1_0"]
)
def test_what_is_no_number_of_failures(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_limit(text)
    assert (caught.value.field, caught.value.value) == ("--max-failures", text)
