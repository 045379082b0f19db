// One run: live figures, players, alerts, curves.

import { ago, api, ask, complain, count, duration, el, fixed, main, percent, stateOf, table, taken, trying, update, words } from "./core.js";
import { Curves } from "./curves.js";
import { settingsOf } from "./settings.js";

const { run } = main.dataset;
const state = el("p", { class: "state", role: "status" }, "Reading ...");
const cards = el("dl", { class: "cards" });
const alerts = el("section", { "aria-label": "Alerts" });
const players = el("section", { "aria-label": "Players" });
const figures = el("section", { "aria-label": "All figures" });
const curvesPlace = el("section");
const settings = el("section", { "aria-label": "Settings" });
const notes = el("p", { class: "notes", hidden: true });
const ERRORS = "known_errors/";
let curves = null;
let newest = null;
main.append(notes, state, alerts, cards, curvesPlace, settings, players, figures);

function card(name, value, more = "") {
  return el("div", { class: "card" }, el("dt", {}, name), el("dd", {}, value, more ? el("small", {}, more) : null));
}

function fill(live) {
  if (!live.target_rows || live.mean_batch === undefined) return ["–", ""];
  return [`${Math.round((100 * live.mean_batch) / live.target_rows)} %`, `${fixed(live.mean_batch, 1)} of ${count(live.target_rows)} positions`];
}

const many = (number, name) => `${number} ${name}${number === 1 ? "" : "s"}`;

function liveCards(live) {
  const { workers = 0, clients = 0, trainer = 0 } = live.sessions ?? {};
  return [
    card("Evaluations a second", count(live.evals_per_s)),
    // If the players evaluate the network themselves, the server computes no batches.
    ...(live.players_evaluate ? [] : [
      card("Batches filled", ...fill(live)),
      card("Queue wait", `${fixed(live.queue_wait_ms, 2)} ms`, `${count(live.queue_rows)} positions wait`),
    ]),
    card("Connected", count(workers + clients), `${many(workers, "worker")}, ${many(clients, "client")}, ${trainer ? "a trainer" : "no trainer"}`),
  ];
}

/** The same cards without figures, so that nothing moves when these come. */
const awaitedCards = (why) => liveCards({}).map((one) => card(one.querySelector("dt").textContent, "–", why));

/** Elo if it was measured, else how many known positions the newest network gets wrong. */
function strengthCard({ summary: { strength }, row }) {
  if (strength) return card("Strength", `${count(strength.elo)} Elo`, `± ${count(strength.margin)} at step ${count(strength.step)}`);
  const [group] = Object.keys(row ?? {}).filter((name) => name.startsWith(ERRORS));
  return group ? card("Mistakes", percent(row[group]), `of the policy in known positions, ${group.slice(ERRORS.length)}`) : card("Strength", "–", "not measured yet: see below");
}

function drawCards(found) {
  const { summary: about, live } = found;
  // The files get no figures while the step stands still; a trainer that is there tells azserver.
  const now = { ...about, ...(live?.sessions?.trainer ? live.trainer : null) };
  const waiting = now.waiting_for;
  update(cards,
    strengthCard(found),
    card("Game", words(about.game), `network ${about.network ?? "?"}`),
    card("Created", ago(about.created), stateOf(about)[0]),
    card("Games", count(now.games), about.running && now.games_per_h != null ? `${count(now.games_per_h)} an hour` : ""),
    card("Training step", count(now.step), waiting ? `training waits for ${waiting}` : `weights version ${count(live?.weights_version ?? about.version)}`),
    ...(live ? liveCards(live) : about.running ? awaitedCards(found.server) : []),
  );
}

function drawAlerts(found) {
  const boxes = found.alerts.map((alert) => el("article", { class: "alert" },
    el("h3", {}, alert.name), el("p", {}, alert.seen),
    ...[["What to do", alert.first], ["Likely cause", alert.cause], ["What else to change", alert.change]]
      .map(([head, text]) => text ? el("p", {}, el("b", {}, `${head}: `), text) : null)));
  update(alerts, ...boxes);
}

