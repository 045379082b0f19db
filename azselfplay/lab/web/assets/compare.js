// Runs of one game beside each other: the settings in which they differ, then their curves in the same charts.

import { api, ask, choice, el, main, pageOf, trying, words } from "./core.js";
import { Curves } from "./curves.js";
import { differences } from "./settings.js";

const MOST = 8; // colours of style.css
const fields = el("div", { class: "fields" });
const place = el("div");
let runs = [];
let chosen = [];

const gameOf = (name) => runs.find((run) => run.name === name)?.game;
const ofGame = (game) => runs.filter((run) => run.game === game).map((run) => run.name);

/** The runs in the address that play the same game; else the two newest of the game that the newest run plays. */
function first() {
  const asked = new URLSearchParams(location.search).getAll("run").filter((name) => gameOf(name));
  const game = asked.length ? gameOf(asked[0]) : runs[0]?.game;
  return asked.length ? asked.filter((name) => gameOf(name) === game).slice(0, MOST) : ofGame(game).slice(0, 2);
}

function choose(names) {
  chosen = names;
  history.replaceState(null, "", `?${new URLSearchParams(names.map((name) => ["run", name]))}`);
  drawFields();
  trying(draw);
}

function drawFields() {
  const game = gameOf(chosen[0]);
  const games = [...new Set(runs.map((run) => run.game))].map((name) => [name, words(name)]);
  const boxes = ofGame(game).map((name) => {
    const isChosen = chosen.includes(name);
    const input = el("input", { type: "checkbox", checked: isChosen, disabled: isChosen ? chosen.length === 1 : chosen.length === MOST,
      onchange: () => choose(ofGame(game).filter((one) => (one === name ? input.checked : chosen.includes(one)))) });
    return el("label", { class: "check" }, input, ` ${name}`);
  });
  const { field } = choice("Game", games, game, (other) => choose(ofGame(other).slice(0, 2)));
  fields.replaceChildren(field, el("div", { class: "boxes", role: "group", "aria-label": "Runs" }, boxes));
}

async function draw() {
  const names = chosen;
  const found = await Promise.all(names.flatMap((name) => ["/settings", "/history"].map((path) => ask(api(name, path)))));
  if (names !== chosen) return;
  const settings = names.map((name, at) => [name, found[2 * at].settings]);
  const past = names.map((name, at) => [name, found[2 * at + 1]]);
  const known = past.filter(([, one]) => one.columns.time.length);
  place.replaceChildren(
    names.length > 1 ? el("section", {}, el("h2", {}, "Settings that differ"), differences(settings)) : el("p", { class: "note" }, `Choose another run beside ${names[0]}.`),
    ...past.filter((one) => !known.includes(one)).map(([name]) => el("p", { class: "note" }, `${name} has no figures here.`)),
    known.length ? new Curves(known).element : "",
    el("p", { class: "note" }, "Measurements in numbers: ", ...names.flatMap((name, at) => [at ? ", " : "", el("a", { href: pageOf(name) }, name)])));
}

await trying(async () => {
  ({ runs } = await ask("/api/runs"));
  main.append(fields, place);
  if (!runs.length) {
    place.replaceChildren(el("p", {}, "There are no runs to compare yet."));
    return;
  }
  chosen = first();
  drawFields();
  await draw();
});
