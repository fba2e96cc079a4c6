"use strict";

/* A sample of the chosen model's features on the two coordinates that vary most. */
(() => {
  const { data, floatsOf, count, percent, figure, element, color, fillOf, sections } = kerneltrack;
  const section = document.getElementById("plane-section");
  if (!section) return;
  const svg = document.getElementById("plane");
  const most = 8;
  const frame = { left: 84, top: 8, width: 552, height: 364 };

  const drawing = (name, attributes, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  /* Where values go between two ends, with room at both. */
  const scale = (values, from, to) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const room = 0.04 * (high - low || 1);
    return { low, high, at: (value) => from + ((value - low + room) / (high - low + 2 * room)) * (to - from) };
  };

  /* The colour and the name of each point: by label where there are labels, else by episode. */
  const inks = (plane) => {
    const within = new Set(plane.within);
    if (plane.label) {
      return plane.label.map((label, k) => {
        const swatch = label < 0 ? most : data.swatches[label];
        const known = swatch < most;
        return { ink: known ? fillOf(swatch) : color("censored"), name: label < 0 ? "no label" : known ? data.labels[label] : "other labels", order: Math.min(swatch, most), within: within.has(k) };
      });
    }
    return plane.row.map((_, k) => (within.has(k) ? { ink: color("alert"), name: "within an episode", order: 1, within: false } : { ink: color("mean"), name: "other rows", order: 0, within: false }));
  };

  const draw = (model, plane) => {
    const { x, y } = floatsOf({ x: plane.x, y: plane.y });
    const right = scale(x, frame.left, frame.left + frame.width);
    const up = scale(y, frame.top + frame.height, frame.top);
    const points = inks(plane);
    const order = x.map((_, k) => k).sort((a, b) => Number(points[a].within) - Number(points[b].within) || points[a].order - points[b].order || a - b);
    const name = (axis) => `${plane.name}[${plane.axes[axis]}], ${percent(plane.shares[axis])} of the variance`;
    const bottom = frame.top + frame.height;
    svg.replaceChildren(
      drawing("rect", { class: "frame", x: frame.left, y: frame.top, width: frame.width, height: frame.height, rx: 4 }),
      ...order.map((k) =>
        drawing("circle", { class: points[k].within ? "dot within" : "dot", cx: right.at(x[k]).toFixed(1), cy: up.at(y[k]).toFixed(1), r: 4, fill: points[k].ink },
          drawing("title", {}, `row ${count(plane.row[k])} · ${points[k].name}${points[k].within ? " · within an episode" : ""}`))),
      drawing("text", { x: right.at(right.low), y: bottom + 18, "text-anchor": "start" }, figure(right.low)),
      drawing("text", { x: right.at(right.high), y: bottom + 18, "text-anchor": "end" }, figure(right.high)),
      drawing("text", { x: frame.left + frame.width / 2, y: bottom + 40, "text-anchor": "middle" }, name(0)),
      drawing("text", { x: frame.left - 6, y: up.at(up.low) + 4, "text-anchor": "end" }, figure(up.low)),
      drawing("text", { x: frame.left - 6, y: up.at(up.high) + 4, "text-anchor": "end" }, figure(up.high)),
      drawing("text", { x: 0, y: 0, "text-anchor": "middle", transform: `translate(16 ${frame.top + frame.height / 2}) rotate(-90)` }, name(1)),
    );
    svg.setAttribute("aria-label", `${count(x.length)} rows of ${data.curves[model].id} on two coordinates of their features, coloured by ${plane.label ? "label" : "episode"}.`);
    const names = new Map(points.map((point) => [point.name, point]));
    const keys = [...names.values()].sort((a, b) => a.order - b.order).map(({ name: text, ink }) => {
      const key = element("span", { class: "key", "aria-hidden": "true" });
      key.style.background = ink;
      return element("li", { title: text }, key, text);
    });
    if (points.some(({ within }) => within)) {
      const key = element("span", { class: "key ring", "aria-hidden": "true" });
      key.style.borderColor = color("alert");
      keys.push(element("li", {}, key, "within an episode"));
    }
    document.getElementById("plane-legend").replaceChildren(...keys);
    const total = data.curves[model].rows;
    document.getElementById("plane-note").textContent =
      `${x.length < total ? `${count(x.length)} of the device’s ${count(total)} rows` : "All rows of the device"}, on the two coordinates of their features that vary most. Rows that lie together look alike to the model.`;
  };

  sections.push((model) => {
    const plane = data.planes[model];
    section.hidden = !plane;
    if (plane) draw(model, plane);
  });
})();
