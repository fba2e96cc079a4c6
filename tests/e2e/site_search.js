/* Ask the search of a built site, with its own worker: node site_search.js SITE < questions.json */
"use strict";
const { readFileSync, readdirSync } = require("fs");
const { join } = require("path");
const { runInNewContext } = require("vm");

const site = process.argv[2];
const folder = join(site, "assets/javascripts/workers");
const worker = readdirSync(folder).find((name) => /^search\..*min\.js$/.test(name));
const index = JSON.parse(readFileSync(join(site, "search/search_index.json"), "utf8"));
const handlers = [];
let answered;
const self = {
  addEventListener: (type, handler) => handlers.push(handler),
  postMessage: (message) => answered(message),
  importScripts: () => {},
  console, performance, setTimeout,
};
self.self = self;
runInNewContext(readFileSync(join(folder, worker), "utf8"), self);

const SETUP = 0, QUERY = 2;
const ask = (type, data) => new Promise((resolve) => {
  answered = resolve;
  for (const handler of handlers) handler({ data: { type, data } });
});

(async () => {
  await ask(SETUP, { config: index.config, docs: index.docs, options: { suggest: true } });
  const found = {};
  for (const question of JSON.parse(readFileSync(0, "utf8"))) {
    const { data } = await ask(QUERY, question);
    found[question] = data.items.map((item) => item[0].location.split("#")[0]);
  }
  console.log(JSON.stringify(found));
})();
