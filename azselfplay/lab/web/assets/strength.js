// How strong a run's networks are over training.

import { api, ask, count, duration, el, main, percent, table, trying } from "./core.js";
import { Chart } from "./chart.js";
import { Curves } from "./curves.js";

const { run } = main.dataset;

function grouped(rows, key) {
  const groups = new Map();
  for (const row of rows) groups.set(key(row), [...(groups.get(key(row)) ?? []), row]);
  return [...groups];
}

function elo(found) {
  if (!found.ladder.length) {
    return [el("p", {}, "Nobody has rated this run's networks. ", el("code", {}, `azplay ladder ${run}`), " does, and leaves ratings.json in its folder.")];
  }
  const chart = new Chart({ title: "Elo over training", unit: "Elo", least_span: 200, caption: "With 95 % intervals. Players that never change keep the scale." });
  chart.set(grouped(found.ladder, (row) => row.search).map(([label, rows], at) => ({
    label, xs: rows.map((row) => row.step), ys: rows.map((row) => row.elo), margins: rows.map((row) => row.margin), colour: at % 8, dash: at,
  })), "training step");
  const rows = found.ladder.map((row) => [row.label, row.search, count(row.step), count(row.games), duration(row.hours === null ? null : 3600 * row.hours), `${count(row.elo)} ± ${count(row.margin)}`]);
  const others = found.fixed.map((row) => [row.label, count(row.elo)]);
  return [chart.element, table("Rated networks", [["Network"], ["Search"], ["Step", true], ["Games before", true], ["Time", true], ["Elo", true]], rows),
    el("h3", {}, "On the same scale"), table("Players that never change", [["Player"], ["Elo", true]], others)];
}

/** The chart of the errors that the trainer counted at each publication of weights, as on the run's own page. */
function ownErrors(past) {
  const charts = past.charts.filter(({ curves }) => curves.some(([, name]) => name.startsWith("known_errors/")));
  return [...new Curves([[run, { ...past, charts }]]).charts.values()].map((chart) => chart.element);
}

function howToMeasure(found) {
  if (!found.is_solved) return el("p", {}, "No position of this game is solved, so errors cannot be counted. Matches measure strength: ", el("code", {}, `azplay ladder ${run}`), ".");
  return el("p", {}, el("code", {}, `azplay truth runs/${run}/weights/FILE --json runs/${run}/truth-N.json`), " counts the errors of a network, with a search too; files called truth*.json in the run's folder are shown here.");
}

function errors(found, past) {
  const charts = grouped(found.errors, (row) => row.search).map(([search, rows]) => {
    const whole = rows.some((row) => row.group === "tree") ? " tree: all positions of the game." : "";
    const chart = new Chart({ title: `Errors, ${search}`, unit: "share of positions", caption: `Share of the known positions in which the chosen move throws the result away. Each line is one group of positions.${whole}`, percent: true });
    chart.set(grouped(rows, (row) => row.group).map(([label, some], at) => ({
      label, xs: some.map((row) => row.step), ys: some.map((row) => row.errors), colour: at % 8, dash: at,
    })), "training step");
    return chart.element;
  });
  const rows = found.errors.map((row) => [count(row.step), row.search, row.group, count(row.rows), percent(row.errors), percent(row.errors_matter)]);
  return [
    el("div", { class: "grid" }, ownErrors(past), charts),
    rows.length ? table("Errors in known positions", [["Step", true], ["Search"], ["Group"], ["Positions", true], ["Errors", true], ["Where it matters", true]], rows) : howToMeasure(found),
  ];
}

await trying(async () => {
  const [found, past] = await Promise.all(["/strength", "/history"].map((path) => ask(api(run, path))));
  main.append(el("section", { "aria-label": "Ladder" }, el("h2", {}, "Ladder"), elo(found)),
    el("section", { "aria-label": "Known positions" }, el("h2", {}, "Known positions"), errors(found, past)));
});
