// The charts and settings of a report, from the data in its page. All that it imports is in that one file.

import { el } from "./core.js";
import { Chart } from "./chart.js";
import { Curves } from "./curves.js";
import { settingsOf } from "./settings.js";

const found = JSON.parse(document.getElementById("data").textContent);
const part = (id, ...children) => document.getElementById(id).append(...children);

part("curves", new Curves([[found.run, found.history]]).element);
for (const { series, x, ...about } of found.games) {
  const chart = new Chart(about);
  part("games", chart.element);
  chart.set(series, x);
}
part("settings", el("h3", {}, "Settings"), settingsOf(found.settings));
