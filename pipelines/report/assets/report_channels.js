"use strict";

/* The chosen model's channels around one of its episodes, a chart a channel. */
(() => {
  const { data, floatsOf, element, chart, bare, sections } = kerneltrack;
  const section = document.getElementById("channels-section");
  if (!section) return;
  const select = document.getElementById("episode");
  const slots = [...section.querySelectorAll(".channel")];
  const unpacked = new Map();
  let [shown, place, axesNow] = [null, 0, null];

  /* More digits than elsewhere: what varies of a channel may be little beside its level. */
  const worded = (value) => (value === null ? "–" : value.toLocaleString("en", { maximumSignificantDigits: 8 }));

  const unpack = (stretch) => {
    if (!unpacked.has(stretch)) {
      const { row, time, values, base } = stretch;
      const parts = floatsOf({ row, ...(time ? { time } : {}) });
      parts.row = parts.row.map((by) => stretch.first + by);
      const above = Object.values(floatsOf({ ...values }));
      const channels = above.map((list, k) => list.map((by) => (by === null ? null : base[k] + by)));
      unpacked.set(stretch, { parts, channels });
    }
    return unpacked.get(stretch);
  };

  /* An episode's times count from where the model's axis starts, those here from the first row. */
  const bandOf = (model, stretch, axis) => {
    const [kind, state, first, stop, start, end] = data.episodes[model][stretch.episode];
    const shift = start === null || stretch.start === null ? 0 : (stretch.start - data.curves[model].start) / 1e3;
    const at = (row, seconds) => axis.place([row, seconds === null ? null : seconds - shift]);
    return { name: state === "closed" ? kind : `${kind} (${state})`, start: at(first, start), end: at(stop, end) };
  };

  const titleOf = (model, stretch) => {
    const [kind, state, first, , start] = data.episodes[model][stretch.episode];
    const from = data.curves[model].start;
    const since = start === null || from === null ? `row ${first.toLocaleString("en")}` : kerneltrack.isoOf(from + 1e3 * start).slice(0, 19).replace("T", " ");
    return `${kind}, since ${since}${state === "closed" ? "" : `, ${state}`}`;
  };

  const draw = () => {
    const stretch = data.channels[shown][place];
    const curve = data.curves[shown];
    const { parts, channels } = unpack(stretch);
    const axis = axesNow.along(axesNow.axisOf(curve), stretch.start, parts, parts.time ?? []);
    const extent = [axis.x[0], axis.x[axis.x.length - 1]];
    const episodes = [bandOf(shown, stretch, axis)];
    const every = stretch.step === 1 ? "every row" : `one row in ${stretch.step}`;
    document.getElementById("channels-note").textContent = `Shown: ${every}.`;
    slots.forEach((slot, k) => {
      slot.hidden = k >= stretch.names.length;
      if (slot.hidden) {
        bare(`channel-${k}`, "");
        return;
      }
      chart({
        id: `channel-${k}`, x: axis.x, isTime: axis.isTime, extent, episodes,
        series: [{ values: axis.pick(channels[k]), ink: "average", width: 1.5, name: stretch.names[k] }],
        where: (idx) => axis.words(axis.x[idx]), format: (values, idx) => worded(values[idx]),
        name: `Channel ${stretch.names[k]} of ${curve.id} around an episode: ${titleOf(shown, stretch)}.`,
        yRange: (u, min, max) => (min === null ? [0, 1] : uPlot.rangeNum(min, max, 0.1, true)),
      });
    });
  };

  select.addEventListener("change", () => {
    place = Number(select.value);
    draw();
  });

  sections.push((model, axes) => {
    const stretches = data.channels[model] ?? [];
    section.hidden = !stretches.length;
    if (!stretches.length) {
      slots.forEach((slot, k) => bare(`channel-${k}`, ""));
      return;
    }
    if (model !== shown) place = 0;
    [shown, axesNow] = [model, axes];
    select.replaceChildren(...stretches.map((stretch, k) => element("option", { value: k }, titleOf(model, stretch))));
    select.value = String(place);
    document.getElementById("episode-box").hidden = stretches.length < 2;
    draw();
  });
})();
