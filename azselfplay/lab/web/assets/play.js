// A game of a person against a network of the run. The browser keeps its moves: the server may give its place to
// another game at any time, and whoever leaves the page finds it there again.

import { api, ask, choice, complain, count, el, ending, fixed, main, pageOf, percent, signed, table, trying } from "./core.js";
import { Board } from "./board.js";

const { run } = main.dataset;
const query = new URLSearchParams(location.search);
const from = { game: Number(query.get("game")) || 0, ply: Number(query.get("ply")) || 0 };
const side = query.get("side") === "1" ? 1 : 0; // to move in that position
const SIDES = ["first player", "second player"];
const RESULT = { 1: "You won", 0: "A draw", "-1": "You lost" };
const status = el("p", { class: "state", role: "status", "aria-live": "polite" });
const board = new Board((text) => move(text));
const wdl = el("div", { class: "wdl", role: "img" });
const lines = el("section", { "aria-label": "What the network thinks" });
const moves = el("ol", { class: "played-moves", "aria-label": "Moves" });
const hint = el("button", { type: "button", onclick: () => order("hint") }, "Hint");
const back = el("button", { type: "button", onclick: () => order("back", true) }, "Take back");
const shows = el("input", { type: "checkbox", checked: true, onchange: () => draw() });
const table_ = el("div", { class: "beside", hidden: true },
  el("div", {}, board.element),
  el("div", {}, status, wdl, el("div", { class: "fields" }, hint, back, el("label", { class: "check" }, shows, " Show what the network thinks")), lines, el("h2", {}, "Moves"), moves));
const form = el("form", { class: "fields", onsubmit: (event) => { event.preventDefault(); trying(() => start()); } });
const wait = el("p", { role: "status", class: "note" });
const GONE = 410;
const kept = `play ${run}`;
let game = null;
let terms = null; // what the game was opened with
let busy = false;

function draw() {
  const { found } = game;
  const isHint = found?.is_hint && found.side === game.side;
  const arrows = shows.checked && isHint && !game.over ? found.lines.map((line) => ({ clicks: line.clicks, share: line.share, text: line.moves[0] })) : [];
  board.show(game.board, busy ? [] : game.legal, arrows);
  status.textContent = told();
  hint.disabled = busy || !game.is_mine;
  back.disabled = busy || game.moves.length === game.first;
  moves.replaceChildren(...game.moves.map((text) => el("li", {}, text)));
  drawThoughts();
}

function told() {
  if (game.over) {
    const mine = game.side === 0 ? game.outcome : -game.outcome;
    const score = game.score === null ? "" : ` (${signed(game.score, 1)} for the first player)`;
    return `${RESULT[mine]}: ${ending(game.over)}${score}.`;
  }
  if (!game.is_mine) return "The network thinks ...";
  const last = game.moves.length > game.first ? `The network played ${game.moves[game.moves.length - 1]}. ` : "";
  return `${last}Your move: you are the ${SIDES[game.side]}.`;
}

function drawThoughts() {
  const { found } = game;
  wdl.hidden = lines.hidden = !found || !shows.checked;
  if (!found) return;
  const [win, drawn, loss] = found.wdl;
  const names = game.side === 0 ? [["you", win], ["draw", drawn], ["network", loss]] : [["network", win], ["draw", drawn], ["you", loss]];
  wdl.setAttribute("aria-label", names.map(([name, share]) => `${name} ${share / 10} %`).join(", "));
  wdl.replaceChildren(...names.map(([name, share]) => {
    const part = el("span", { class: name, title: `${name} ${share / 10} %` }, share >= 180 ? `${name} ${Math.round(share / 10)} %` : "");
    part.style.flexGrow = share;
    return part;
  }));
  const columns = [["Move"], ["Visits", true], ["Value", true], ["Prior", true], ["Expected line"]];
  const rows = found.lines.map((line) => [line.moves[0], count(line.visits), signed(line.value, 3), percent(line.prior), line.moves.slice(1).join(" ")]);
  const visits = found.lines.reduce((sum, line) => sum + line.visits, 0);
  const kept = visits > found.simulations ? " There are more visits than simulations because some were kept from the move before." : "";
  const whose = found.is_hint ? "What it would play for you" : "Before its move";
  lines.replaceChildren(el("h2", {}, whose), table("The best moves of the search", columns, rows),
    el("p", { class: "note" }, `${count(found.simulations)} simulations in ${fixed(found.seconds, 2)} s.${kept} Values are for the side that was to move; a line begins with the answer to the move.`));
}

