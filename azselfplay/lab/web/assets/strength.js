// How strong a run's networks are over training: Elo from azplay ladder, errors from azplay truth.

import { command, count, duration, el, percent, table } from "./core.js";
import { Chart } from "./chart.js";

export const ELO = {
  title: "Elo", group: "Strength", unit: "Elo (random = 0)", least_span: 200,
  caption: "With 95 % intervals, from azplay ladder. Broken lines: players that never change and keep the scale, as far as they are near.",
};

function grouped(rows, key) {
  const groups = new Map();
  for (const row of rows) groups.set(key(row), [...(groups.get(key(row)) ?? []), row]);
  return [...groups];
}

/** Curves of the rated networks of `runs`, [name, {strength}], one for each search. `seconds`: in a unit of the time axis. */
export function ratings(runs, axis, seconds) {
  const place = { "trainer/step": (row) => row.step, "trainer/games": (row) => row.games, time: (row) => row.hours * 3600 / seconds }[axis];
  return runs.flatMap(([run, { strength }], index) => grouped(strength.ladder, (row) => row.search).map(([search, rows], at) => ({
    label: runs.length > 1 ? `${run}: ${search}` : search, xs: rows.map(place), ys: rows.map((row) => row.elo),
    margins: rows.map((row) => row.margin), colour: runs.length > 1 ? index : at % 8, dash: at,
  })));
}

/** The fixed players among these ratings, and the next one on either side; more would squeeze the curves. */
export function levels(runs) {
  const rated = runs.flatMap(([, { strength }]) => strength.ladder.map((row) => row.elo));
  const fixed = runs.flatMap(([, { strength }]) => strength.fixed);
  const [low, high] = [Math.min(...rated), Math.max(...rated)];
  const below = Math.max(-Infinity, ...fixed.map((one) => one.elo).filter((elo) => elo <= low));
  const above = Math.min(Infinity, ...fixed.map((one) => one.elo).filter((elo) => elo >= high));
  const near = fixed.filter((one) => one.elo >= below && one.elo <= above);
  return [...new Map(near.map((one) => [one.label, { label: `${one.label} ${count(one.elo)}`, y: one.elo }])).values()];
}

/** All that was measured about one run, as tables, and the commands that measure more. */
export function measurements({ ladder, fixed, errors, is_solved: isSolved, commands }) {
  const rated = ladder.map((row) => [row.label, row.search, count(row.step), count(row.games), duration(row.hours === null ? null : 3600 * row.hours), `${count(row.elo)} ± ${count(row.margin)}`]);
  const players = fixed.map((row) => [row.label, count(row.elo)]);
  const rows = errors.map((row) => [count(row.step), row.search, row.group, count(row.rows), percent(row.errors), percent(row.errors_matter)]);
  return el("details", { class: "more" }, el("summary", {}, "Measurements in numbers, and how to measure more"),
    rated.length ? table("Rated networks", [["Network"], ["Search"], ["Step", true], ["Games before", true], ["Time", true], ["Elo", true]], rated) : null,
    players.length ? table("Players that never change", [["Player that never changes"], ["Elo", true]], players) : null,
    el("p", {}, "Elo, against players that never change and against each other:"), command(commands.ladder),
    el("div", { class: "grid" }, errorCharts(errors)),
    rows.length ? table("Errors in known positions", [["Step", true], ["Search"], ["Group"], ["Positions", true], ["Errors", true], ["Where it matters", true]], rows) : null,
    isSolved ? [el("p", {}, "Errors in known positions, with a search too. Each file truth*.json in the run's folder is shown here:"), command(commands.truth)]
      : el("p", {}, "No position of this game is solved, so errors cannot be counted."));
}

function errorCharts(errors) {
  return grouped(errors, (row) => row.search).map(([search, rows]) => {
    const whole = rows.some((row) => row.group === "tree") ? " tree: all positions of the game." : "";
    const chart = new Chart({ title: `Errors, ${search}`, unit: "share of positions", caption: `Share of the known positions in which the chosen move throws the result away. Each line is one group of positions.${whole}`, percent: true });
    chart.set(grouped(rows, (row) => row.group).map(([label, some], at) => ({
      label, xs: some.map((row) => row.step), ys: some.map((row) => row.errors), colour: at % 8, dash: at,
    })), "training step");
    return chart.element;
  });
}
