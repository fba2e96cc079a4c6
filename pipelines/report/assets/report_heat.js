"use strict";

/* The fleet over time: a line a model, darker where its rows were odder, underlined in episodes.
   The first lines, of models that stand out, have room for their names. */
(() => {
  const { data, bytes, figure, count, element, color } = kerneltrack;
  const heat = data.heat;
  if (!heat) return;
  const cells = bytes(heat.cells);
  const nothing = 255;
  const full = 12;
  const tall = 17;
  const mostNamed = 30;
  const root = document.getElementById("heat");
  const canvas = element("canvas");
  const words = document.getElementById("heat-readout");
  const drawn = new Map(data.curves.map((curve, k) => [curve.id, k]));
  const models = heat.models.length;
  let at = null;
  let current = "";

  const named = models <= mostNamed ? models : Math.min(heat.odd, mostNamed);
  const low = Math.min(tall, Math.max(2, Math.floor(360 / Math.max(1, models - named))));
  const heights = heat.models.map((name, row) => (row < named ? tall : low));
  const tops = heights.reduce((sums, height) => [...sums, sums[sums.length - 1] + height], [0]);
  const whole = tops[models];
  const gutter = () => (named ? Math.min(130, root.clientWidth * 0.3) : 0);
  const heatOf = (row, bin) => cells[row * heat.bins + bin];

  const rgb = (name) => {
    const context = new OffscreenCanvas(1, 1).getContext("2d");
    context.fillStyle = color(name);
    context.fillRect(0, 0, 1, 1);
    return context.getImageData(0, 0, 1, 1).data;
  };

  /* The cells as an image of one pixel each: from the paper's colour to the alert's. */
  const image = () => {
    const [from, to, none] = [rgb("wash"), rgb("alert"), rgb("paper")];
    const made = new ImageData(heat.bins, models);
    cells.forEach((step, cell) => {
      const part = Math.min(1, step / (heat.steps * full)) ** 1.4;
      for (let k = 0; k < 3; k += 1) {
        made.data[4 * cell + k] = step === nothing ? none[k] : from[k] + part * (to[k] - from[k]);
      }
      made.data[4 * cell + 3] = step === nothing ? 0 : 255;
    });
    const copy = new OffscreenCanvas(heat.bins, models);
    copy.getContext("2d").putImageData(made, 0, 0);
    return copy;
  };

  const fitted = (ctx, name, room) => {
    if (ctx.measureText(name).width <= room) return name;
    let short = name;
    while (short.length > 1 && ctx.measureText(`${short}…`).width > room) short = short.slice(0, -1);
    return `${short}…`;
  };

  const ends = document.getElementById("heat-ends");

  const draw = () => {
    ends.style.marginLeft = `${gutter()}px`;
    const ratio = devicePixelRatio;
    const [left, width] = [gutter(), root.clientWidth];
    canvas.width = width * ratio;
    canvas.height = whole * ratio;
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    ctx.imageSmoothingEnabled = false;
    const source = image();
    const unit = (width - left) / heat.bins;
    heat.models.forEach((name, row) => {
      const [height, bottom] = [heights[row], tops[row + 1]];
      const gap = height > 4 ? 1 : 0;
      const edge = height > 6 ? 2 : 1;
      ctx.fillStyle = color("censored");
      for (const [from, to] of heat.quiet[row] ?? []) {
        ctx.fillRect(left + from * (width - left), tops[row], (to - from) * (width - left), height - gap);
      }
      ctx.drawImage(source, 0, row, heat.bins, 1, left, tops[row], width - left, height - gap);
      ctx.fillStyle = color("ink");
      for (const [from, to] of heat.episodes[row]) {
        const place = left + from * unit * heat.bins;
        ctx.fillRect(place, bottom - gap - edge, Math.max(2, (to - from) * unit * heat.bins), edge);
      }
      if (row >= named) return;
      ctx.font = `${name === current ? 650 : 400} 12px system-ui, -apple-system, sans-serif`;
      ctx.textBaseline = "middle";
      ctx.fillText(fitted(ctx, name, left - 8), 0, tops[row] + height / 2);
    });
    if (at) {
      ctx.strokeStyle = color("ink");
      ctx.strokeRect(left + at.bin * unit, tops[at.row], Math.max(unit, 3), heights[at.row]);
    }
    document.body.dataset.heatDrawn = String(models);
  };

  const when = (bin) => {
    const place = heat.first + (bin / heat.bins) * (heat.last - heat.first);
    if (!heat.timed) return `row ${count(Math.round(place))}`;
    return kerneltrack.isoOf(place).slice(0, heat.last - heat.first < 36e5 ? 19 : 16).replace("T", " ");
  };

  const say = () => {
    if (!at) {
      words.replaceChildren("Point at a cell for its device, time and surprise. A click opens the device below.");
      return;
    }
    const step = heatOf(at.row, at.bin);
    const value = step === nothing ? "no row that was compared with a reference" : `−log₁₀ p up to ${figure(step / heat.steps)}`;
    words.replaceChildren(element("b", {}, heat.models[at.row]), ` ${when(at.bin)} `, value);
  };

  const point = (next) => {
    at = next;
    draw();
    say();
  };

  const placeOf = (event) => {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - gutter(), event.clientY - box.top];
    const bin = Math.floor((x / (box.width - gutter())) * heat.bins);
    return {
      row: Math.max(0, Math.min(models, tops.findLastIndex((top) => top <= y)) - (y >= whole)),
      bin: Math.min(heat.bins - 1, Math.max(0, bin)),
    };
  };

  const open = () => {
    const index = at ? drawn.get(heat.models[at.row]) : undefined;
    if (index === undefined) return;
    kerneltrack.select(index);
    document.getElementById("drawn").scrollIntoView();
  };

  const steer = (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.key === "Enter") open();
    else if (event.key === "Escape") point(null);
    else if (step) {
      const from = at ?? { row: 0, bin: 0 };
      point({
        row: Math.min(models - 1, Math.max(0, from.row + step[0])),
        bin: Math.min(heat.bins - 1, Math.max(0, from.bin + step[1])),
      });
    } else return;
    event.preventDefault();
  };

  canvas.style.height = `${whole}px`;
  root.append(canvas);
  ends.replaceChildren(...[0, 0.5, 1].map((part) => element("span", {}, when(part * heat.bins))));
  canvas.addEventListener("mousemove", (event) => point(placeOf(event)));
  canvas.addEventListener("mouseleave", () => point(null));
  canvas.addEventListener("click", (event) => {
    point(placeOf(event));
    open();
  });
  root.addEventListener("keydown", steer);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("beforeprint", draw);
  addEventListener("afterprint", draw);
  document.addEventListener("modelchange", (event) => {
    current = data.curves[event.detail]?.id ?? "";
    draw();
  });
  new ResizeObserver(draw).observe(root);
  current = data.curves[kerneltrack.current()]?.id ?? "";
  say();
})();