function drawPlayers(found) {
  const columns = [["Player"], ["Kind"], ["Games/h", true], ["Positions/s", true], ["A game takes", true], ["Weights", true], ["Last game", true]];
  const isRunning = found.summary.running;
  const last = isRunning ? "ago" : "before the end";
  const rows = found.players.map((one) => [one.player, one.kind, count(one.games_per_h), fixed(one.positions_per_s, 1), taken(one.seconds_per_game), count(one.version), `${duration(one.seen)} ${last}`]);
  update(players, el("h2", {}, "Workers and clients"),
    rows.length ? table("Workers and clients", columns, rows) : el("p", { class: "note" }, "No game has come in here during the last ten minutes."),
    el("p", { class: "note" }, `From the newest 1,000 games of the last ten minutes.`));
}

function drawFigures(found) {
  if (!found.lines) {
    figures.replaceChildren();
    return;
  }
  update(figures, el("h2", {}, "Figures from azserver"), table("Figures of azserver", [["Figure"], ["Now"]], found.lines));
}

function told({ summary: about, server, last }) {
  if (last && about.running) return "The server of these pages has ended, and with it the run if azserver or azrun had started it. These are the last figures; azplay web shows them again.";
  if (about.state === "ended") return "Ended. These are its final figures.";
  if (about.state === "silent") return `No answer for ${duration(about.silent_s)}: its processes were killed, or their machine cannot be reached. These are its last figures.`;
  return `Running.${server ? ` ${server}` : " Live figures every two seconds."}`;
}

function draw(found) {
  if (found.error) {
    state.textContent = "The newest figures cannot be read. Trying again ...";
    complain(found.error);
    return;
  }
  complain("");
  newest = found;
  state.textContent = told(found);
  drawAlerts(found);
  drawCards(found);
  drawPlayers(found);
  drawFigures(found);
  if (!found.row) {
    curves = null;
    const { away } = found.summary;
    update(curvesPlace, el("p", { class: "note" }, away ? `No games and no curves here: ${away}.` : "Curves appear with the first training step."));
  } else if (!curves?.add(found.row)) trying(loadCurves);
}

async function loadCurves() {
  const history = await ask(api(run, "/history"));
  if (!history.columns.time.length) return;
  if (curves) {
    curves.load([[run, history]]);
    return;
  }
  curves = new Curves([[run, history]]);
  curvesPlace.replaceChildren(curves.element, el("p", { class: "note" }, "Drag over a stretch of a chart to zoom, double-click to see all again; with the keyboard: +, −, 0 and the arrows."));
}

async function loadSettings() {
  const found = await ask(api(run, "/settings"));
  notes.textContent = found.notes;
  notes.hidden = !found.notes;
  settings.replaceChildren(el("h2", {}, "Settings"), settingsOf(found.settings));
}

trying(loadCurves);
trying(loadSettings);
let events = null;
let lost = false;

/** Follows the run while this page is seen: browsers allow six connections to a server, over all its pages. */
function follow() {
  events?.close();
  if (document.hidden) {
    lost = true;
    return;
  }
  events = new EventSource(api(run, "/events"));
  events.onmessage = (event) => draw(JSON.parse(event.data));
  events.onerror = () => {
    lost = true;
    if (newest?.last) return;
    state.textContent = "azplay web does not answer. Trying again ...";
    if (events.readyState !== EventSource.CLOSED) return;
    // The answer is no stream, for example because the run is gone: the browser does not try again, and hides the text.
    state.textContent = "These figures are no longer updated. Load the page again.";
    trying(loadSettings);
  };
  events.onopen = () => {
    if (lost) trying(loadCurves);
    lost = false;
  };
}

document.addEventListener("visibilitychange", follow);
follow();
