"use strict";

/* The table of models: sorted by any column, filtered by id, a click on an id draws the model. */
(() => {
  const { data, bytes, count, figure, percent, element } = kerneltrack;
  const table = data.table;
  const total = table.id.length;
  const page = 50;
  const points = 32;
  const sparks = bytes(table.spark);
  const columns = [
    { key: "id", title: "Model" },
    { key: "rows", title: "Rows", format: count },
    { key: "mean", title: "Mean error", format: figure, hint: "Mean fitting error, start rows left out" },
    { key: "sd", title: "± sd", format: figure },
    { key: "half", title: "Last half", format: figure, hint: "Mean fitting error of the second half of the rows" },
    { key: "high", title: "95 % below", format: figure, hint: "The error that 95 % of the rows do not exceed, to within 1 %" },
    { key: "censored", title: "Censored", format: percent, hint: "Share of the rows that changed nothing" },
    { key: "evicted", title: "Evicted", format: percent, hint: "Share of the rows that pushed a stored row out, themselves included" },
    { key: "dropped", title: "Dropped at once", format: percent, hint: "Share of the evictions in which the new row itself had to go" },
  ];
  const natural = new Intl.Collator("en", { numeric: true }).compare;
  const sorted = total > page ? { key: "mean", down: true } : { key: "id", down: false };
  let limit = page;
  let current = -1;

  const root = document.getElementById("models");
  const body = element("tbody");
  const filter = document.getElementById("filter");
  const more = document.getElementById("more");
  const tally = document.getElementById("table-count");

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

  const name = (row) => {
    const id = table.id[row];
    if (table.curve[row] < 0) return id;
    const button = element("button", { type: "button", title: "Draw this model" }, id);
    button.addEventListener("click", () => {
      kerneltrack.select(table.curve[row]);
      document.getElementById("toolbar").scrollIntoView();
    });
    return button;
  };

  const line = (row) => {
    const made = element("tr", { class: table.curve[row] === current ? "current" : "" });
    made.dataset.curve = table.curve[row];
    made.append(element("th", { scope: "row", title: table.id[row] }, name(row)));
    for (const { key, format } of columns.slice(1)) {
      made.append(element("td", { class: "n" }, format(table[key][row])));
    }
    made.append(element("td", {}, spark(row)));
    return made;
  };

  const order = () => {
    const wanted = filter.value.trim().toLowerCase();
    const rows = [...table.id.keys()].filter((row) => table.id[row].toLowerCase().includes(wanted));
    const values = table[sorted.key];
    const sign = sorted.down ? -1 : 1;
    return rows.sort((a, b) => {
      if (values[a] === null || values[b] === null) return (values[a] === null) - (values[b] === null);
      return sign * (sorted.key === "id" ? natural(values[a], values[b]) : values[a] - values[b]);
    });
  };

  const fill = () => {
    const rows = order();
    body.replaceChildren(...rows.slice(0, limit).map(line));
    more.hidden = rows.length <= limit;
    more.textContent = `Show all ${count(rows.length)}`;
    tally.textContent = rows.length === total ? "" : `${count(rows.length)} of ${count(total)}`;
    for (const cell of root.querySelectorAll("thead th[data-key]")) {
      cell.removeAttribute("aria-sort");
      if (cell.dataset.key === sorted.key) {
        cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
      }
    }
  };

  const head = () => {
    const row = element("tr");
    for (const { key, title, hint } of columns) {
      const button = element("button", { type: "button", title: hint }, title);
      button.addEventListener("click", () => {
        sorted.down = sorted.key === key ? !sorted.down : key !== "id";
        sorted.key = key;
        fill();
      });
      const cell = element("th", { scope: "col", class: key === "id" ? "" : "n" }, button);
      cell.dataset.key = key;
      row.append(cell);
    }
    row.append(element("th", { scope: "col", title: "Each on its own scale from 0" }, "Error over its rows"));
    return element("thead", {}, row);
  };

  if (!total) {
    root.replaceWith(element("p", { class: "note" }, "There are no models."));
    return;
  }
  root.append(head(), body);
  document.getElementById("table-tools").hidden = total <= 12;
  filter.addEventListener("input", fill);
  more.addEventListener("click", () => {
    limit = total;
    fill();
  });
  document.addEventListener("modelchange", (event) => {
    current = event.detail;
    for (const row of body.rows) row.classList.toggle("current", Number(row.dataset.curve) === current);
  });
  current = kerneltrack.current();
  fill();
})();
