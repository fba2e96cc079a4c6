"""The report as a file: which models it chooses, what it says, and that no text can break it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.io.localfilesystem import LocalFileSystem
from hypothesis import given
from hypothesis import strategies as st

from kerneltrack.errors import DataError
from pipelines.cli.main import main
from pipelines.report import write_report
from pipelines.report.data.choice import models_shown, models_with_curves
from pipelines.report.data.failures import Failure, FailureKind, failure_kinds, failure_lines
from pipelines.report.data.totals import Totals, add_up
from pipelines.report.text import figure, moment, span
from tests.report_runs import HOSTILE, data_of, features, floats, page_of, run_folder, text_of


def test_the_page_says_what_happened(tmp_path: Path) -> None:
    table = features({"m10": 12, "m9": 22}, label=["walk"] * 12 + ["run"] * 22)
    path = write_report(run_folder(tmp_path, table))
    assert path == str(tmp_path / "report.html")
    assert sorted(os.listdir(tmp_path)) == ["failures", "features", "report.html", "run.json"]
    text = text_of(Path(path).read_text(encoding="utf-8"))
    # (10 × 0.01 + 20 × 0.02) / 30, and 24 of 34 rows without information.
    assert (
        "The tracker okfeb processed 34 rows of 2 devices and turned 3 channels into 2 features, "
        "with a mean fitting error of 0.0167 (0: the model explains each row). 70.6 % of the "
        "rows were skipped because they fitted already; "
        "no row failed."
    ) in text
    assert "kerneltrack report · 2 January 2026, 03:04 UTC in.csv" in text
    assert "walk 10 33.3 % 0.0100 ± 0" in text
    assert "run 20 66.7 % 0.0200 ± 0" in text
    assert "censor.kind fixed" in text
    assert "kerneltrack track in.csv --output out" in text
    assert "Rows that failed" not in text


def test_the_data_block_holds_the_curves_and_the_table(tmp_path: Path) -> None:
    data = data_of(page_of(run_folder(tmp_path, features({"m10": 12, "m9": 22}))))
    assert [curve["id"] for curve in data["curves"]] == ["m9", "m10"]
    nine = data["curves"][0]
    assert (nine["rows"], nine["mean"], nine["start"], nine["regimes"]) == (22, 0.02, None, None)
    assert floats(nine["loss"]["row"]) == list(range(22))
    assert floats(nine["loss"]["mean"]) == pytest.approx([0.02] * 22)
    assert floats(nine["rates"]["censored"]) == pytest.approx([17 / 22])
    table = data["table"]
    assert table["id"] == ["m9", "m10"]
    assert (data["mismatch"], data["learning"], data["alerts"]) == (None, None, None)
    assert table["rows"] == [22, 12]
    assert table["mean"] == table["half"] == table["high"] == [0.02, 0.01]
    assert table["sd"] == [0.0, 0.0]
    assert table["censored"] == [pytest.approx(17 / 22, rel=1e-5), pytest.approx(7 / 12, rel=1e-5)]
    assert (table["evicted"], table["dropped"]) == ([0.0, 0.0], [None, None])
    assert data["labels"] == []


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    table = features({HOSTILE: 20}, label=[HOSTILE] * 20)
    failures = pa.table(
        {"model_id": [HOSTILE], "source": [HOSTILE], "row": [3], "reason": [HOSTILE]}
    )
    page = page_of(
        run_folder(
            tmp_path,
            table,
            failures,
            command=HOSTILE,
            tracker=HOSTILE,
            inputs=[{"path": HOSTILE, "rows": 20}],
            columns={"label": HOSTILE, "features": [HOSTILE]},
            spec={HOSTILE: {HOSTILE: HOSTILE}},
            versions={HOSTILE: HOSTILE},
            counts={"rows_failed": 1, HOSTILE: 2},
            failures={HOSTILE: 1},
        )
    )
    assert "<img" not in page
    assert page.count("</script>") == page.count("<script")
    data = data_of(page)
    assert data["labels"] == [HOSTILE]
    assert data["table"]["id"] == [HOSTILE]
    assert data["curves"][0]["id"] == HOSTILE
    text = text_of(page)
    assert text.count(" ".join(HOSTILE.split())) >= 10


def test_the_page_asks_for_nothing(tmp_path: Path) -> None:
    page = page_of(run_folder(tmp_path, features({"m": 20})))
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    )
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in page
    links = re.findall(r"""(?:src|href|action)\s*=\s*["']?([^"'\s>]*)""", page)
    outside = [link for link in links if not link.startswith("#")]
    assert outside == ["data:,"]
    # What the list of contents leads to is there.
    assert all(f'id="{link[1:]}"' in page for link in links if link.startswith("#"))
    assert not re.search(r"url\(|@import", page)


@pytest.mark.parametrize(
    ("admission", "words", "tile", "target"),
    [
        ("leverage", "at random, more often with larger errors", " · target 10.0 %", 0.1),
        ("rate", "those with the largest errors", " · target 10.0 %", 0.1),
        ("moving", "those with an error above the recent mean", "", None),
        ("every", None, None, None),
    ],
)
def test_the_page_says_how_rows_were_admitted(
    tmp_path: Path, admission: str, words: str | None, tile: str | None, target: float | None
) -> None:
    spec = {"rank": 2, "kernel": "gaussian", "admission": admission, "admission_rate": 0.1}
    table = features({"m": 20})
    page = page_of(run_folder(tmp_path, table, tracker="covariance", spec=spec))
    text = text_of(page)
    assert "The tracker covariance processed 20 rows" in text
    assert data_of(page)["admission"] == target
    assert "Rank in use" not in text
    if words is None:
        assert "75.0 % of the rows were skipped" in text
        assert "Skipped 75.0 % of the rows" in text
    else:
        assert f"25.0 % of the rows entered the model, {words}; no row" in text
        assert f"Entered the model 25.0 % of the rows{tile}" in text


def test_a_chosen_rank_is_told(tmp_path: Path) -> None:
    counts = {"rows_in": 20, "rows_out": 20, "rows_failed": 0, "directions": 8}
    spec = {"rank": 2, "kernel": "gaussian", "admission": "every", "rank_factor": 1.5}
    page = page_of(run_folder(tmp_path, features({"m": 20}), counts=counts, spec=spec))
    assert "Rank in use 1.6 mean over admitted rows · at most 2" in text_of(page)


@pytest.mark.parametrize(
    ("table", "counts", "expected"),
    [
        (None, {}, "The input has no rows, so there are no features."),
        (None, {"rows_failed": 7}, "There are no features: all 7 rows failed."),
        (features({"m": 1}), {}, "The tracker okfeb processed 1 row of 1 device and"),
        (
            features({"m": 5}),
            {},
            "No rows were skipped; no row failed.",
        ),
        (features({"m": 2}), {}, "only rows from which models start"),
        (features({"m": 30}, label=pa.nulls(30, pa.string())), {}, "no label 28 100.0 %"),
        (features({"m": 2}, label=["a", "b"]), {}, "No row to measure has a label."),
        (features({"m": 30}, label=np.arange(30.0)), {}, "The label is a number with many values"),
    ],
)
def test_odd_runs_have_a_page(
    tmp_path: Path, table: pa.Table | None, counts: dict[str, int], expected: str
) -> None:
    page = page_of(run_folder(tmp_path, table, counts=counts))
    assert expected in text_of(page)
    assert len(data_of(page)["curves"]) == (0 if table is None else 1)


def test_a_run_file_with_little_in_it_is_enough(tmp_path: Path) -> None:
    output = run_folder(tmp_path, features({"m": 5}))
    (tmp_path / "run.json").write_text("{}", encoding="utf-8")
    assert "The tracker processed 5 rows of 1 device" in text_of(page_of(output))


def test_a_frozen_subspace_is_pointed_out(tmp_path: Path) -> None:
    evicted = pa.array(np.where(np.arange(200) < 190, np.arange(200), 0))
    page = page_of(
        run_folder(tmp_path, features({"m": 200}, evicted=evicted), counts={"mended": 1})
    )
    text = text_of(page)
    assert "The subspace is nearly frozen: in 95.0 % of the evictions" in text
    assert "1 update would have diverged and used a safe step instead." in text


def test_failures_are_listed_by_reason(tmp_path: Path) -> None:
    failures = pa.table(
        {
            "model_id": ["m"] * 4 + [None],
            "source": pa.array(["in.csv"] * 5).dictionary_encode(),
            "row": [1, 2, 3, 4, 5],
            "reason": ["no number"] * 4 + ["no id"],
        }
    )
    output = run_folder(
        tmp_path, None, failures, counts={"rows_failed": 5}, failures={"no id": 1, "no number": 4}
    )
    text = text_of(page_of(output))
    assert (
        "no number 4 in.csv, row 1 (m) in.csv, row 2 (m) in.csv, row 3 (m) no id 1 in.csv, row 5"
    ) in text


def test_failures_are_counted_by_kind_with_three_examples_over_batches() -> None:
    reasons = ["a = 1: bad", "a = 'x: y': bad", "b", "a = 2: bad", "a = 3: bad", "b", "c", "b"]
    table = pa.table(
        {
            "model_id": pa.array([None, "m"] * 4, pa.string()),
            "source": ["f"] * 8,
            "row": np.arange(1000, 1008),
            "reason": reasons,
        }
    )
    kinds = failure_kinds(table.to_batches(max_chunksize=3))
    assert kinds == [
        FailureKind(
            kind, rows, [Failure([None, "m"][k % 2], "f", 1000 + k, reasons[k]) for k in at]
        )
        for kind, rows, at in [("a: bad", 4, (0, 1, 3)), ("b", 3, (2, 5, 7)), ("c", 1, (6,))]
    ]
    assert failure_lines(kinds) == [
        "failed:   4 rows: a: bad",
        "          such as f, row 1,000: a = 1",
        "failed:   3 rows: b",
        "          such as f, row 1,002",
        "failed:   1 row: c",
        "          such as f, row 1,006",
    ]
    assert failure_lines([*kinds, FailureKind("d", 5), FailureKind("e", 6)])[-1] == (
        "failed:   11 rows: 2 more reasons, in run.json"
    )
    assert failure_lines([]) == []


@pytest.mark.parametrize(
    ("table", "exit_code", "first"),
    [(None, 3, True), (None, 0, True), ("some", 3, True), ("some", 0, False)],
)
def test_failures_come_first_where_they_are_what_is_to_be_seen(
    tmp_path: Path, table: str | None, exit_code: int, first: bool
) -> None:
    failed = pa.table({"model_id": ["m"], "source": ["f"], "row": [1], "reason": ["t = 'x': bad"]})
    page = page_of(
        run_folder(
            tmp_path,
            features({"m": 20}) if table else None,
            failed,
            counts={"rows_failed": 1},
            exit_code=exit_code,
            outcome="too many rows failed",
            max_failures="2%",
        )
    )
    assert page.count("Rows that failed") == 1
    assert (page.index("Rows that failed") < page.index('id="drawn"')) == first
    text = text_of(page)
    assert "t: bad 1 f, row 1 (m): t = 'x': bad" in text
    ending = "The job ended with exit code 3: too many rows failed (--max-failures 2%)."
    assert (ending in text) == (exit_code == 3)


def totals_of(means: dict[str, float], rows: dict[str, int]) -> Totals:
    table = features({name: rows.get(name, 3) for name in means})
    losses = np.repeat(list(means.values()), [rows.get(name, 3) for name in means])
    return add_up(table.set_column(4, "loss", pa.array(losses)).to_batches())


def test_up_to_fifty_models_are_all_drawn_in_natural_order() -> None:
    totals = totals_of({f"m{k}": 0.1 for k in range(50)}, {})
    assert models_with_curves(totals) == [f"m{k}" for k in range(50)]
    totals = totals_of({"2": 1.0, "10": 1.0, "a": 1.0, "": 1.0, "9" * 5000: 1.0}, {})
    assert models_with_curves(totals) == ["", "2", "10", "9" * 5000, "a"]


def test_of_many_models_the_largest_the_worst_and_the_best_are_drawn() -> None:
    names = [f"m{k}" for k in range(1200)]
    longest = {name: 9 for name in names[500:520]}
    totals = totals_of({name: (k + 1) / 1200 for k, name in enumerate(names)}, longest)
    drawn = models_with_curves(totals)
    assert drawn == [*names[:10], *names[500:520], *names[1180:]]
    shown = models_shown(totals, drawn)
    assert shown == [*names[:200], *names[500:520], *names[1000:]]
    assert models_shown(totals_of({name: 1.0 for name in names[:1000]}, {}), []) == names[:1000]


def test_models_of_start_rows_alone_are_drawn_and_shown(tmp_path: Path) -> None:
    models = {f"m{k}": 2 for k in range(1100)}
    page = page_of(run_folder(tmp_path, features(models)))
    data = data_of(page)
    assert [curve["id"] for curve in data["curves"]] == [f"m{k}" for k in range(50)]
    assert set(data["table"]["mean"]) == {None}
    assert "histogram" not in page.partition("<main>")[2].partition("<script")[0]


def test_many_models_have_a_histogram_of_their_means(tmp_path: Path) -> None:
    page = page_of(run_folder(tmp_path, features({f"m{k}": 3 for k in range(1100)})))
    text = text_of(page)
    assert "The table shows 400 of 1,100 devices: those with the smallest" in text
    assert "Mean fitting errors of 1,100 devices: half are below 5.50" in text
    assert "Every device can be opened . 50 are drawn in full" in text.replace(
        "opened.", "opened ."
    )
    assert "Most are in the folder report_devices next to this page" in text
    scripts = sorted((tmp_path / "report_devices").iterdir())
    assert [path.name for path in scripts] == [f"{number:04}.js" for number in range(21)]
    elsewhere = data_of(page)["elsewhere"]
    assert len(elsewhere) == 1050 and elsewhere[-1]["file"] == 20
    found: list[str] = []
    for path in scripts:
        call = re.fullmatch(r"kerneltrack\.arrived\((\d+),(.*)\);\n", path.read_text())
        assert call and int(call[1]) == 50 + len(found)
        found += [curve["id"] for curve in json.loads(call[2])["curves"]]
    assert found == [each["id"] for each in elsewhere]


def test_a_device_that_is_asked_for_is_drawn_in_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = run_folder(tmp_path, features({f"m{k}": 3 for k in range(2_500)}))
    assert "m1234" not in [curve["id"] for curve in data_of(page_of(output))["curves"]]
    assert main(["report", output, "--device", "m1234"]) == 0
    page = Path(output, "report.html").read_text(encoding="utf-8")
    assert "m1234" in [curve["id"] for curve in data_of(page)["curves"]]
    assert main(["report", output, "--device", "other"]) == 2
    assert "other: no device of this run has this name" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, "not json", "[1]"])
