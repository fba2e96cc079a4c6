"use strict";

/* The kernel mismatch of the chosen model's windows, below its bounds. */
(() => {
  const { data, floatsOf, figure, bare, sections } = kerneltrack;
  if (!data.mismatch) return;
  const decades = 1e-6;

  /* Of the ticks of a logarithmic axis 1, 2 and 5 times a power of ten have room for a number. */
  const tick = (value) => (value !== null && [1, 2, 5].includes(Number(value.toExponential(6).split("e")[0])) ? String(Number(value.toPrecision(1))) : "");

  /* A logarithmic axis has no zero: what is far below everything else stands on its floor. */
  const raised = (floor) => (series) => ({
    ...series,
    shown: series.shown ?? series.values,
    values: series.values.map((value) => (value === null ? null : Math.max(value, floor))),
  });

  const draw = (curve, { id, title }, { note, values }, axes) => {
    const axis = axes.axisFor(curve, values);
    const { mismatch, certificate, bound, low, high, incomplete } = values;
    const series = [
      ...(high ? [
        { values: high, ink: "range", isHidden: true, isArea: true, name: "range of the windows", shown: low.map((least, k) => [least, high[k]]) },
        { values: low, ink: "range", isHidden: true },
      ] : []),
      { values: bound, ink: "third", isDashed: true, name: "bound (28b)" },
      { values: certificate, ink: "second", name: "trace certificate" },
      { values: mismatch, ink: "average", width: 2, name: high ? "mean mismatch" : "mismatch" },
      ...(incomplete ? [{ values: incomplete, ink: "average", isRings: true, name: "window cut short" }] : []),
    ];
    const top = Math.max(...series.flatMap(({ values: all }) => all.filter((value) => value !== null)));
    const floor = top * decades;
    const format = (all, idx) => {
      const value = all[idx];
      return Array.isArray(value) ? `${figure(value[0])} to ${figure(value[1])}` : figure(value);
    };
    axes.draw(`mismatch-${id}`, curve, axis, top > 0 ? series.map(raised(floor)) : series, {
      name: `Kernel mismatch of ${curve.id} with its bounds. ${title}. ${note}`, format,
      bands: high ? [{ series: [1, 2], ink: "range" }] : [], yLabel: "mismatch",
      isLog: top > 0, yTicks: top > 0 ? tick : undefined,
      yRange: (u, min, max) => (top > 0 && min !== null ? [uPlot.rangeLog(min / 1.2, max, 10, false)[0], 1.5 * max] : [0, 1]),
    });
  };

  const unpacked = new Map();
  const valuesOf = (model, id) => {
    const key = `${model} ${id}`;
    if (!unpacked.has(key)) unpacked.set(key, floatsOf(data.mismatch.curves[model][id].values));
    return unpacked.get(key);
  };

  sections.push((model, axes) => {
    for (const kind of data.mismatch.kinds) {
      const found = data.mismatch.curves[model]?.[kind.id];
      document.getElementById(`mismatch-${kind.id}-note`).textContent = found?.note ?? "";
      if (found) draw(data.curves[model], kind, { note: found.note, values: valuesOf(model, kind.id) }, axes);
      else bare(`mismatch-${kind.id}`, model >= data.mismatch.curves.length ? `Windows are drawn for ${data.mismatch.curves.length} devices only.` : "No window of this device was measured.");
    }
  });
})();
