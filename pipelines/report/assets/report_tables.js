"use strict";

/* The tables of the page and their columns. */
(() => {
  const { data, bytes, count, figure, percent, fillTable } = kerneltrack;
  const points = 32;
  const sparks = bytes(data.table.spark);

  /* A small curve; parts without rows (a model may have fewer rows than points) are passed over. */
  const spark = (row) => {
    let path = "";
    sparks.subarray(row * points, (row + 1) * points).forEach((height, k) => {
      if (height === 255) return;
      const place = `${((100 * k) / (points - 1)).toFixed(1)} ${(25 - (23 * height) / 254).toFixed(1)}`;
      path += path ? `L${place}` : `M${place}l0.01 0`;
    });
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 100 26");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("class", "spark");
    svg.setAttribute("aria-hidden", "true");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
    line.setAttribute("d", path);
    svg.append(line);
    return svg;
  };

  fillTable({
    id: "models", table: data.table, sortBy: "mean", last: spark, lastTitle: "Error over its rows",
    columns: [
      { key: "rows", title: "Rows", format: count },
      { key: "mean", title: "Mean error", format: figure, hint: "Mean fitting error, start rows left out" },
      { key: "sd", title: "± sd", format: figure },
      { key: "half", title: "Last half", format: figure, hint: "Mean fitting error of the second half of the rows" },
      { key: "high", title: "95 % below", format: figure, hint: "The error that 95 % of the rows do not exceed, to within 1 %" },
      { key: "censored", title: "Skipped", format: percent, hint: "Share of the rows that fitted already and changed nothing" },
      { key: "evicted", title: "Replaced or dropped", format: percent, hint: "Share of the rows for which a row left the model, a stored one or the new row itself" },
      { key: "dropped", title: "Dropped at once", format: percent, hint: "Share of the evicted rows that were the new row itself" },
    ],
  });

  if (data.mismatch) {
    fillTable({
      id: "windows", table: data.mismatch.table, sortBy: "ratio",
      columns: [
        { key: "kind", title: "Windows", isText: true },
        { key: "windows", title: "Number", format: count },
        { key: "mismatch", title: "Mean mismatch", format: figure },
        { key: "certificate", title: "Mean certificate", format: figure, hint: "Mean of the trace certificates" },
        { key: "ratio", title: "Largest ratio", format: percent, hint: "Largest mismatch as a share of its trace certificate" },
        { key: "incomplete", title: "Cut short", format: count, hint: "Windows that were still open when the input ended" },
        { key: "sampled", title: "Sampled", format: count, hint: "Windows measured on fewer rows than they held" },
      ],
    });
  }

  if (data.learning) {
    const { classifies, references, table } = data.learning;
    const form = classifies ? percent : figure;
    const [before, constant] = references;
    const held = before === null ? `Against ${constant}` : "Against the better of the two";
    const own = classifies
      ? [
        { key: "correct", title: "Correct", format: count },
        { key: "learner", title: "Accuracy", format: form },
        { key: "balanced", title: "Balanced", format: form, hint: "Mean of the classes’ accuracies" },
      ]
      : [
        { key: "learner", title: "RMSE", format: form, hint: "Root mean squared error" },
        { key: "mae", title: "MAE", format: form, hint: "Mean absolute error" },
      ];
    fillTable({
      id: "scores", table, sortBy: "learner",
      columns: [
        { key: "rows", title: "Rows", format: count, hint: "Rows predicted" },
        { key: "scored", title: "Scored", format: count, hint: "Rows with a label" },
        ...own,
        ...(before === null ? [] : [{ key: "before", title: "Row before", format: form, hint: `In the same rows: ${before}` }]),
        { key: "constant", title: classifies ? "Most frequent" : "Mean value", format: form, hint: `In the same rows: ${constant}` },
        classifies
          ? { key: "gain", title: "Saved", format: percent, hint: `${held}: share of its mistakes that are avoided` }
          : { key: "gain", title: "Saved", format: form, hint: `${held}: share of its squared error` },
      ],
    });
  }
})();
