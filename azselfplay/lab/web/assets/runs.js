// The list of runs.

import { ago, ask, count, el, main, pageOf, stateOf, table, trying, words } from "./core.js";

const EVERY = 10000; // milliseconds between two looks

const place = el("div");
main.append(place);

function strength(run) {
  if (!run.strength) return "–";
  return `${count(run.strength.elo)} ± ${count(run.strength.margin)}`;
}

function row(run) {
  const [state, badge] = stateOf(run);
  const alerts = run.alerts.length ? el("span", { class: "badge bad", title: run.alerts.join("\n") }, `${run.alerts.length} alert${run.alerts.length > 1 ? "s" : ""}`) : "none";
  return [
    el("a", { href: pageOf(run.name) }, run.name),
    alerts, el("span", { class: badge }, state), words(run.game),
    count(run.games), run.running ? count(run.games_per_h) : "–", count(run.step), strength(run), run.network, ago(run.created),
  ];
}

async function look() {
  const runs = await ask("/api/runs");
  if (!runs.length) {
    place.replaceChildren(el("p", {}, `There are no runs in ${main.dataset.folder} yet. `, "Start one with ", el("code", {}, "azrun --game tic_tac_toe --minutes 5"), "; it appears here by itself."));
    return;
  }
  const columns = [["Run"], ["Alerts"], ["State"], ["Game"], ["Games", true], ["Games/h", true], ["Step", true], ["Elo", true], ["Network"], ["Created"]];
  place.replaceChildren(table("Runs", columns, runs.map(row)));
}

async function lookOn() {
  if (!document.hidden) await trying(look);
  setTimeout(lookOn, EVERY);
}

lookOn();
