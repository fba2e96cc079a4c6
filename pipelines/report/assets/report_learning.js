"use strict";

/* Accuracy or error of the predictions as the rows came: of the chosen model, and of all. */
(() => {
  const { data, floatsOf, figure, percent, chart, bare, sections } = kerneltrack;
  const learning = data.learning;
  if (!learning) return;
  const { classifies } = learning;
  const [before, constant] = learning.references;
  const what = classifies ? "accuracy" : "root mean squared error";
  const unpacked = new Map();

  const valuesOf = (curve) => {
    if (!unpacked.has(curve)) unpacked.set(curve, floatsOf(curve.values));
    return unpacked.get(curve);
  };

  const seriesOf = (values) => [
    { values: values.constant, ink: "third", isDashed: true, name: constant },
    ...(before === null ? [] : [{ values: values.before, ink: "second", isDashed: true, name: before }]),
    { values: values.block, ink: "mean", width: 1, name: "the bin’s rows" },
    { values: values.learner, ink: "average", width: 2, name: "all rows so far" },
  ];

  const more = (name) => ({
    name,
    format: (values, idx) => (classifies ? percent(values[idx]) : figure(values[idx])),
    yLabel: what,
    yTicks: classifies ? (value) => (value === null ? "" : `${Math.round(100 * value)} %`) : undefined,
    yRange: (u, min, max) => (classifies ? [0, 1] : [0, max > 0 ? 1.1 * max : 1]),
  });

  const drawModel = (model, axes) => {
    const found = learning.curves[model];
    const note = document.getElementById("score-note");
    note.textContent = found?.note ?? "";
    for (const table of document.querySelectorAll(".confusion-of")) table.hidden = Number(table.dataset.curve) !== model;
    if (!found) {
      bare("score", model >= learning.curves.length ? `Predictions are drawn for ${learning.curves.length} devices only: kerneltrack report DIR --device NAME draws those of another.` : "No row of this device has a label.");
      return;
    }
    const curve = data.curves[model];
    const values = valuesOf(found);
    axes.draw("score", curve, axes.axisFor(curve, values), seriesOf(values), more(`Running ${what} of ${curve.id}. ${found.note}`));
  };

  const drawAll = (axes) => {
    const { byTime, byRow } = learning;
    if (!document.getElementById("score-all") || !byRow) return;
    const fallback = byTime && byTime.covered >= 0.5 ? "time" : "row";
    const by = byTime ? (axes.wanted() ?? fallback) : "row";
    const curve = by === "time" ? byTime : byRow;
    const values = valuesOf(curve);
    const axis = axes.along(by, curve.start, values, values.time ?? []);
    chart({
      id: "score-all", x: axis.x, series: axes.picked(axis, seriesOf(values)), isTime: axis.isTime, xLabel: axis.xLabel,
      where: (idx) => axis.words(axis.x[idx]), ...more(`Running ${what} over all devices.`),
    });
  };

  for (const table of document.querySelectorAll(".confusion-of")) table.open = true;
  sections.push((model, axes) => {
    drawModel(model, axes);
    drawAll(axes);
  });
})();
