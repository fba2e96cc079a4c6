"""The report in a real browser: everything is drawn, nothing goes wrong, nothing is fetched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.report import write_report

HOSTILE = "</script><img src=x onerror=alert(1)>\n\"'& é漢\u2028🙂"
START = 1_500_000_000 * 10**9
SECOND = 10**9
PLOTS = "fates loss novelty"

# Interactions run after the page's own scripts; what they find goes to data attributes of body.
DRIVER = """
const note = (key, value) => document.body.setAttribute("data-" + key, String(value));
const texts = (where) => [...document.querySelectorAll(where)].map((found) => found.textContent);
const text = (id) => document.getElementById(id).textContent;
const press = (id, key) => document.getElementById(id).dispatchEvent(
  new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const choose = (id, value, event) => {
  document.getElementById(id).value = value;
  document.getElementById(id).dispatchEvent(new Event(event, { bubbles: true }));
};
"""

Look = Callable[..., dict[str, str]]


class _Page(HTMLParser):
    """Body's attributes, how often each element occurs, and the texts of the elements with ids."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.body: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag == "body":
            self.body = {key: value or "" for key, value in attrs}


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the browser; without one the test is skipped, in CI it fails."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    reason = "no chromium on the path: install Debian's package chromium"
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def look(chromium: str, tmp_path: Path) -> Look:
    """Open a page, return body's attributes; `console` and `images` are added to them."""

    def open_page(
        path: str, *, before: str = "", after: str = "", size: str = "1280,1600", dark: bool = False
    ) -> dict[str, str]:
        page = Path(path).read_text(encoding="utf-8")
        page = page.replace("<head>", f"<head><script>{before}</script>", 1)
        page = page.replace("</body>", f"<script>{DRIVER}{after}</script></body>", 1)
        copy = tmp_path / "looked-at.html"
        copy.write_text(page, encoding="utf-8")
        profile = tmp_path / "profile"
        shutil.rmtree(profile, ignore_errors=True)
        done = subprocess.run(
            [
                chromium,
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
                *("--no-first-run", "--disable-background-networking"),
                *("--disable-component-update", "--disable-sync"),
                f"--user-data-dir={profile}",
                f"--window-size={size}",
                f"--blink-settings=preferredColorScheme={0 if dark else 1}",
                *("--enable-logging=stderr", "--v=0", "--virtual-time-budget=4000", "--dump-dom"),
                copy.as_uri(),
            ],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=True,
        )
        said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        parsed = _Page(done.stdout)
        images = str(parsed.counts.get("img", 0))
        return {**parsed.body, "console": "\n".join(said), "images": images}

    return open_page


def features(name: str, n: int, **columns: Any) -> pa.Table:
    rng = np.random.default_rng(n)
    index = np.arange(n)
    evicted = np.where((index >= 15) & (rng.random(n) < 0.5), index - rng.integers(0, 3, n), -1)
    table: dict[str, Any] = {
        "model_id": [name] * n,
        "index": index,
        "source": pa.array(["in.csv"] * n).dictionary_encode(),
        "row": index,
        "loss": rng.gamma(2.0, 0.05, n),
        "novelty": rng.random(n),
        "informative": evicted >= 0,
        "evicted": pa.array(evicted, pa.int64(), mask=evicted < 0),
        "initial": index < 10,
        "z": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(2 * n)), 2),
        **columns,
    }
    if "time" in table:
        table["time"] = pa.array(table["time"], pa.int64()).cast(pa.timestamp("ns", tz="UTC"))
    return pa.table(table)


