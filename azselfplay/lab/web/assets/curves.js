// The charts of a run's figures over time.

import { el, choice } from "./core.js";
import { Chart } from "./chart.js";

const AXES = [["trainer/step", "training step"], ["trainer/games", "games"], ["time", "time"]];
const SHORT_RUN = 2 * 3600; // seconds; the time axis of shorter runs is in minutes
const MEASURED = /^(trainer\/held_out_|probe_values\/|known_errors\/)/; // measured at each publication; the rows between repeat the values

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

/** Charts of one run, or of several runs together. */
export class Curves {
  constructor(runs) {
    this.runs = runs; // [name, {charts, columns}]
    this.axis = AXES[0][0];
    this.timeUnit = { seconds: 3600, label: "hours" };
    this.charts = new Map();
    this.grid = el("div", { class: "grid" });
    const { field } = choice("Curves over", AXES, this.axis, (axis) => {
      this.axis = axis;
      for (const chart of this.charts.values()) chart.zoom = null;
      this.draw();
    });
    this.element = el("section", { "aria-label": "Curves" }, el("div", { class: "fields" }, field), this.grid);
    this.draw();
  }

  /** Adds a row of figures of the first run. */
  add(row) {
    const { columns } = this.runs[0][1];
    const times = columns.time;
    if (times.length && times[times.length - 1] >= row.time) return;
    const steps = columns[AXES[0][0]];
    while (steps.length && steps[steps.length - 1] >= row[AXES[0][0]]) for (const values of Object.values(columns)) values.pop();
    if (Object.keys(row).some((name) => !(name in columns))) {
      for (const name of Object.keys(row)) columns[name] ??= times.map(() => null);
    }
    for (const [name, values] of Object.entries(columns)) values.push(row[name] ?? null);
    this.draw();
  }

  get moments() {
    return this.runs[0][1].columns.time.length;
  }

  draw() {
    this.timeUnit = timeUnitOf(this.runs);
    const known = new Map();
    for (const [, { charts }] of this.runs) {
      for (const chart of charts) {
        const curves = known.get(chart.title)?.curves ?? [];
        const more = chart.curves.filter(([, name]) => !curves.some(([, other]) => other === name));
        known.set(chart.title, { ...chart, curves: [...curves, ...more] });
      }
    }
    for (const about of known.values()) {
      const series = this.runs.flatMap(([run, found], index) => this.series(run, found, about, index));
      if (!series.length) continue;
      if (!this.charts.has(about.title)) {
        const chart = new Chart(about);
        this.charts.set(about.title, chart);
        this.grid.append(chart.element);
      }
      this.charts.get(about.title).set(series, this.axisLabel);
    }
  }

  get axisLabel() {
    return this.axis === "time" ? this.timeUnit.label : AXES.find(([name]) => name === this.axis)[1];
  }

  series(run, { columns }, about, index) {
    const xs = this.places(columns);
    const isNew = measuredIn(columns);
    return about.curves.flatMap(([label, name], at) => {
      let ys = columns[name];
      if (!ys?.some((value) => value !== null)) return [];
      if (MEASURED.test(name)) ys = ys.map((value, row) => (isNew[row] ? value : null));
      const told = this.runs.length > 1 ? `${run}: ${label}` : label;
      // Runs differ by colour and figures by dashes; the figures of a single run by both.
      return [{ label: told, xs, ys, colour: this.runs.length > 1 ? index : at % 8, dash: at }];
    });
  }

  places(columns) {
    if (this.axis !== "time") return columns[this.axis];
    const began = columns.time[0];
    return columns.time.map((time) => (time - began) / this.timeUnit.seconds);
  }
}