def test_a_run_file_that_cannot_be_read_is_one_clear_error(
    tmp_path: Path, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=r"run\.json: ") as caught:
        write_report(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_features_file_that_is_not_parquet_is_one_clear_error(tmp_path: Path) -> None:
    output = run_folder(tmp_path, None)
    (tmp_path / "features" / "part-0.parquet").write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"part-0\.parquet: is not a Parquet file"):
        write_report(output)


def test_a_page_that_cannot_be_finished_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = run_folder(tmp_path, features({"m": 5}))
    (tmp_path / "report.html").write_text("old", encoding="utf-8")

    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_report(output)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == "old"
    assert sorted(os.listdir(tmp_path)) == ["failures", "features", "report.html", "run.json"]


def test_jinja_is_imported_where_a_page_is_written_only() -> None:
    script = "import pipelines.files.track, sys; print('jinja2' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False"]


def test_a_folders_name_is_not_a_pattern(tmp_path: Path) -> None:
    output = run_folder(tmp_path / "run [1]*", features({"m": 5}))
    assert "5 rows of 1 device" in text_of(page_of(output))


class _OtherFileSystem(LocalFileSystem):
    """Local files under another scheme: what a bucket looks like to the report."""

    @classmethod
    def scheme(cls) -> str:
        return "ktother"

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *paths])

    def _list(self, dir_or_prefix: str) -> Any:
        found_here: Any = super()._list
        for found in found_here(_local(dir_or_prefix)):
            found.path = f"ktother:/{found.path}"
            yield found

    def open(self, path: str, *args: Any, **kwargs: Any) -> Any:
        return super().open(_local(path), *args, **kwargs)

    def create(self, path: str, *args: Any, **kwargs: Any) -> Any:
        return super().create(_local(path), *args, **kwargs)

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        rename: Any = super().rename
        rename([*map(_local, source_file_names)], [*map(_local, destination_file_names)])


