"use strict";

/* Which model the curves show, and along which axis. */
(() => {
  const { data, isHere, load, floatsOf, count, figure, percent, element, chart, bare, swatch, sections } = kerneltrack;
  const curves = data.curves;
  const select = document.getElementById("model");
  const find = document.getElementById("find");
  const found = document.getElementById("found");
  const findFrom = 12;
  const finest = 0.1;
  const unpacked = new Map();
  let current = data.first ?? curves.reduce((best, curve, k) => (curve.rows > curves[best].rows ? k : best), 0);
  let wanted = null;

  const unpack = (index) => {
    if (!unpacked.has(index)) {
      unpacked.set(index, { loss: floatsOf(curves[index].loss), rates: floatsOf(curves[index].rates) });
    }
    return unpacked.get(index);
  };

  const hasTime = (curve) => curve.start !== null;

  /* By time, unless there is none or it is mostly silence; the buttons overrule. */
  const axisOf = (curve) => {
    if (!hasTime(curve)) return "row";
    return wanted ?? (curve.covered < 0.5 ? "row" : "time");
  };

  /* Positions along an axis, its name, and how one is put into words. `times` is the extent that
     the unit is chosen by: that of all charts of a model. Places without a time lie outside of an
     axis of time: `pick` leaves out their values. */
  const along = (by, start, parts, times) => {
    if (by === "row" || !parts.time) {
      return { x: parts.row, isTime: false, xLabel: "row of the device", words: (x) => `row ${count(Math.round(x))}`, place: ([row]) => row, pick: (values) => values };
    }
    const known = times.filter((t) => t !== null);
    const span = known.length ? known[known.length - 1] - known[0] : 0;
    const kept = parts.time.map((t, k) => k).filter((k) => parts.time[k] !== null);
    const pick = (values) => (kept.length === values.length ? values : kept.map((k) => values[k]));
    if (span < finest) {
      const fine = ([, t]) => 1e6 * t;
      return { x: pick(parts.time).map((t) => fine([null, t])), isTime: false, xLabel: "time since the first row (µs)", words: (x) => `${figure(x)} µs`, place: fine, pick };
    }
    const ms = ([, t]) => start + 1e3 * t;
    const from = span < 86400 ? 11 : 0;
    const words = (x) => kerneltrack.isoOf(x).slice(from, 22).replace("T", " ");
    return { x: pick(parts.time).map((t) => ms([null, t])), isTime: true, xLabel: `time (${kerneltrack.zone})`, words, place: ms, pick };
  };

  const picked = (axis, series) =>
    series.map(({ values, shown, ...others }) => ({ ...others, values: axis.pick(values), shown: shown && axis.pick(shown) }));

  const axisFor = (curve, parts) => along(axisOf(curve), curve.start, parts, unpack(current).loss.time ?? []);

  const regimesOf = (curve, axis) =>
    (curve.regimes ?? []).map((regime) => {
      const [label, first, stop, start, end] = regime;
      return { name: data.labels[label], number: data.swatches[label], start: axis.place([first, start]), end: axis.place([stop, end]) };
    });

  const labelAt = (regimes, x) => regimes.find(({ start, end }) => start <= x && x <= end)?.name;

  /* A single bin is a line across the model's extent: a point alone can't fill an area. */
  const widened = (axis, series, extent) => {
    if (axis.x.length !== 1) return [axis.x, series];
    const [from, to] = extent[1] > extent[0] ? extent : [axis.x[0] - 0.5, axis.x[0] + 0.5];
    const twice = ({ values, shown, ...others }) => ({ ...others, values: [values[0], values[0]], shown: shown && [shown[0], shown[0]] });
    return [[from, to], series.map(twice)];
  };

  /* Draws a chart of the chosen model; `aside` may add to the words on a place. */
  const draw = (id, curve, axis, series, { aside, ...more }) => {
    const whole = axisFor(curve, unpack(current).loss).x;
    const extent = [whole[0], whole[whole.length - 1]];
    const [x, wide] = widened(axis, picked(axis, series), extent);
    const regimes = regimesOf(curve, axis);
    const where = (idx) => {
      const label = labelAt(regimes, x[idx]);
      return axis.words(x[idx]) + (label === undefined ? "" : ` · ${label}`) + (aside?.(x, idx) ?? "");
    };
    const [episodes, quiet] = [episodesOf(axis), quietOf(axis)];
    chart({ id, x, series: wide, isTime: axis.isTime, xLabel: axis.xLabel, where, extent, episodes, quiet, ...more });
  };

  /* Drift alerts of the model: where they stand, and words for those nearest to a place. */
  const alertsOf = (axis) => {
    const marks = (data.alerts?.marks[current] ?? []).map(([row, time, before, after]) => ({ at: axis.place([row, time]), before, after }));
    const aside = (x, idx) => {
      const from = idx > 0 ? (x[idx - 1] + x[idx]) / 2 : -Infinity;
      const to = idx < x.length - 1 ? (x[idx] + x[idx + 1]) / 2 : Infinity;
      const near = marks.filter(({ at }) => from <= at && at < to);
      return near.map(({ before, after }) => ` · alert: mean error ${figure(before)} → ${figure(after)}`).join("");
    };
    return { marks: marks.map(({ at }) => at), markName: "drift alert", aside };
  };

  /* Episodes of the model, from where to where, and what they are called. */
  const episodesOf = (axis) =>
    (data.episodes?.[current] ?? []).map(([kind, state, first, stop, start, end]) => ({
      name: state === "closed" ? kind : `${kind} (${state})`, start: axis.place([first, start]), end: axis.place([stop, end]),
    }));

  /* Quiet times of the model, which only a time axis can show. */
  const quietOf = (axis) =>
    (axis.isTime ? data.quiet?.[current] ?? [] : []).map(([start, end, why]) => ({
      name: why || "quiet", start: axis.place([null, start]), end: axis.place([null, end]),
    }));

  const drawSurprise = (curve, { loss }) => {
    if (!document.getElementById("surprise")) return;
    if (!loss.odd?.some((value) => value !== null)) {
      bare("surprise", "This device has no complete reference.");
      return;
    }
    draw("surprise", curve, axisFor(curve, loss), [
      { values: loss.odd, ink: "range", isArea: true, width: 0, name: "oddest row of the bin" },
      { values: loss.surprise, ink: "average", width: 2, name: "mean of the bin" },
    ], {
      name: `Surprise of the rows of ${curve.id}, and its episodes.`, format: (values, idx) => figure(values[idx]),
      yLabel: "−log₁₀ p", yRange: (u, min, max) => [0, Math.max(1.05 * (max ?? 0), 5)], guides: [2],
    });
  };

  const drawLoss = (curve, { loss }) => {
    const axis = axisFor(curve, loss);
    const name = `Fitting error of ${curve.id} over ${axis.isTime ? "time" : "its rows"}: mean ${figure(curve.mean)} over ${count(curve.rows)} rows.`;
    const series = [
      { values: loss.high, ink: "range", isHidden: true, isArea: true, name: "range of the rows", shown: loss.low.map((low, k) => [low, loss.high[k]]) },
      { values: loss.low, ink: "range", isHidden: true },
      { values: loss.mean, ink: "mean", width: 1, name: "mean of the bin" },
      { values: loss.average, ink: "average", width: 2, name: "mean of the last 200 rows" },
    ];
    const format = (values, idx) => {
      const value = values[idx];
      return Array.isArray(value) ? `${figure(value[0])} to ${figure(value[1])}` : figure(value);
    };
    draw("loss", curve, axis, series, {
      name, format, regimes: regimesOf(curve, axis), bands: [{ series: [1, 2], ink: "range" }],
      yLabel: "fitting error ‖φ(x) − Lq‖²", yRange: (u, min, max) => [0, max > 0 ? 1.1 * max : 1],
      ...alertsOf(axis),
    });
  };

  const drawTarget = (curve, { loss }) => {
    document.getElementById("target-section").hidden = !loss.target;
    if (!loss.target) return;
    const axis = axisFor(curve, loss);
    draw("target", curve, axis, [{ values: loss.target, ink: "average", name: "label" }], {
      name: `Label of ${curve.id}.`, yLabel: "label", format: (values, idx) => figure(values[idx]),
      yRange: (u, min, max) => (min === null ? [0, 1] : uPlot.rangeNum(min, max, 0.1, true)),
    });
  };

  const ticks = (value) => (value === null ? "" : `${Math.round(100 * value)} %`);
  const share = (values, idx) => percent(values[idx]);
  const whole = () => [0, 1];

  const drawNovelty = (curve, { rates }) => {
    const series = [
      { values: rates.novel, ink: "second", isDashed: true, name: "rows at 0.95 or above" },
      { values: rates.novelty, ink: "average", width: 2, name: "mean novelty" },
    ];
    draw("novelty", curve, axisFor(curve, rates), series, {
      name: `Novelty of ${curve.id}: mean, and share of rows at 0.95 or above.`, format: share,
      yLabel: "novelty · share", yTicks: ticks, yRange: whole, guides: [0.05, 0.5],
    });
  };

  /* Shares on top of each other, the last to the ceiling; each area covers the lower end of those
     before it, so the tallest is drawn first. */
  const drawFates = (curve, { rates }) => {
    const add = (a, b) => a.map((value, k) => (value === null || b[k] === null ? null : value + b[k]));
    const kept = rates.censored.map((value, k) => (value === null ? null : Math.max(0, 1 - value - rates.replaced[k] - rates.dropped[k])));
    const parts = [
      { name: "replaced a stored row", shown: rates.replaced, ink: "replaced" },
      { name: "dropped at once", shown: rates.dropped, ink: "dropped" },
      { name: "stored, budget not full", shown: kept, ink: "kept" },
      { name: "skipped: fits already", shown: rates.censored, ink: "censored" },
    ];
    let sum = null;
    for (const part of parts) {
      sum = sum === null ? part.shown : add(sum, part.shown);
      Object.assign(part, { values: sum, isArea: true, width: 0 });
    }
    const admitted = rates.censored.map((value) => (value === null ? null : 1 - value));
    const lines = [{ values: admitted, ink: "average", width: 1.5, name: "entered" }];
    if (data.admission !== null) {
      lines.push({ values: admitted.map(() => data.admission), ink: "second", isDashed: true, name: "target" });
    }
    draw("fates", curve, axisFor(curve, rates), [...parts.reverse(), ...lines], {
      name: `Rows of ${curve.id} that enter the model: shares skipped, stored, replacing another, dropped at once.`,
      format: share, yLabel: "share of the rows", yTicks: ticks, yRange: whole,
    });
  };

  const legend = (curve) => {
    const present = [...new Set((curve.regimes ?? []).map(([label]) => label))];
    present.sort((a, b) => data.swatches[a] - data.swatches[b]);
    const items = present.map((label) => element("li", { title: data.labels[label] }, swatch(data.swatches[label]), data.labels[label]));
    document.getElementById("labels").replaceChildren(...items);
  };

  const notes = (curve) => {
    const sentences = [];
    if (curve.labelChanges && curve.regimes === null) sentences.push(`The label changes ${count(curve.labelChanges)} times, too often to shade.`);
    if (curve.gaps) sentences.push(`Nothing was recorded for longer spells ${count(curve.gaps)} ${curve.gaps === 1 ? "time" : "times"}: lines break there.`);
    if (curve.outside) sentences.push(`Rows ${curve.outside} lie outside the time axis; choose Rows to see them.`);
    if (data.timed && !hasTime(curve)) sentences.push("The times do not order this device’s rows, so the axis counts rows.");
    if (curve.mean === null) sentences.push("The model starts from all rows of this device, which count in no mean.");
    const alerts = data.alerts?.counts[current] ?? 0;
    const marked = data.alerts?.marks[current]?.length ?? 0;
    const episodes = data.episodes?.[current].length ?? 0;
    if (episodes) sentences.push(`${count(episodes)} ${episodes === 1 ? "episode" : "episodes"}, shaded.`);
    const quiet = data.quiet?.[current].length ?? 0;
    if (quiet) sentences.push(`${count(quiet)} quiet ${quiet === 1 ? "time" : "times"}, hatched: rows there are not compared with the reference.`);
    if (alerts) sentences.push(`${count(alerts)} drift ${alerts === 1 ? "alert" : "alerts"}${marked < alerts ? `, the first ${count(marked)} marked` : ""}.`);
    document.getElementById("loss-note").textContent = sentences.join(" ");
    document.getElementById("chosen").textContent = `${count(curve.rows)} ${curve.rows === 1 ? "row" : "rows"} · mean error ${figure(curve.mean)}`;
  };

  const controls = (curve) => {
    for (const radio of document.querySelectorAll("#axis input")) {
      radio.checked = radio.value === axisOf(curve);
      radio.disabled = !hasTime(curve);
    }
    select.value = String(current);
    const options = [...select.options].map((option) => Number(option.value));
    const at = options.indexOf(current);
    document.getElementById("previous").disabled = at <= 0;
    document.getElementById("next").disabled = at < 0 || at >= options.length - 1;
  };

  const fetchThenShow = (index) => {
    document.getElementById("chosen").textContent = "loading";
    load(index).then(
      () => index === current && show(),
      () => {
        document.getElementById("chosen").textContent = "";
        tell(`${curves[index].id} is in the folder report_devices, which has to lie next to this page.`);
      },
    );
  };

  const show = () => {
    const curve = curves[current];
    if (!isHere(current)) {
      fetchThenShow(current);
      return;
    }
    const parts = unpack(current);
    controls(curve);
    legend(curve);
    notes(curve);
    drawSurprise(curve, parts);
    drawLoss(curve, parts);
    drawTarget(curve, parts);
    drawNovelty(curve, parts);
    drawFates(curve, parts);
    for (const section of sections) section(current, axes);
    document.body.dataset.model = curve.id;
    document.getElementById("printed").textContent = `Curves of ${curve.id}`;
    document.dispatchEvent(new CustomEvent("modelchange", { detail: current }));
  };

  const choose = (index) => {
    current = index;
    tell("");
    if (![...select.options].some((option) => Number(option.value) === index)) {
      find.value = "";
      list("");
    }
    history.replaceState(null, "", `#model=${encodeURIComponent(curves[index].id)}`);
    show();
  };

  /* The model that the page's address names, `#model=ID`; undefined if it names none. */
  const addressed = () => {
    const [, name] = location.hash.match(/^#model=(.+)$/) ?? [];
    try {
      return name === undefined ? undefined : decodeURIComponent(name);
    } catch {
      return undefined;
    }
  };

  const goToAddressed = () => {
    const name = addressed();
    if (name === undefined) return;
    const index = curves.findIndex(({ id }) => id === name);
    if (index < 0) {
      tell(`${name}: ${inTable((id) => id === name) ? "not on this page: kerneltrack report DIR --device draws it" : notHere()}`);
    } else if (index !== current) choose(index);
    document.getElementById("drawn").scrollIntoView();
  };

  const tell = (text) => {
    found.textContent = text;
    found.hidden = !text;
  };

  /* How many models of the table, which has some that are not drawn, are meant. */
  const inTable = (meant) => data.table.id.filter(meant).length;

  const notHere = () => {
    const known = new Set([...data.table.id, ...curves.map(({ id }) => id)]).size;
    return known < data.models ? `not among the ${count(known)} of ${count(data.models)} devices that can be opened or are in the table` : "no such device";
  };

  /* Say what a search found, and what it does not reach: a page of many models draws some only. */
  const tellFound = (options) => {
    const text = find.value.trim().toLowerCase();
    if (!text) {
      tell(curves.length < data.models ? `${count(curves.length)} of ${count(data.models)} devices can be opened; for another, kerneltrack report DIR --device NAME` : "");
    } else if (options.length) {
      tell(`${count(options.length)} of ${count(curves.length)}${curves.length < data.models ? " that can be opened" : ""}`);
    } else {
      const rows = inTable((id) => id.toLowerCase().includes(text));
      tell(rows ? `cannot be opened; ${count(rows)} in the table of devices` : notHere());
    }
  };

  const list = (text) => {
    const wantedText = text.trim().toLowerCase();
    const options = curves.map((curve, k) => [curve.id, k]).filter(([id]) => id.toLowerCase().includes(wantedText));
    options.sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
    select.replaceChildren(...options.map(([id, k]) => element("option", { value: k }, id)));
    tellFound(options);
    return options;
  };

  const step = (by) => {
    const options = [...select.options].map((option) => Number(option.value));
    const next = options[options.indexOf(current) + by];
    if (next !== undefined) choose(next);
  };

  for (const name of document.querySelectorAll("[data-draw]")) {
    const button = element("button", { type: "button", title: "Open this device" }, name.textContent);
    button.addEventListener("click", () => {
      choose(Number(name.dataset.draw));
      document.getElementById("drawn").scrollIntoView();
    });
    name.replaceWith(button);
  }

  /* What other scripts draw with: `along` and `axisFor` give axes, `wanted` the reader's choice. */
  const axes = { along, axisFor, axisOf, draw, picked, wanted: () => wanted };
  Object.assign(kerneltrack, { select: choose, current: () => (curves.length ? current : -1) });

  if (!curves.length) {
    for (const id of ["surprise", "loss", "novelty", "fates"].filter((name) => document.getElementById(name))) bare(id, "There are no rows to draw.");
    for (const section of sections) section(-1, axes);
    document.getElementById("toolbar").hidden = true;
    document.body.dataset.plotsDrawn = "";
    return;
  }
  list("");
  document.getElementById("find-box").hidden = curves.length <= findFrom;
  document.getElementById("axis").hidden = !data.timed;
  find.addEventListener("input", () => {
    const options = list(find.value);
    if (options.length && !options.some(([, k]) => k === current)) choose(options[0][1]);
    else controls(curves[current]);
  });
  select.addEventListener("change", () => choose(Number(select.value)));
  document.getElementById("toolbar").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("previous").addEventListener("click", () => step(-1));
  document.getElementById("next").addEventListener("click", () => step(1));
  document.getElementById("axis").addEventListener("change", (event) => {
    wanted = event.target.value;
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  addEventListener("beforeprint", () => {
    document.documentElement.dataset.theme = "light";
    show();
  });
  addEventListener("afterprint", () => {
    delete document.documentElement.dataset.theme;
    show();
  });
  addEventListener("hashchange", goToAddressed);
  show();
  goToAddressed();
})();