def report(output: Path, *tables: pa.Table, failed: pa.Table | None = None, **run: Any) -> str:
    for folder in ("features", "failures"):
        (output / folder).mkdir(parents=True)
    for k, table in enumerate(tables):
        pq.write_table(table, output / "features" / f"part-{k}.parquet")
    if failed is not None:
        pq.write_table(failed, output / "failures" / "part-0.parquet")
    facts = {
        "kerneltrack": "0.1.0",
        "inputs": [{"path": "in.csv", "rows": sum(map(len, tables))}],
        "columns": {"features": ["a", "b"]},
        "tracker": "okfeb",
        "spec": {"rank": 2, "kernel": "gaussian"},
        "counts": {"rows_failed": 0 if failed is None else len(failed)},
        **run,
    }
    (output / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    return write_report(str(output))


def recordings(n: int = 3000) -> pa.Table:
    """Two recordings with a gap, four regimes."""
    time = START + np.where(np.arange(n) < n // 2, 0, 3600) * SECOND + np.arange(n) * SECOND // 10
    label = np.repeat(["walk", "run", HOSTILE, "sit"], n // 4)
    return features("m1", n, time=time, label=label)


def is_sound(seen: dict[str, str], plots: str = PLOTS) -> bool:
    return seen["console"] == "" and "data-error" not in seen and seen["data-plots-drawn"] == plots


@pytest.mark.parametrize("dark", [False, True])
def test_everything_is_drawn_and_nothing_goes_wrong(tmp_path: Path, look: Look, dark: bool) -> None:
    other = recordings(400).set_column(0, "model_id", pa.array([HOSTILE] * 400))
    failed = pa.table({"model_id": ["m1"], "source": ["f"], "row": [1], "reason": [HOSTILE]})
    path = report(tmp_path / "out", recordings(), other, failed=failed, failures={HOSTILE: 1})
    after = """
      note("rows", document.querySelectorAll("#models tbody tr").length);
      note("labels", texts("#labels li").join("|"));
      note("names", texts("#models tbody th").join("|"));
      note("paper", getComputedStyle(document.body).backgroundColor);
      note("notes", text("loss-note"));
      note("unnamed", document.querySelectorAll(".chart:has(canvas):not([aria-label])").length);
    """
    seen = look(path, after=after, dark=dark)
    assert is_sound(seen)
    assert seen["data-model"] == "m1"
    assert seen["data-rows"] == "2"
    assert sorted(seen["data-labels"].split("|")) == sorted(["walk", "run", "sit", HOSTILE])
    assert sorted(seen["data-names"].split("|")) == sorted([HOSTILE, "m1"])
    assert seen["data-paper"] == ("rgb(20, 24, 30)" if dark else "rgb(253, 253, 252)")
    assert "longer spells 1 time" in seen["data-notes"]
    assert seen["data-unnamed"] == "0"
    assert seen["images"] == "0"


def test_the_reader_can_steer(tmp_path: Path, look: Look) -> None:
    models = [
        features(
            f"m{k}", 300, label=["a"] * 150 + ["b"] * 150, time=START + np.arange(300) * SECOND
        )
        for k in range(1, 15)
    ]
    after = """
      setTimeout(() => {
        press("loss", "Home");
        press("loss", "ArrowRight");
        note("readout", text("loss-readout"));
        press("loss", "+");
        press("loss", "Escape");
        choose("find", "m12", "input");
        note("found", document.body.dataset.model);
        choose("find", "", "input");
        document.getElementById("next").click();
        note("next", document.body.dataset.model);
        choose("model", "3", "change");
        note("chosen", document.body.dataset.model);
        document.querySelector("#axis input[value=row]").click();
      }, 500);
      setTimeout(() => {
        press("fates", "End");
        note("fates", text("fates-readout"));
        choose("filter", "m1", "input");
        note("filtered", `${texts("#models tbody tr").length} ${text("table-count")}`);
        document.querySelectorAll("#models thead button")[2].click();
        const first = document.querySelector("#models tbody tr");
        const means = texts("#models tbody tr td:nth-child(3)").map(Number);
        note("sorted", Number(first.cells[2].textContent) === Math.max(...means));
        note("order", document.querySelector("#models th[aria-sort]").getAttribute("aria-sort"));
        first.querySelector("button").click();
        note("clicked", document.body.dataset.model === first.querySelector("button").textContent);
        dispatchEvent(new Event("beforeprint"));
        dispatchEvent(new Event("afterprint"));
      }, 1000);
    """
    seen = look(report(tmp_path / "out", *models), after=after)
    assert is_sound(seen)
    assert seen["data-readout"].startswith("02:40:0")
    assert " · a" in seen["data-readout"]
    assert "mean of the last 200 rows 0." in seen["data-readout"]
    assert seen["data-found"] == "m12"
    assert seen["data-next"] == "m13"
    assert seen["data-chosen"] == "m4"
    assert seen["data-fates"].startswith("row 2")
    assert seen["data-filtered"] == "6 6 of 14"
    assert (seen["data-sorted"], seen["data-order"]) == ("true", "descending")
    assert seen["data-clicked"] == "true"


@pytest.mark.parametrize("width", [390, 768])
def test_a_narrow_window_needs_no_scrolling_sideways(
    tmp_path: Path, look: Look, width: int
) -> None:
    # Headless windows are at least 500 wide, so the page stands in a frame of the width.
    path = report(tmp_path / "out", recordings())
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<!doctype html><html><head></head><body><iframe style="width:{width}px;height:3000px" '
        f'src="{Path(path).as_uri()}"></iframe></body></html>',
        encoding="utf-8",
    )
    page = Path(path).read_text(encoding="utf-8")
    tell = (
        "<script>setTimeout(() => parent.postMessage([document.documentElement.scrollWidth, "
        "innerWidth, document.body.dataset.plotsDrawn].join(' '), '*'), 500)</script></body>"
    )
    Path(path).write_text(page.replace("</body>", tell), encoding="utf-8")
    listen = 'addEventListener("message", (event) => note("told", event.data));'
    seen = look(str(frame), after=listen)
    needed, given, *plots = seen["data-told"].split(" ")
    assert int(needed) <= int(given) == width
    assert " ".join(plots) == PLOTS
    assert seen["console"] == ""


ODD = {
    "one row": ([features("m", 1)], PLOTS),
    "two rows at one time": ([features("m", 2, time=[START, START])], PLOTS),
    "microseconds": ([features("m", 50, time=START + np.arange(50) * 1000)], PLOTS),
    "times not in order": ([features("m", 50, time=START - np.arange(50))], PLOTS),
    "start rows alone": ([features("m", 9)], PLOTS),
    "constant loss": ([features("m", 500, loss=np.full(500, 0.25))], PLOTS),
    "no loss at all": ([features("m", 500, loss=np.zeros(500))], PLOTS),
    "huge losses": ([features("m", 500, loss=np.full(500, 1e300))], PLOTS),
    "null labels": ([features("m", 500, label=pa.nulls(500, pa.string()))], PLOTS),
    "labels in random order": (
        [features("m", 500, label=np.random.default_rng(0).integers(0, 2, 500))],
        PLOTS,
    ),
    "twenty labels": ([features("m", 500, label=np.repeat(np.arange(20), 25))], PLOTS),
    "a numeric target": (
        [features("m", 500, label=np.linspace(-1.0, 1.0, 500))],
        "fates loss novelty target",
    ),
    "many models": ([features(f"m{k}", 4) for k in range(60)], PLOTS),
    "nothing": ([], ""),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_runs_are_drawn_too(tmp_path: Path, look: Look, case: str) -> None:
    tables, plots = ODD[case]
    # Features of several files have one schema; here one file holds them all.
    joined = [pa.concat_tables(tables)] if tables else []
    assert is_sound(look(report(tmp_path / "out", *joined)), plots)


def test_a_blank_canvas_would_be_noticed(tmp_path: Path, look: Look) -> None:
    blank = "for (const f of ['stroke', 'fill']) CanvasRenderingContext2D.prototype[f] = () => {};"
    seen = look(report(tmp_path / "out", recordings()), before=blank)
    assert seen["data-plots-drawn"] == ""


def test_an_error_in_a_script_would_be_noticed(tmp_path: Path, look: Look) -> None:
    seen = look(report(tmp_path / "out", recordings()), after="throw new Error('made up');")
    assert "made up" in seen["console"]
    assert "made up" in seen["data-error"]


def test_a_fetch_would_be_refused(tmp_path: Path, look: Look) -> None:
    after = "fetch('http://localhost:9/').catch(() => {});"
    seen = look(report(tmp_path / "out", recordings()), after=after)
    assert "Content Security Policy" in seen["console"]
