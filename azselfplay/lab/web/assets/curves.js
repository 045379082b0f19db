// The charts of a run's figures over time, in groups, with the strength of its networks first.

import { choice, command, el } from "./core.js";
import { Chart } from "./chart.js";
import { ELO, levels, measurements, ratings } from "./strength.js";

const AXES = [["trainer/step", "training step"], ["trainer/games", "games"], ["time", "time"]];
const SHORT_RUN = 2 * 3600; // seconds; the time axis of shorter runs is in minutes
const MEASURED = /^(trainer\/(held_out_|value_spread)|probe_values\/|known_errors\/)/; // measured at each publication; the rows between repeat the values

/** Whether each row has new measurements. They are made together: if one value is new, all are. */
function measuredIn(columns) {
  const measured = Object.entries(columns).filter(([name]) => MEASURED.test(name)).map(([, values]) => values);
  return columns.time.map((_, at) => measured.some((values) => values[at] !== null && values[at] !== values[at - 1]));
}

/** Minutes if all these runs are short, else hours. */
function timeUnitOf(runs) {
  const longest = Math.max(0, ...runs.map(([, { columns: { time } }]) => (time.length ? time[time.length - 1] - time[0] : 0)));
  return longest < SHORT_RUN ? { seconds: 60, label: "minutes" } : { seconds: 3600, label: "hours" };
}

/** The exponential moving mean with `weight` 0..1 for what came before, as TensorBoard has it; gaps stay. */
function smoothed(ys, weight) {
  let [sum, norm] = [0, 0];
  return ys.map((y) => {
    if (y === null || y === undefined) return y;
    sum = weight * sum + (1 - weight) * y;
    norm = weight * norm + (1 - weight);
    return sum / norm;
  });
}

/** Charts of one run, or of several runs together. */
export class Curves {
  constructor(runs) {
    this.axis = AXES[0][0];
    this.smoothing = 0;
    this.isLog = false;
    this.timeUnit = { seconds: 3600, label: "hours" };
    this.charts = new Map();
    this.grids = new Map();
    const { field } = choice("Curves over", AXES, this.axis, (axis) => {
      this.axis = axis;
      for (const chart of this.charts.values()) chart.zoom = null;
      this.draw();
    });
    const smoothing = el("input", { type: "range", min: 0, max: 0.95, step: 0.05, value: 0, oninput: () => {
      this.smoothing = Number(smoothing.value);
      this.draw();
    } });
    const log = el("input", { type: "checkbox", onchange: () => {
      this.isLog = log.checked;
      this.draw();
    } });
    this.element = el("section", { "aria-label": "Curves" }, el("div", { class: "fields" }, field,
      el("label", {}, el("span", {}, "Smoothing"), smoothing), el("label", { class: "check" }, log, " logarithmic")));
    this.load(runs);
  }

  /** Shows `runs`, [name, {charts, columns, strength}], with the axis, smoothing and zoom that the visitor has chosen. */
  load(runs) {
    this.runs = runs;
    this.draw();
    if (runs.length > 1) return;
    const measured = measurements(runs[0][1].strength);
    measured.open = Boolean(this.measured?.open);
    this.measured?.remove();
    this.gridOf(ELO.group).after(measured);
    this.measured = measured;
  }

  /** Adds a row of figures of the first run. Returns false for figures that no chart is known of yet: the first errors in known positions come some minutes after the first row. */
  add(row) {
    const { columns } = this.runs[0][1];
    const [times, steps] = [columns.time, columns[AXES[0][0]]];
    if (Object.keys(row).some((name) => !(name in columns))) return false;
    // An old row is behind in both: the clock may be set back, and a trainer may go back to a checkpoint.
    if (times.length && times[times.length - 1] >= row.time && steps[steps.length - 1] >= row[AXES[0][0]]) return true;
    while (steps.length && steps[steps.length - 1] >= row[AXES[0][0]]) for (const values of Object.values(columns)) values.pop();
    for (const [name, values] of Object.entries(columns)) values.push(row[name] ?? null);
    this.draw();
    return true;
  }

  draw() {
    this.timeUnit = timeUnitOf(this.runs);
    this.show(ELO, ratings(this.runs, this.axis, this.timeUnit.seconds), levels(this.runs));
    const known = new Map();
    for (const [, { charts }] of this.runs) {
      for (const chart of charts) {
        const curves = known.get(chart.title)?.curves ?? [];
        const more = chart.curves.filter(([, name]) => !curves.some(([, other]) => other === name));
        known.set(chart.title, { ...chart, curves: [...curves, ...more] });
      }
    }
    // Of a run and not of a chart: once for all charts.
    const rows = this.runs.map(([, run]) => ({ xs: this.places(run), isNew: measuredIn(run.columns) }));
    for (const about of known.values()) this.show(about, this.runs.flatMap(([, { columns }], index) => this.series(columns, rows[index], about, index)));
  }

  /** Draws a chart, which is made with its first curve. */
  show(about, series, lines = []) {
    const grid = this.gridOf(about.group);
    if (!series.length) {
      if (about === ELO && !grid.children.length) grid.append(this.awaited = this.unmeasured());
      return;
    }
    let chart = this.charts.get(about.title);
    if (!chart) {
      chart = new Chart(about);
      this.charts.set(about.title, chart);
      if (about === ELO && this.awaited) this.awaited.replaceWith(chart.element);
      else grid.append(chart.element);
    }
    chart.isLog = this.isLog;
    chart.set(series, this.axisLabel, null, lines);
  }

  gridOf(group) {
    if (!this.grids.has(group)) {
      const grid = el("div", { class: "grid" });
      this.grids.set(group, grid);
      this.element.append(el("h2", {}, group), grid);
    }
    return this.grids.get(group);
  }

  /** In place of the chart of Elo: how it is measured. */
  unmeasured() {
    return el("figure", { class: "chart" }, el("figcaption", {}, el("h3", {}, ELO.title)),
      el("p", {}, "Nobody has let these networks play against players of known strength yet. This command does; it goes on where it stopped, and its results are drawn here:"),
      this.runs.map(([, { strength }]) => command(strength.commands.ladder)));
  }

  get axisLabel() {
    return this.axis === "time" ? this.timeUnit.label : AXES.find(([name]) => name === this.axis)[1];
  }

  series(columns, { xs, isNew }, about, index) {
    return about.curves.flatMap(([label, name], at) => {
      let ys = columns[name];
      if (!ys?.some((value) => value !== null)) return [];
      if (MEASURED.test(name)) ys = ys.map((value, row) => (isNew[row] ? value : null));
      const several = this.runs.length > 1;
      // Runs differ by colour and figures by dashes; the figures of a single run by both.
      const one = { label: several ? `${this.runs[index][0]}: ${label}` : label, xs, ys, colour: several ? index : at % 8, dash: at };
      return this.smoothing ? [{ ...one, faint: true }, { ...one, ys: smoothed(ys, this.smoothing) }] : [one];
    });
  }

  places({ columns, strength }) {
    if (this.axis !== "time") return columns[this.axis];
    const began = strength.created ?? columns.time[0]; // as the ratings count
    return columns.time.map((time) => (time - began) / this.timeUnit.seconds);
  }
}
