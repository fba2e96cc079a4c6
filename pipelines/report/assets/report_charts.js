"use strict";

/* One chart: uPlot with the page's colours, shaded regimes, a readout, keys, and a look at the
   canvas afterwards, so that a chart that stayed blank is known (data-plots-drawn on body). */
(() => {
  const { element, color } = kerneltrack;
  const fills = ["#77aadd", "#ee8866", "#44bb99", "#eedd88", "#ffaabb", "#aaaa00", "#99ddff", "#bbcc33"];
  const rest = "#aaaaaa";
  const font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
  const second = 1e3;
  const minute = 60 * second;
  const day = 1440 * minute;
  const increments = [
    ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
    ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * second),
    ...[1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720].map((minutes) => minutes * minute),
    ...[1, 2, 3, 5, 10, 15, 30, 60, 90, 180, 365, 730, 1825, 3650, 9125].map((days) => days * day),
  ];
  const charts = new Map();
  const drawn = new Set();

  /* Labels beyond the eighth repeat the colours with hatching, beyond the sixteenth are grey. */
  const fillOf = (swatch) => (swatch < 2 * fills.length ? fills[swatch % fills.length] : rest);
  const isHatched = (swatch) => swatch >= fills.length && swatch < 2 * fills.length;

  const mixed = (hex) => {
    const shade = Number(color("shade"));
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${r}, ${g}, ${b}, ${shade})`;
  };

  const swatch = (number) => {
    const key = element("span", { class: "key", "aria-hidden": "true" });
    const tint = mixed(fillOf(number));
    key.style.background = isHatched(number)
      ? `repeating-linear-gradient(45deg, ${color("soft")} 0 1px, ${tint} 1px 4px)`
      : tint;
    return key;
  };

  const clock = (ms, incr) => {
    const text = kerneltrack.isoOf(ms);
    if (incr >= minute) return text.slice(11, 16);
    return incr >= second ? text.slice(11, 19) : text.slice(14, 23);
  };

  const date = (ms) => {
    const options = { day: "numeric", month: "short", year: "numeric", timeZone: kerneltrack.zone };
    return new Date(ms).toLocaleDateString("en-GB", options);
  };

  /* Ticks of a time axis: the clock, and below it the date where it changes. */
  const timeTicks = (u, splits, axis, space, incr) => {
    let before = "";
    return splits.map((ms) => {
      const today = date(ms);
      const isNew = today !== before;
      before = today;
      if (incr >= day) return today;
      return isNew ? `${clock(ms, incr)}\n${today}` : clock(ms, incr);
    });
  };

  const hatch = (ctx, left, top, width, height) => {
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    ctx.beginPath();
    for (let x = left - height; x < left + width; x += 7 * devicePixelRatio) {
      ctx.moveTo(x, top + height);
      ctx.lineTo(x + height, top);
    }
    ctx.globalAlpha = 0.25;
    ctx.strokeStyle = color("soft");
    ctx.stroke();
    ctx.restore();
  };

  /* Shades regimes behind the data and names those that are wide enough for their name. */
  const shade = (u, regimes) => {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    const size = 11 * ratio;
    ctx.save();
    ctx.font = `${size}px system-ui, -apple-system, sans-serif`;
    ctx.textBaseline = "top";
    for (const { name, number, start, end } of regimes) {
      const left = Math.max(bbox.left, u.valToPos(start, "x", true));
      const right = Math.min(bbox.left + bbox.width, u.valToPos(end, "x", true));
      if (right <= left) continue;
      ctx.fillStyle = mixed(fillOf(number));
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
      if (isHatched(number)) hatch(ctx, left, bbox.top, right - left, bbox.height);
      if (ctx.measureText(name).width + 8 * ratio <= right - left) {
        ctx.fillStyle = color("ink");
        ctx.fillText(name, left + 4 * ratio, bbox.top + 4 * ratio);
      }
    }
    ctx.restore();
  };

  /* Shades episodes, at least two pixels wide, with an edge on top and their names if there is room. */
  const shadeEpisodes = (u, episodes) => {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.font = `600 ${11 * ratio}px system-ui, -apple-system, sans-serif`;
    ctx.textBaseline = "bottom";
    for (const { name, start, end } of episodes) {
      const from = u.valToPos(start, "x", true);
      const left = Math.max(bbox.left, from);
      const right = Math.min(bbox.left + bbox.width, Math.max(u.valToPos(end, "x", true), from + 2 * ratio));
      if (right <= left) continue;
      ctx.fillStyle = color("episode");
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
      ctx.fillStyle = color("alert");
      ctx.fillRect(left, bbox.top, right - left, 3 * ratio);
      if (ctx.measureText(name).width + 8 * ratio <= right - left) ctx.fillText(name, left + 4 * ratio, bbox.top + bbox.height - 4 * ratio);
    }
    ctx.restore();
  };

  /* Hatches quiet times, with their reasons if there is room. */
  const hatchQuiet = (u, quiet) => {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.font = `${11 * ratio}px system-ui, -apple-system, sans-serif`;
    ctx.textBaseline = "top";
    ctx.fillStyle = color("soft");
    for (const { name, start, end } of quiet) {
      const left = Math.max(bbox.left, u.valToPos(start, "x", true));
      const right = Math.min(bbox.left + bbox.width, u.valToPos(end, "x", true));
      if (right <= left) continue;
      hatch(ctx, left, bbox.top, right - left, bbox.height);
      if (ctx.measureText(name).width + 8 * ratio <= right - left) ctx.fillText(name, left + 4 * ratio, bbox.top + 4 * ratio);
    }
    ctx.restore();
  };

  const guides = (u, levels) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.strokeStyle = color("soft");
    ctx.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath();
    for (const level of levels) {
      const y = u.valToPos(level, "y", true);
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
    }
    ctx.stroke();
    ctx.restore();
  };

  /* Dashed lines from top to bottom, over the data. */
  const lines = (u, marks) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.strokeStyle = color("alert");
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath();
    for (const at of marks) {
      const x = u.valToPos(at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
    }
    ctx.stroke();
    ctx.restore();
  };

  /* Counts the plot's pixels that have one of these colours, on a copy that is made to be read. */
  const inked = (u, names) => {
    const [left, top] = [u.bbox.left, u.bbox.top];
    const [width, height] = [Math.max(1, u.bbox.width), Math.max(1, u.bbox.height)];
    const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(u.ctx.canvas, -left, -top);
    const pixels = copy.getImageData(0, 0, width, height).data;
    const inks = names.map((name) => {
      copy.fillStyle = color(name);
      return [1, 3, 5].map((at) => parseInt(copy.fillStyle.slice(at, at + 2), 16));
    });
    let found = 0;
    for (let at = 0; at < pixels.length; at += 4) {
      const isNear = (ink) => ink.every((value, k) => Math.abs(value - pixels[at + k]) < 32);
      if (pixels[at + 3] >= 200 && inks.some(isNear)) found += 1;
    }
    return found;
  };

  /* Once a chart: did drawing the series add pixels of their colours to the shades and the grid? */
  const watch = (id, names) => {
    let before = 0;
    return {
      start: (u) => {
        if (!drawn.has(id)) before = inked(u, names);
      },
      end: (u) => {
        if (!drawn.has(id) && inked(u, names) > before) drawn.add(id);
        document.body.dataset.plotsDrawn = [...drawn].sort().join(" ");
      },
    };
  };

  const key = ({ ink, isArea, isDashed, isRings }) => {
    const style = isArea ? "key" : isRings ? "key ring" : `key line${isDashed ? " dashed" : ""}`;
    const made = element("span", { class: style, "aria-hidden": "true" });
    if (isArea) made.style.background = color(ink);
    else made.style.borderColor = color(ink);
    return made;
  };

  const readout = (spec, idx) => {
    const items = spec.series.filter((series) => series.name).reverse().map((series) => {
      const item = element("span", {}, key(series), series.name);
      if (idx !== null) item.append(" ", element("b", {}, spec.format(series.shown ?? series.values, idx)));
      return item;
    });
    if (spec.marks?.length) items.push(element("span", {}, key({ ink: "alert", isDashed: true }), spec.markName));
    if (idx !== null) items.unshift(element("b", {}, spec.where(idx)));
    document.getElementById(`${spec.id}-readout`).replaceChildren(...items);
  };

  const steer = (u, event) => {
    const width = u.over.clientWidth;
    const left = u.cursor.left >= 0 ? u.cursor.left : width / 2;
    const step = { ArrowLeft: -width / 100, ArrowRight: width / 100, Home: -left, End: width - left }[event.key];
    if (step !== undefined) {
      u.setCursor({ left: Math.min(width, Math.max(0, left + step)), top: u.over.clientHeight / 2 });
    } else if (event.key === "+" || event.key === "-") {
      const middle = u.posToVal(left, "x");
      const factor = event.key === "+" ? 0.5 : 2;
      const { min, max } = u.scales.x;
      u.setScale("x", { min: middle - (middle - min) * factor, max: middle + (max - middle) * factor });
    } else if (event.key === "Escape") {
      u.setData(u.data);
    } else return;
    event.preventDefault();
  };

  const seriesOf = ({ values, ink, width, isArea, isDashed, isHidden, isRings }) => {
    if (isRings) {
      const stroke = color(ink);
      return { stroke, width: 0, paths: () => null, points: { show: true, size: 9, width: 2, stroke, fill: color("paper") } };
    }
    return {
      stroke: isHidden ? "transparent" : color(ink),
      fill: isArea && !isHidden ? color(ink) : undefined,
      width: isHidden ? 0 : (width ?? 1.5),
      dash: isDashed ? [5, 4] : undefined,
      points: { show: !isHidden && !isArea && values.length <= 40, size: 5 },
    };
  };

  const axes = (spec) => {
    const common = {
      stroke: color("soft"), font, labelFont: font,
      grid: { stroke: color("faint"), width: 1 }, ticks: { stroke: color("faint"), width: 1, size: 5 },
    };
    const x = { ...common, label: spec.xLabel, labelSize: 22, size: spec.isTime ? 46 : 32 };
    x.space = (u, index, min, max) => (spec.isTime && max - min > 3 * day ? 90 : 72);
    if (spec.isTime) Object.assign(x, { values: timeTicks, incrs: increments });
    else x.values = (u, splits) => splits.map((value) => (value === null ? "" : value.toLocaleString("en")));
    const room = (u, values) => Math.max(52, 12 + 7 * Math.max(0, ...(values ?? []).map((text) => String(text ?? "").length)));
    const y = { ...common, label: spec.yLabel, labelSize: 22, size: room };
    if (spec.isLog) y.grid = { ...common.grid, filter: (u, splits) => splits.map((value) => (Number.isInteger(Math.log10(value)) ? value : null)) };
    if (spec.yTicks) y.values = (u, splits) => splits.map(spec.yTicks);
    return [x, y];
  };

  /* The whole of the data is shown with the extent of the model's rows around it. */
  const xRange = (extent) => (u, min, max) => {
    if (min === null) return extent ?? [0, 1];
    const places = u.data[0];
    if (extent && min === places[0] && max === places[places.length - 1]) {
      [min, max] = [Math.min(min, extent[0]), Math.max(max, extent[1])];
    }
    return max > min ? [min, max] : [min - 0.5, max + 0.5];
  };

  /* Draws (or draws anew) the chart `spec.id`. */
  const chart = (spec) => {
    const root = document.getElementById(spec.id);
    charts.get(spec.id)?.destroy();
    root.replaceChildren();
    root.classList.remove("bare");
    root.setAttribute("role", "img");
    root.setAttribute("tabindex", "0");
    root.setAttribute("aria-label", `${spec.name} Arrow keys read values, plus and minus zoom, Escape resets.`);
    const drawing = watch(spec.id, spec.series.filter((series) => !series.isHidden).map((series) => series.ink));
    const u = new uPlot(
      {
        width: root.clientWidth, height: root.clientHeight, ms: 1, legend: { show: false },
        tzDate: (ms) => uPlot.tzDate(new Date(ms), kerneltrack.zone === "UTC" ? "Etc/UTC" : kerneltrack.zone),
        padding: [8, 12, 0, 0],
        scales: { x: { time: spec.isTime, range: xRange(spec.extent) }, y: { distr: spec.isLog ? 3 : 1, range: spec.yRange } },
        series: [{}, ...spec.series.map(seriesOf)],
        bands: spec.bands?.map(({ series, ink }) => ({ series, fill: color(ink) })),
        axes: axes(spec),
        cursor: { sync: { key: "kerneltrack", scales: ["x", null] }, y: false, points: { size: 6 }, drag: { x: true, y: false } },
        hooks: {
          drawClear: [(plot) => shade(plot, spec.regimes ?? []), (plot) => hatchQuiet(plot, spec.quiet ?? []), (plot) => shadeEpisodes(plot, spec.episodes ?? [])],
          drawAxes: [(plot) => guides(plot, spec.guides ?? []), drawing.start],
          draw: [drawing.end, (plot) => lines(plot, spec.marks ?? [])],
          setCursor: [(plot) => readout(spec, plot.cursor.idx ?? null)],
        },
      },
      [spec.x, ...spec.series.map((series) => series.values)],
      root,
    );
    readout(spec, null);
    charts.set(spec.id, u);
  };

  /* Replaces a chart by a sentence, for data that nothing can be drawn of. */
  const bare = (id, text) => {
    charts.get(id)?.destroy();
    charts.delete(id);
    const root = document.getElementById(id);
    root.classList.add("bare");
    for (const name of ["role", "tabindex", "aria-label"]) root.removeAttribute(name);
    document.getElementById(`${id}-readout`).replaceChildren();
    root.replaceChildren(text);
  };

  for (const root of document.querySelectorAll(".chart")) {
    root.addEventListener("keydown", (event) => charts.has(root.id) && steer(charts.get(root.id), event));
    root.addEventListener("focus", () => document.getElementById(`${root.id}-readout`).setAttribute("aria-live", "polite"));
    root.addEventListener("blur", () => document.getElementById(`${root.id}-readout`).removeAttribute("aria-live"));
    new ResizeObserver(() => {
      const u = charts.get(root.id);
      if (u && root.clientWidth && (root.clientWidth !== u.width || root.clientHeight !== u.height)) {
        u.setSize({ width: root.clientWidth, height: root.clientHeight });
      }
    }).observe(root);
  }

  Object.assign(kerneltrack, { chart, bare, swatch, fillOf });
})();
