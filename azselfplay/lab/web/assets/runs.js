// The list of runs.

import { ago, ask, count, el, main, pageOf, stateOf, svgEl, table, trying, update, words } from "./core.js";

const EVERY = 10000; // milliseconds between two looks
const [WIDE, HIGH] = [110, 30]; // of a small curve, pixels

const place = el("div");
main.append(place);

function strength(run) {
  if (!run.strength) return "–";
  return `${count(run.strength.elo)} ± ${count(run.strength.margin)}`;
}

/** The policy loss over the steps, without axes: whether it still falls. */
function small(run) {
  if (run.curve.length < 2) return "–";
  const [xs, ys] = [0, 1].map((at) => run.curve.map((point) => point[at]));
  const place = (values, value, length) => 2 + ((value - Math.min(...values)) / (Math.max(...values) - Math.min(...values) || 1)) * (length - 4);
  const points = run.curve.map(([x, y]) => `${place(xs, x, WIDE).toFixed(1)},${(HIGH - place(ys, y, HIGH)).toFixed(1)}`);
  const told = `Policy loss from ${ys[0].toFixed(2)} to ${ys[ys.length - 1].toFixed(2)}`;
  return svgEl("svg", { class: "small", width: WIDE, height: HIGH, role: "img", "aria-label": told },
    svgEl("title", {}, told), svgEl("polyline", { class: "curve c0", points: points.join(" ") }));
}

function row(run) {
  const [state, badge] = stateOf(run);
  const alerts = run.alerts.length ? el("span", { class: "badge bad", title: run.alerts.join("\n") }, `${run.alerts.length} alert${run.alerts.length > 1 ? "s" : ""}`) : null;
  return [
    [el("a", { href: pageOf(run.name) }, run.name), run.note ? el("small", {}, run.note) : null,
      el("small", {}, el("a", { href: pageOf(run.name, "/play"), "aria-label": `Play against ${run.name}` }, "Play"))],
    small(run), [el("span", { class: badge }, state), " ", alerts],
    [words(run.game), run.network ? el("small", {}, run.network) : null],
    strength(run), count(run.step), [count(run.games), run.running && run.games_per_h !== null ? el("small", {}, `${count(run.games_per_h)} an hour`) : null], ago(run.created),
  ];
}

const code = (text) => el("code", {}, text);

/** What people ask first. */
const help = el("details", { class: "more" }, el("summary", {}, "Help"),
  el("ul", {},
    el("li", {}, "Elo: of the newest network that ", code("azplay ladder RUN"), " has rated, with its 95 % interval; a player at random has 0."),
    el("li", {}, "Policy loss: its course over the training steps. It falls while the network still learns from its games."),
    el("li", {}, "Alerts: signs that a run does not learn; the run's page says what to do."),
    el("li", {}, "Notes: what you write into ", code("RUN/notes.md"), "; its first line stands in the list."),
    el("li", {}, "To delete a run, delete its folder in ", code(main.dataset.folder), ". These pages change nothing.")));

async function look() {
  const { runs, left_out: leftOut } = await ask("/api/runs");
  if (!runs.length) {
    place.replaceChildren(el("p", {}, `There are no runs in ${main.dataset.folder} yet. `, "Start one with ", code("azrun --game tic_tac_toe --minutes 5"), "; it appears here by itself."));
    return;
  }
  const columns = [["Run"], ["Policy loss"], ["State"], ["Game"], ["Elo", true], ["Step", true], ["Games", true], ["Created"]];
  update(place, table("Runs", columns, runs.map(row)),
    ...(leftOut ? [el("p", { class: "note" }, `${count(leftOut)} older runs are not shown.`)] : []));
}

async function lookOn() {
  if (!document.hidden) await trying(look);
  setTimeout(lookOn, EVERY);
}

main.append(help);
lookOn();