def _local(path: str) -> str:
    return path.removeprefix("ktother:/")


def test_any_file_system_of_beams_will_do(tmp_path: Path) -> None:
    run_folder(tmp_path, features({"m": 5}))
    here = page_of(str(tmp_path))
    (tmp_path / "report.html").unlink()
    assert write_report(f"ktother:/{tmp_path}") == f"ktother:/{tmp_path}/report.html"
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == here
    assert sorted(os.listdir(tmp_path)) == ["failures", "features", "report.html", "run.json"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.19, "0.190"),
        (10, "10.0"),
        (123.4, "123"),
        (12345.6, "12,346"),
        (1e-7, "1.00e-07"),
        (float("nan"), "–"),
    ],
)
def test_figures_have_three_digits(value: float, text: str) -> None:
    assert figure(value) == text


def test_times_and_extents_are_said_shortly() -> None:
    assert moment(1_500_000_000 * 10**9) == "2017-07-14 02:40:00"
    assert moment(1_500_000_000 * 10**9 + 20_000_000) == "2017-07-14 02:40:00.02"
    extents = [7, 1_500, 90_000_000, 90_000_000_000, 60_000_000_000, 7_200_000_000_000]
    assert [span(extent) for extent in [*extents, 2 * 86_400 * 10**9]] == [
        *("7 ns", "1 µs 500 ns", "90 ms", "90 s", "1 min", "2 h", "2 d"),
    ]
    odd = [6_014_107_433_520, 3_599_999_999_999, 86_399_999_999_999, 90_061 * 10**9, 1_234_567]
    assert [span(extent) for extent in odd] == [
        *("1 h 40 min", "1 h", "1 d", "1 d 1 h", "1 ms 235 µs"),
    ]


@given(st.integers(0, 4 * 10**17))
def test_an_extent_in_words_is_nearly_the_extent(extent: int) -> None:
    sizes = {"d": 86_400 * 10**9, "h": 3_600 * 10**9, "min": 60 * 10**9, "s": 10**9}
    sizes |= {"ms": 10**6, "µs": 10**3, "ns": 1}
    parts = span(extent).replace(",", "").split()
    read = sum(int(n) * sizes[unit] for n, unit in zip(parts[::2], parts[1::2], strict=True))
    assert len(parts) in (2, 4)
    assert abs(read - extent) <= extent / 48
