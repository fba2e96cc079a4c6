"""The report in a real browser: everything is drawn, nothing goes wrong, nothing is fetched."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.report import write_report
from tests.e2e.browser import Browser, started
from tests.parts import lanes, missing
from tests.report_inputs import episode, made
from tests.report_runs import (
    HOSTILE,
    SECOND,
    START,
    alerts,
    predictions,
    put,
    run_folder,
    windows,
)
from tests.report_runs import features as of_models
from tests.report_runs import random_features as features
from transforms.write.schemas import episodes_schema

PLOTS = "fates loss novelty"
ALL_PLOTS = "fates loss mismatch-fixed mismatch-moving novelty score score-all"

# Interactions run after the page's own scripts; what they find goes to data attributes of body.
DRIVER = """
const note = (key, value) => document.body.setAttribute("data-" + key, String(value));
const all = (where) => [...document.querySelectorAll(where)];
const texts = (where) => all(where).map((found) => found.textContent);
const text = (id) => document.getElementById(id).textContent;
const press = (id, key) => document.getElementById(id).dispatchEvent(
  new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const choose = (id, value, event) => {
  document.getElementById(id).value = value;
  document.getElementById(id).dispatchEvent(new Event(event, { bubbles: true }));
};
const shown = (where) => all(where).filter((found) => found.offsetParent);
/* Runs it when the page has been drawn, however busy the machine is: the map of the fleet follows
   a frame later. */
const drawn = (run) => {
  document.body.dataset.waits = "true";
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => {
    delete document.body.dataset.waits;
    run();
  }, 300)));
};
/* How many pixels of a chart have a colour of the page's, as good as exactly. */
const inked = (id, name) => {
  const canvas = document.querySelector(`#${id} canvas`);
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const text = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const ink = [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  let found = 0;
  for (let at = 0; at < pixels.length; at += 4) {
    if (ink.every((value, k) => Math.abs(value - pixels[at + k]) < 24)) found += 1;
  }
  return found;
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
    missing("no chromium on the path: install Debian's package chromium")


@pytest.fixture(scope="module")
def browser(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser that all of these tests look with."""
    with started(chromium, tmp_path_factory.mktemp("browser") / "profile") as running:
        yield running


@pytest.fixture
def look(browser: Browser, tmp_path: Path) -> Look:
    """Open a page, return body's attributes; `console` and `images` are added to them.

    And `sideways`: the widths of windows in which it would have to be scrolled sideways.
    """

    def open_page(
        path: str,
        *,
        before: str = "",
        after: str = "",
        size: str = "1280,1600",
        dark: bool = False,
        beside: bool = True,
        widths: Iterable[int] = (),
    ) -> dict[str, str]:
        page = Path(path).read_text(encoding="utf-8")
        page = page.replace("<head>", f"<head><script>{before}</script>", 1)
        page = page.replace("</body>", f"<script>{DRIVER}{after}</script></body>", 1)
        copy = tmp_path / "looked-at.html"
        copy.write_text(page, encoding="utf-8")
        devices = Path(path).parent / "report_devices"
        if beside and devices.is_dir():
            shutil.copytree(devices, tmp_path / devices.name, dirs_exist_ok=True)
        seen = browser.look(copy.as_uri(), size, dark, widths)
        parsed = _Page(seen.html)
        images = str(parsed.counts.get("img", 0))
        over = [str(at) for at, (needed, given) in seen.widths.items() if needed > given]
        told = {"console": "\n".join(seen.console), "images": images, "sideways": " ".join(over)}
        return {**parsed.body, **told}

    return open_page


def report(
    output: Path,
    *tables: pa.Table,
    failed: pa.Table | None = None,
    parts: Mapping[str, pa.Table] | None = None,
    **run: Any,
) -> str:
    counts = {"rows_failed": 0 if failed is None else len(failed)}
    run_folder(output, None, failed, counts=counts, **run)
    put(output, "features", *tables)
    for folder, table in (parts or {}).items():
        put(output, folder, table)
    return write_report(str(output))


def recordings(n: int = 3000) -> pa.Table:
    """Two recordings with a gap, four regimes."""
    time = START + np.where(np.arange(n) < n // 2, 0, 3600) * SECOND + np.arange(n) * SECOND // 10
    label = np.repeat(["walk", "run", HOSTILE, "sit"], n // 4)
    return features("m1", n, time=time, label=label)


def all_parts(models: Mapping[str, int], task: str = "classification") -> dict[str, pa.Table]:
    """Windows, predictions and alerts of models whose rows are `recordings`."""
    lines: list[dict[str, Any]] = []
    rows: dict[str, list[Any]] = {name: [] for name in ("model_id", "index", "time", "label")}
    for name, n in models.items():
        time = recordings(n)["time"].cast(pa.int64()).to_pylist()
        for stop in range(100, n + 1, 100):
            fixed = {"start": time[stop - 100], "end": time[stop - 1] + 1, "complete": stop < n}
            lines.append({"model_id": name, "index": stop - 1, **fixed})
        for k in range(99, n):
            moved = {"kind": "moving", "start": time[k - 99], "end": time[k], "rows": 100, "n": 100}
            lines.append({"model_id": name, "index": k, **moved, "mismatch": 0.1 + 0.05 * (k % 2)})
        rows["model_id"] += [name] * n
        rows["index"] += range(n)
        rows["time"] += time
        rows["label"] += np.repeat(["walk", "run", HOSTILE, "sit"], n // 4).tolist()
    answers = [None, *rows["label"][:-1]]
    if task == "regression":
        rows["label"] = np.sin(np.arange(len(answers)) / 50).tolist()
        answers = [0.9 * label for label in rows["label"]]
    first = next(iter(models))
    drifts = {
        "model_id": [first, first, HOSTILE],
        "index": [750, 2250, 7],
        "time": [rows["time"][750], rows["time"][2250], rows["time"][-1]],
        "before": [0.1, 0.2, 0.1],
        "after": [0.2, 0.05, 0.3],
    }
    return {
        "mismatch": windows(*lines),
        "predictions": predictions(task, prediction=answers, **rows),
        "alerts": alerts(True, **drifts),
    }


def is_sound(seen: dict[str, str], plots: str = PLOTS) -> bool:
    return seen["console"] == "" and "data-error" not in seen and seen["data-plots-drawn"] == plots


@pytest.mark.parametrize("dark", lanes(False, True))
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


@pytest.mark.parametrize("size", lanes("390,1600", "1280,1600"))
def test_an_opened_device_shows_its_channels_and_its_features(
    tmp_path: Path, look: Look, size: str
) -> None:
    lines = [
        episode(90, 99, [0.3, 0.0, 0.7], severity=9.0),
        episode(20, 22, [0.0, 1.0, 0.0], 2, severity=5.0, state="accepted", kind="spike"),
    ]
    output, inputs = made(tmp_path, lines)
    z = pa.FixedSizeListArray.from_arrays(pa.array(np.sin(np.arange(800.0) ** 2)), 2)
    (part,) = (Path(output) / "features").iterdir()
    table = pq.read_table(part)
    pq.write_table(table.set_column(table.column_names.index("z"), "z", z), part)
    after = """
      const textsOf = (found) => found.map((one) => one.textContent).join("|");
      const told = () => textsOf(shown("#channels-section .readout"));
      note("first", told());
      note("episode", inked("channel-0", "alert"));
      for (const key of ["Home", "ArrowRight"]) press("channel-0", key);
      note("read", text("channel-0-readout"));
      press("channel-0", "Escape");
      note("listed", texts("#episode option").join("|"));
      choose("episode", "1", "change");
      note("second", told());
      note("about", text("channels-note"));
      note("dots", all("#plane circle").length);
      const titles = texts("#plane circle title");
      note("within", titles.filter((title) => title.includes("within")).length);
      const other = all("#model option").find((one) => one.textContent === "other");
      choose("model", other.value, "change");
      note("other", shown("#channels-section").length);
      choose("model", all("#model option").find((one) => one.textContent === "m").value, "change");
      for (const found of all("details")) found.open = true;
    """
    page = write_report(output, None, inputs)
    seen = look(page, after=after, size=size, widths=(320, 390, 500, 768))
    assert seen["console"] == ""
    assert is_sound(seen, "channel-0 channel-1 fates loss novelty surprise")
    assert seen["data-first"] == "c2|c0"
    assert seen["data-second"] == "c1"
    # Row 51: 10,000,000 + 2,000 + 51 / 16.
    assert seen["data-read"] == "02:40:51.00c2 10,002,003"
    assert seen["data-about"] == "Shown: every row."
    assert int(seen["data-episode"]) > 30
    assert seen["data-listed"] == (
        "shift, since 2017-07-14 02:41:30|spike, since 2017-07-14 02:40:20, accepted"
    )
    assert seen["data-dots"] == "200"
    assert seen["data-within"] == "13"
    assert seen["sideways"] == ""
    assert seen["data-other"] == "0"


@pytest.mark.parametrize("dark", lanes(True, False))
def test_windows_predictions_and_alerts_are_drawn(tmp_path: Path, look: Look, dark: bool) -> None:
    other = recordings(400).set_column(0, "model_id", pa.array([HOSTILE] * 400))
    parts = all_parts({"m1": 3000, HOSTILE: 400})
    path = report(tmp_path / "out", recordings(), other, parts=parts)
    after = """
      note("alerts", inked("loss", "alert"));
      note("rings", text("mismatch-fixed-readout"));
      note("fixed", text("mismatch-fixed-note"));
      note("score", text("score-note"));
      note("confusion", shown(".confusion-of summary").map((found) => found.textContent).join("|"));
      note("cells", shown(".confusion-of .hit").map((found) => found.textContent).join(" "));
      note("overall", shown("#confusion-title ~ .scroll .hit").length);
      note("lines", `${all("#windows tbody tr").length} ${all("#scores tbody tr").length}`);
      note("listed", texts("table.alerts tbody th").join("|"));
      setTimeout(() => {
        press("loss", "Home");
        for (let k = 0; k < 100; k += 1) {
          press("loss", "ArrowRight");
          if (text("loss-readout").includes("alert:")) break;
        }
        note("found", text("loss-readout"));
        press("mismatch-moving", "End");
        note("moving", text("mismatch-moving-readout"));
        document.querySelector("#axis input[value=row]").click();
        press("score", "End");
        note("end", text("score-readout"));
        press("score-all", "End");
        note("all", text("score-all-readout"));
        choose("model", "0", "change");
        note("other", shown(".confusion-of").length + " " + document.body.dataset.model);
        note("none", inked("loss", "alert"));
      }, 500);
    """
    seen = look(path, after=after, dark=dark)
    assert is_sound(seen, ALL_PLOTS)
    assert int(seen["data-alerts"]) > 100
    assert "window cut short" in seen["data-rings"]
    assert "1 window is cut short by the end of the input (rings)." in seen["data-fixed"]
    assert "predicted right" in seen["data-score"]
    assert seen["data-confusion"] == "Confusion of m1"
    # Each label is taken for the one before it once, where it begins; the first row has none.
    assert seen["data-cells"] == "99.9 99.9 99.9 100"
    assert (seen["data-overall"], seen["data-lines"]) == ("4", "4 2")
    assert seen["data-listed"] == "|".join(["m1", HOSTILE, "m1"])
    assert " · alert: mean error 0.100 → 0.200" in seen["data-found"]
    assert "trace certificate 0.200" in seen["data-moving"]
    assert "range of the windows 0.100 to 0.150" in seen["data-moving"]
    assert seen["data-end"].startswith("row 2,9")
    assert "all rows so far 99.9 %" in seen["data-end"]
    assert seen["data-all"].startswith("row 2,9")
    assert seen["data-other"] == f"1 {HOSTILE}"
    assert int(seen["data-none"]) < int(seen["data-alerts"])
    assert seen["images"] == "0"


def test_rows_of_wild_clocks_are_on_the_axis_of_rows_alone(tmp_path: Path, look: Look) -> None:
    table = recordings()
    time = table["time"].cast(pa.int64()).to_numpy().copy()
    time[:2] = [0, 60 * SECOND]
    time[-1] = 4_070_908_800 * SECOND
    place = table.column_names.index("time")
    table = table.set_column(place, "time", pa.array(time).cast(pa.timestamp("ns", "UTC")))
    after = """
      note("notes", text("loss-note"));
      note("clocks", text("outside"));
      const ends = (name) => {
        press("loss", "Home");
        note(`${name}-first`, text("loss-readout"));
        press("loss", "End");
        note(`${name}-last`, text("loss-readout"));
      };
      document.querySelector("#axis input[value=time]").click();
      setTimeout(() => {
        ends("time");
        document.querySelector("#axis input[value=row]").click();
        setTimeout(() => ends("row"), 200);
      }, 200);
    """
    seen = look(report(tmp_path / "out", table, parts=all_parts({"m1": 3000})), after=after)
    assert is_sound(seen, " ".join(name for name in ALL_PLOTS.split() if name != "score-all"))
    assert seen["data-time-first"].startswith("02:40:00.2")
    assert seen["data-time-last"].startswith("03:44:59")
    assert "after 2017-07-14 03:44:59 (up to 2099-01-01 00:00:00)" in seen["data-notes"]
    assert "3 rows of 1 of 1 device" in seen["data-clocks"]
    assert seen["data-row-first"].startswith("row 1 ")
    assert seen["data-row-last"].startswith("row 2,99")


def test_the_new_tables_can_be_sorted_and_filtered(tmp_path: Path, look: Look) -> None:
    models = [f"m{k}" for k in range(1, 15)]
    table = pa.concat_tables([features(name, 300) for name in models])
    lines = [{"model_id": name, "mismatch": 0.01 * k} for k, name in enumerate(models)]
    rows: dict[str, Any] = {
        "model_id": np.repeat(models, 2),
        "index": [0, 1] * 14,
        "label": ["a"] * 28,
        "prediction": [*["a", "a"] * 7, *["a", "b"] * 7],
    }
    parts = {"mismatch": windows(*lines), "predictions": predictions(**rows)}
    after = """
      setTimeout(() => {
        document.querySelectorAll("#windows thead button")[3].click();
        note("largest", document.querySelector("#windows tbody tr").textContent);
        choose("windows-filter", "m1", "input");
        note("filtered", text("windows-count"));
        choose("windows-filter", "", "input");
        document.querySelectorAll("#scores thead button")[4].click();
        document.querySelectorAll("#scores thead button")[4].click();
        const worst = document.querySelector("#scores tbody tr");
        note("worst", worst.cells[4].textContent);
        worst.querySelector("button").click();
        note("drawn", document.body.dataset.model === worst.querySelector("button").textContent);
        note("current", shown("tr.current").length);
      }, 500);
    """
    seen = look(report(tmp_path / "out", table, parts=parts), after=after)
    assert is_sound(seen, "fates loss mismatch-fixed novelty score score-all")
    assert seen["data-largest"].startswith("m14fixed10.1300.200")
    assert seen["data-filtered"] == "6 of 14"
    assert (seen["data-worst"], seen["data-drawn"], seen["data-current"]) == ("50.0 %", "true", "3")


def test_a_search_says_what_it_does_not_reach(tmp_path: Path, look: Look) -> None:
    """Of 2,400 models 50 can be opened; the table has those, the 200 best and the 200 worst."""
    names = [f"pump-{number}" for number in range(2400)]
    table = of_models(dict.fromkeys(names, 3), initial=np.zeros(7200, dtype=bool))
    after = """
      setTimeout(() => {
        note("before", text("found"));
        const first = document.querySelector("#model option").textContent;
        choose("find", first, "input");
        note("drawn", text("found"));
        choose("find", "pump-9999", "input");
        note("none", text("found"));
        choose("models-filter", "pump-600", "input");
        note("tally", text("models-count"));
        location.hash = "#model=pump-600";
      }, 500);
      setTimeout(() => {
        note("addressed", text("found"));
        location.hash = "#model=pump-150";
      }, 800);
      setTimeout(() => note("listed", text("found")), 1000);
    """
    seen = look(report(tmp_path / "out", table), after=after)
    assert is_sound(seen)
    assert seen["data-before"] == (
        "50 of 2,400 devices can be opened; for another, kerneltrack report DIR --device NAME"
    )
    assert seen["data-drawn"].endswith(" of 50 that can be opened")
    assert seen["data-none"].startswith("not among the 4")
    assert seen["data-none"].endswith(" of 2,400 devices that can be opened or are in the table")
    assert seen["data-tally"].startswith("0 of 4")
    assert seen["data-tally"].endswith(" more devices are not in this table")
    assert seen["data-addressed"].startswith("pump-600: not among the 4")
    assert seen["data-listed"] == (
        "pump-150: not on this page: kerneltrack report DIR --device draws it"
    )


def test_every_device_can_be_opened_from_files_beside_the_page(tmp_path: Path, look: Look) -> None:
    """Of 300 devices 50 are in the page, the others in its folder, which scripts load."""
    names = [HOSTILE, *(f"pump-{number}" for number in range(299))]
    table = of_models(dict.fromkeys(names, 30), initial=np.zeros(9000, dtype=bool))
    path = report(tmp_path / "out", table)
    assert len(list((tmp_path / "out" / "report_devices").iterdir())) == 5
    after = """
      const far = all("#model option").find((one) => one.textContent === "pump-100").value;
      note("options", document.querySelectorAll("#model option").length);
      choose("model", far, "change");
      setTimeout(() => {
        note("opened", document.body.dataset.model);
        note("chosen", text("chosen"));
        location.hash = "#model=pump-120";
      }, 800);
      setTimeout(() => note("addressed", document.body.dataset.model), 1600);
      setTimeout(() => note("found", text("found")), 1700);
    """
    seen = look(path, after=after)
    assert is_sound(seen)
    assert seen["data-options"] == "300"
    assert seen["data-opened"] == "pump-100"
    assert seen["data-chosen"].startswith("30 rows")
    assert (seen["data-addressed"], seen["data-found"]) == ("pump-120", "")
    # The page by itself says where the others are.
    shutil.rmtree(tmp_path / "report_devices")
    seen = look(path, after=after, beside=False)
    assert "report_devices, which has to lie next to this page" in seen["data-found"]
    assert seen["data-opened"] != "pump-100"
    # A smaller run in its place leaves none of them behind.
    put(tmp_path / "out", "features", of_models({"a": 30}))
    write_report(str(tmp_path / "out"))
    assert list((tmp_path / "out" / "report_devices").iterdir()) == []


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
        choose("models-filter", "m1", "input");
        note("filtered", `${texts("#models tbody tr").length} ${text("models-count")}`);
        document.querySelectorAll("#models thead button")[2].click();
        const first = document.querySelector("#models tbody tr");
        const means = texts("#models tbody tr td:nth-child(3)").map(Number);
        note("sorted", Number(first.cells[2].textContent) === Math.max(...means));
        note("order", document.querySelector("#models th[aria-sort]").getAttribute("aria-sort"));
        first.querySelector("button").click();
        note("clicked", document.body.dataset.model === first.querySelector("button").textContent);
        note("printed", text("printed") === `Curves of ${document.body.dataset.model}`);
        dispatchEvent(new Event("beforeprint"));
        dispatchEvent(new Event("afterprint"));
      }, 1000);
    """
    seen = look(report(tmp_path / "out", *models), after=after)
    assert is_sound(seen)
    assert seen["data-printed"] == "true"
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


def test_the_fleet_over_time_can_be_read_and_leads_to_a_model(tmp_path: Path, look: Look) -> None:
    n, odd = 300, "pump 1/2 ü"
    models = [odd, *(f"m{k}" for k in range(60))]
    tables = []
    for name in models:
        hit = (np.arange(n) >= 200) & (name == odd)
        bare = 150 if name == odd else 100
        p = pa.array(np.where(hit, 1e-20, 0.3), mask=np.arange(n) < bare)
        tables.append(features(name, n, p=p, time=START + np.arange(n) * SECOND))
    line = {"model_id": odd, "time": START, "index": 250, "episode": 1, "state": "open"}
    line |= {"kind": "shift", "severity": 900.0, "p": 1e-20, "shares": [1.0]}
    line |= {"deviations": [None]}
    line |= {"start_index": 200, "detected_index": 201, "last_index": 299}
    moments = {"start": 200, "detected": 201, "last": 299}
    line |= {name: START + row * SECOND for name, row in moments.items()}
    episodes = pa.Table.from_pylist([line], episodes_schema(True, 1))
    parts = {"episodes": episodes}
    columns = {"features": ["x"]}
    path = report(
        tmp_path / "out", *tables, parts=parts, reference={"learning": "first"}, columns=columns
    )
    after = """
      drawn(() => {
        note("pixels", inked("heat", "alert"));
        for (const key of ["ArrowDown", "ArrowRight", "ArrowUp"]) press("heat", key);
        note("said", text("heat-readout"));
        press("heat", "Escape");
        note("hint", text("heat-readout"));
        location.hash = "#model=m40";
        drawn(() => {
          note("gone", document.body.dataset.model);
          press("heat", "ArrowLeft");
          press("heat", "Enter");
          note("opened", document.body.dataset.model);
          note("hash", location.hash);
        });
      });
    """
    seen = look(path, after=after)
    assert is_sound(seen, "fates loss novelty surprise")
    assert seen["data-heat-drawn"] == "61"
    assert int(seen["data-pixels"]) > 1_000
    assert seen["data-said"].startswith(f"{odd} 2017-07-14 02:41:41 no row that was compared")
    assert seen["data-hint"].startswith("Point at a cell")
    assert seen["data-gone"] == "m40"
    assert seen["data-opened"] == odd
    assert seen["data-hash"] == "#model=pump%201%2F2%20%C3%BC"


def test_a_narrow_window_needs_no_scrolling_sideways(tmp_path: Path, look: Look) -> None:
    path = report(tmp_path / "out", recordings(), parts=all_parts({"m1": 3000}))
    after = 'for (const found of all("details")) found.open = true;'
    seen = look(path, after=after, size="390,3000", widths=(320, 390, 768))
    assert is_sound(seen, ALL_PLOTS.removesuffix(" score-all"))
    assert seen["sideways"] == ""


@pytest.mark.nightly
def test_what_sticks_out_of_a_narrow_window_would_be_noticed(tmp_path: Path, look: Look) -> None:
    before = "addEventListener('load', () => { document.body.style.width = '400px'; });"
    seen = look(report(tmp_path / "out", recordings()), before=before, widths=(390, 768))
    assert seen["sideways"] == "390"


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
DRAWN = ("one row", "no loss at all", "many models", "nothing")
"""In a browser with each change; of the others their pages' HTML (tests/unit/test_report.py)."""


@pytest.mark.parametrize(
    "case",
    [case if case in DRAWN else pytest.param(case, marks=pytest.mark.nightly) for case in ODD],
)
def test_odd_runs_are_drawn_too(tmp_path: Path, look: Look, case: str) -> None:
    tables, plots = ODD[case]
    # Features of several files have one schema; here one file holds them all.
    joined = [pa.concat_tables(tables)] if tables else []
    assert is_sound(look(report(tmp_path / "out", *joined)), plots)


ODD_WINDOWS: dict[str, list[float | None]] = {
    "a few roundings": [1e-17, 0.3, 1e-9] * 15,
    "beyond single precision": [1e300] * 9,
    "huge": [3.3e20, 7e25] * 9,
    "in a narrow range": [0.0371, 0.0372, 0.0373],
    "no mismatch at all": [0.0] * 30,
    "nothing measured": [None] * 9,
    "one window": [0.1],
    "some of none": [0.1, 0.0] * 15,
    "tiny": [1e-12, 1.7e-12, 3e-12] * 9,
}


def odd_windows(timed: bool) -> pa.Table:
    """Windows of each model's values, the bounds 2 and 10 times as large."""
    lines = []
    for name, values in ODD_WINDOWS.items():
        for k, value in enumerate(values):
            line: dict[str, Any] = {"model_id": name, "index": 10 * k + 9, "mismatch": value}
            line["trace_bound"] = None if value is None else 2 * value
            line["fitting_bound"] = None if value is None else 10 * value
            line["start"] = START + k * SECOND if timed else None
            line["end"] = START + (k + 1) * SECOND if timed else None
            lines.append(line)
    return windows(*lines)


# Draws one model after the other, and notes of each whether a chart has its thick line.
EACH = """
  const each = async (chart) => {
    const found = [];
    for (const { value, textContent } of [...document.getElementById("model").options]) {
      choose("model", value, "change");
      await new Promise((resolve) => setTimeout(resolve, 0));
      const canvas = document.querySelector(`#${chart} canvas`);
      found.push(`${textContent}: ${canvas ? inked(chart, "average") > 0 : text(chart)}`);
    }
    note("each", found.join("\\n"));
  };
"""


@pytest.mark.parametrize("timed", lanes(True, False))
def test_odd_windows_are_drawn_too(tmp_path: Path, look: Look, timed: bool) -> None:
    time: dict[str, Any] = {"time": START + np.arange(400) * SECOND} if timed else {}
    models = [features(name, 400, **time) for name in ODD_WINDOWS]
    parts = {"mismatch": odd_windows(timed)}
    path = report(tmp_path / "out", pa.concat_tables(models), parts=parts)
    seen = look(path, after=EACH + 'each("mismatch-fixed");')
    assert is_sound(seen, "fates loss mismatch-fixed novelty")
    expected = dict.fromkeys(ODD_WINDOWS, "true")
    expected["nothing measured"] = "No window of this device was measured."
    assert dict(line.split(": ") for line in seen["data-each"].split("\n")) == expected


@pytest.mark.parametrize("task", lanes("classification", "regression"))
def test_odd_predictions_are_drawn_too(tmp_path: Path, look: Look, task: str) -> None:
    usual: list[Any] = ["a"] * 100 if task == "classification" else [1.0] * 100
    other: list[Any] = [f"long name {k}" if task == "classification" else 1e200 for k in range(100)]
    cases: dict[str, tuple[list[Any], list[Any]]] = {
        "all different": (other, other),
        "all wrong": (other, usual),
        "never wrong": (usual, usual),
        "no label": (usual, [None] * 100),
        "one row": (usual[:1], usual[:1]),
        "one scored": (usual, [None, *usual[:1], *[None] * 98]),
    }
    columns: dict[str, list[Any]] = {name: [] for name in ("model_id", "index")}
    columns |= {"prediction": [], "label": []}
    for name, (answers, labels) in cases.items():
        columns["model_id"] += [name] * len(labels)
        columns["index"] += range(len(labels))
        columns["prediction"] += answers
        columns["label"] += labels
    models = [features(name, 100) for name in [*cases, "unseen"]]
    parts = {"predictions": predictions(task, **columns)}
    path = report(tmp_path / "out", pa.concat_tables(models), parts=parts)
    seen = look(path, after=EACH + 'each("score");')
    assert is_sound(seen, "fates loss novelty score score-all")
    expected = dict.fromkeys(cases, "true")
    expected["no label"] = expected["unseen"] = "No row of this device has a label."
    assert dict(line.split(": ") for line in seen["data-each"].split("\n")) == expected


def test_parts_of_other_models_and_alerts_beyond_the_rows_are_no_error(
    tmp_path: Path, look: Look
) -> None:
    label = ["a"] * 90
    rows: dict[str, Any] = {"model_id": ["other"] * 90, "index": range(90)}
    rows |= {"prediction": label, "label": label}
    drifts = {"model_id": ["m"], "index": [10**6], "before": [0.0], "after": [1.0]}
    parts = {"predictions": predictions(**rows), "alerts": alerts(False, **drifts)}
    seen = look(report(tmp_path / "out", features("m", 90), parts=parts))
    assert is_sound(seen, "fates loss novelty score-all")


def test_parts_without_features_are_no_error(tmp_path: Path, look: Look) -> None:
    label = ["a"] * 90
    rows: dict[str, Any] = {"model_id": ["m"] * 90, "index": range(90)}
    rows |= {"prediction": label, "label": label}
    parts = {"mismatch": odd_windows(True), "predictions": predictions(**rows)}
    assert is_sound(look(report(tmp_path / "out", parts=parts)), "")


@pytest.mark.nightly
def test_a_blank_canvas_would_be_noticed(tmp_path: Path, look: Look) -> None:
    blank = "for (const f of ['stroke', 'fill']) CanvasRenderingContext2D.prototype[f] = () => {};"
    seen = look(report(tmp_path / "out", recordings()), before=blank)
    assert seen["data-plots-drawn"] == ""


@pytest.mark.nightly
def test_an_error_in_a_script_would_be_noticed(tmp_path: Path, look: Look) -> None:
    seen = look(report(tmp_path / "out", recordings()), after="throw new Error('made up');")
    assert "made up" in seen["console"]
    assert "made up" in seen["data-error"]


@pytest.mark.nightly
def test_a_fetch_would_be_refused(tmp_path: Path, look: Look) -> None:
    after = "fetch('http://localhost:9/').catch(() => {});"
    seen = look(report(tmp_path / "out", recordings()), after=after)
    assert "Content Security Policy" in seen["console"]
