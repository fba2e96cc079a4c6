"use strict";

/* Tables of models: sorted by any column, filtered by id, a click on an id draws the model. */
(() => {
  const { data, count, element } = kerneltrack;
  const page = 50;
  const searchFrom = 12;
  const natural = new Intl.Collator("en", { numeric: true }).compare;
  const drawn = new Map(data.curves.map((curve, k) => [curve.id, k]));

  /* Fills the table `id`. `columns` name the arrays of `table` besides its ids; one that is text
     `isText`; `last` makes a further cell of a row, below the title `lastTitle`. */
  const fillTable = ({ id, table, columns, sortBy, last, lastTitle }) => {
    const total = table.id.length;
    const sorted = total > page ? { key: sortBy, down: true } : { key: "id", down: false };
    const all = [{ key: "id", title: "Device", isText: true }, ...columns];
    let limit = page;
    let current = -1;

    const root = document.getElementById(id);
    const body = element("tbody");
    const [filter, more, tally, tools] = ["filter", "more", "count", "tools"].map((part) => document.getElementById(`${id}-${part}`));

    const name = (row) => {
      const model = table.id[row];
      if (!drawn.has(model)) return model;
      const button = element("button", { type: "button", title: "Open this device" }, model);
      button.addEventListener("click", () => {
        kerneltrack.select(drawn.get(model));
        document.getElementById("drawn").scrollIntoView();
      });
      return button;
    };

    const line = (row) => {
      const made = element("tr", { class: drawn.get(table.id[row]) === current ? "current" : "" });
      made.dataset.curve = drawn.get(table.id[row]) ?? -1;
      made.append(element("th", { scope: "row", title: table.id[row] }, name(row)));
      for (const { key, format, isText } of columns) {
        made.append(element("td", { class: isText ? "" : "n" }, isText ? table[key][row] : format(table[key][row])));
      }
      if (last) made.append(element("td", {}, last(row)));
      return made;
    };

    const order = () => {
      const wanted = filter.value.trim().toLowerCase();
      const rows = [...table.id.keys()].filter((row) => table.id[row].toLowerCase().includes(wanted));
      const values = table[sorted.key];
      const compare = all.find(({ key }) => key === sorted.key).isText ? natural : (a, b) => a - b;
      const sign = sorted.down ? -1 : 1;
      return rows.sort((a, b) => {
        if (values[a] === null || values[b] === null) return (values[a] === null) - (values[b] === null);
        return sign * compare(values[a], values[b]);
      });
    };

    const fill = () => {
      const rows = order();
      body.replaceChildren(...rows.slice(0, limit).map(line));
      more.hidden = rows.length <= limit;
      more.textContent = `Show all ${count(rows.length)}`;
      const others = id === "models" ? data.models - total : 0;
      tally.textContent = rows.length === total ? "" : `${count(rows.length)} of ${count(total)}`;
      if (filter.value && others > 0) tally.textContent += `; ${count(others)} more devices are not in this table`;
      for (const cell of root.querySelectorAll("thead th[data-key]")) {
        cell.removeAttribute("aria-sort");
        if (cell.dataset.key === sorted.key) {
          cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
        }
      }
    };

    const head = () => {
      const row = element("tr");
      for (const { key, title, hint, isText } of all) {
        const button = element("button", { type: "button", title: hint }, title);
        button.addEventListener("click", () => {
          sorted.down = sorted.key === key ? !sorted.down : !isText;
          sorted.key = key;
          fill();
        });
        const cell = element("th", { scope: "col", class: isText ? "" : "n" }, button);
        cell.dataset.key = key;
        row.append(cell);
      }
      if (last) row.append(element("th", { scope: "col", title: "Each on its own scale from 0" }, lastTitle));
      return element("thead", {}, row);
    };

    if (!total) {
      root.replaceWith(element("p", { class: "note" }, "There are no devices."));
      return;
    }
    root.append(head(), body);
    tools.hidden = total <= searchFrom;
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
  };

  Object.assign(kerneltrack, { fillTable });
})();