async function order(what, thenReply = false, body = {}) {
  if (busy) return;
  busy = true;
  await trying(async () => {
    await act(what, body);
    if (thenReply) await reply();
  });
  busy = false;
  draw();
}

async function reply() {
  if (game.over || game.is_mine) return;
  draw();
  await act("reply", {});
}

/** Carries out an order, in a game that is opened again if the server has closed it. */
async function act(what, body) {
  try {
    game = await ask(`/api/play/${game.room}/${what}`, body);
  } catch (error) {
    if (error.status !== GONE) throw error;
    await open({ ...terms, moves: game.moves.slice(game.first) });
    game = await ask(`/api/play/${game.room}/${what}`, body);
  }
  keep();
}

async function open(wanted) {
  game = await ask(api(run, "/play"), wanted);
  terms = wanted;
  keep();
}

function keep() {
  localStorage.setItem(kept, JSON.stringify({ ...terms, moves: game.moves.slice(game.first) }));
}

const move = (text) => order("move", true, { move: text });

/** Begins a game, or goes on with the one that was `left` here. */
async function start(left) {
  if (busy) return;
  busy = true;
  const chosen = new FormData(form);
  const wanted = left ?? { weights: chosen.get("weights"), side: Number(chosen.get("side")), simulations: Number(chosen.get("simulations")), ...from };
  wait.textContent = "Loading the network. The first game of a kind takes up to a minute, while its rules are compiled.";
  try {
    if (game) await ask(`/api/play/${game.room}/leave`, {}).catch(() => null);
    game = null;
    if (left) localStorage.removeItem(kept); // if it cannot be opened, the page works again when it is loaded
    await open(wanted);
    table_.hidden = false;
    await reply();
  } finally {
    wait.textContent = "";
    busy = false;
    if (game) draw();
  }
}

/** Shows the position at once, and the game as soon as the network is ready. */
async function startFromThere() {
  const { board: there } = await ask(api(run, `/games/${from.game}/at/${from.ply}`));
  board.show(there);
  hint.disabled = back.disabled = true;
  table_.hidden = false;
  await start();
}

await trying(async () => {
  const known = await ask(api(run, "/weights"));
  if (!known.length) {
    complain("This run has no weights yet. Load the page again when azserver has started.");
    return;
  }
  const named = (name, text, options, selected) => {
    const { select, field } = choice(text, options, selected);
    select.name = name;
    return field;
  };
  form.append(
    named("weights", "Network", known.map((name, at) => [name, at ? name : `${name} (newest)`])),
    named("side", "You are the", [[0, SIDES[0]], [1, SIDES[1]]], side),
    named("simulations", "Simulations a move", [1, 10, 50, 100, 200, 400, 800, 1600, 5000].map((n) => [n, count(n)]), 100),
    el("button", { type: "submit", class: "main" }, from.game ? "Play from this position" : "New game"));
  if (from.game) {
    main.append(el("p", {}, "You go on from ", el("a", { href: pageOf(run, `/games/${from.game}#${from.ply}`) }, `game ${from.game}, position ${from.ply}`), ". ", el("a", { href: pageOf(run, "/play") }, "Play from the start")));
  }
  main.append(form, wait, table_);
  const left = JSON.parse(localStorage.getItem(kept) ?? "null");
  const isSame = left !== null && (from.game ? left.game === from.game && left.ply === from.ply : left.moves.length > 0);
  if (isSame) await start(left);
  else if (from.game) await startFromThere();
});
// A game that nobody looks at needs no tree on the server.
addEventListener("pagehide", () => {
  if (game) fetch(`/api/play/${game.room}/leave`, { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}", keepalive: true });
});
