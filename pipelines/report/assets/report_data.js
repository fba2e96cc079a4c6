"use strict";

/* What the page's other scripts share: the data block, formats, and elements whose text is data. */
const kerneltrack = (() => {
  const trouble = (message) => {
    document.body.dataset.error = `${document.body.dataset.error ?? ""}${message}\n`;
    const note = document.getElementById("trouble");
    note.textContent = `A part of this page could not be drawn: ${message}`;
    note.hidden = false;
  };
  addEventListener("error", (event) => trouble(event.message));
  addEventListener("unhandledrejection", (event) => trouble(String(event.reason)));

  const data = JSON.parse(document.getElementById("data").textContent);

  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

  /* Base64 of little-endian float32; NaN, where a line breaks, becomes null. */
  const floats = (text) => {
    const view = new DataView(bytes(text).buffer);
    return Array.from({ length: view.byteLength / 4 }, (_, k) => {
      const value = view.getFloat32(4 * k, true);
      return Number.isNaN(value) ? null : value;
    });
  };

  const count = (value) => value.toLocaleString("en");
  const figure = (value) => {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size >= 1e3 && size < 1e7) return Math.round(value).toLocaleString("en");
    return size === 0 ? "0" : value.toPrecision(3);
  };
  const percent = (value) =>
    value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`;

  /* An element with attributes and children; strings become text nodes, never markup. */
  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== undefined) made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  };

  const color = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  /* Times are shown by the clocks of the zone of the run; by UTC where the browser has no such. */
  const partsOf = (() => {
    const options = { hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" };
    try {
      return new Intl.DateTimeFormat("en-US", { ...options, timeZone: data.zone });
    } catch {
      return null;
    }
  })();
  const zone = partsOf && data.zone !== "UTC" ? data.zone : "UTC";
  const ahead = (ms) => {
    if (zone === "UTC") return 0;
    const { year, month, day, hour, minute, second } = Object.fromEntries(partsOf.formatToParts(new Date(ms)).map(({ type, value }) => [type, Number(value)]));
    return Date.UTC(year, month - 1, day, hour, minute, second) - 1e3 * Math.floor(ms / 1e3);
  };
  /* A time in ms as `2026-03-01T12:00:00.000`, by these clocks. */
  const isoOf = (ms) => new Date(ms + ahead(ms)).toISOString();

  const floatsOf = (parts) => Object.fromEntries(Object.entries(parts).map(([key, text]) => [key, floats(text)]));

  /* Parts of the page about the chosen model: called with its number (-1 without any) and `axes`. */
  const sections = [];

  /* Devices that are in files beside the page, which a script element loads: a page that is opened
     from a disk may load nothing else. Their curves have only a name until their file has come. */
  const fileOf = new Map();
  for (const { id, rows, file } of data.elsewhere) {
    fileOf.set(data.curves.length, file);
    data.curves.push({ id, rows });
  }
  const coming = new Map();
  const arrived = (first, { curves, episodes, quiet }) =>
    curves.forEach((curve, k) => {
      data.curves[first + k] = curve;
      if (episodes) data.episodes[first + k] = episodes[k];
      if (quiet) data.quiet[first + k] = quiet[k];
    });
  const isHere = (index) => data.curves[index].loss !== undefined;
  const load = (index) => {
    const file = fileOf.get(index);
    if (!coming.has(file)) {
      coming.set(file, new Promise((done, failed) => {
        const script = element("script", { src: `report_devices/${String(file).padStart(4, "0")}.js` });
        script.addEventListener("load", done);
        script.addEventListener("error", () => {
          coming.delete(file);
          failed(new Error("missing"));
        });
        document.head.append(script);
      }));
    }
    return coming.get(file);
  };

  return { data, arrived, isHere, load, bytes, floatsOf, count, figure, percent, element, color, zone, isoOf, sections };
})();
