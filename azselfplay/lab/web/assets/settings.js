// The settings of a run beside the defaults, and of several runs beside each other.

import { el, table } from "./core.js";

const nameOf = (one) => `${one.program} ${one.name}`;

/** The settings of one run that are not the defaults, and behind them all others. */
export function settingsOf(settings) {
  const rows = (some) => some.map((one) => [one.program, el("code", {}, one.name), one.value, one.default || "–"]);
  const columns = [["Program"], ["Setting"], ["This run"], ["Default"]];
  const differ = settings.filter((one) => one.differs);
  const same = settings.filter((one) => !one.differs);
  if (!settings.length) return el("p", { class: "note" }, "The run's folder has no settings that can be read.");
  return el("div", {},
    differ.length ? table("Settings that differ from the defaults", columns, rows(differ)) : el("p", {}, "All settings are the defaults."),
    el("details", { class: "more" }, el("summary", {}, `${same.length} settings as by default`), table("Settings as by default", columns, rows(same))));
}

/** The settings in which `runs`, [name, settings], differ from each other. */
export function differences(runs) {
  const names = [...new Map(runs.flatMap(([, settings]) => settings.map((one) => [nameOf(one), one]))).entries()];
  const valueIn = (settings, name) => settings.find((one) => nameOf(one) === name)?.value ?? "–";
  const rows = names.map(([name, one]) => [one, runs.map(([, settings]) => valueIn(settings, name))])
    .filter(([, values]) => new Set(values).size > 1)
    .map(([one, values]) => [one.program, el("code", {}, one.name), ...values, one.default || "–"]);
  if (!rows.length) return el("p", {}, "All settings are the same.");
  return table("Settings that differ", [["Program"], ["Setting"], ...runs.map(([name]) => [name]), ["Default"]], rows);
}
