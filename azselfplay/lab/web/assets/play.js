// A game of a person against a network of the run. The browser keeps its moves: the server may give its place to
// another game at any time, and whoever leaves the page finds it there again.

import { ago, api, ask, choice, complain, count, el, ending, fixed, main, pageOf, percent, table, trying } from "./core.js";
import { Board, writing } from "./board.js";

const { run } = main.dataset;
const query = new URLSearchParams(location.search);
const from = { game: Number(query.get("game")) || 0, ply: Number(query.get("ply")) || 0 };
const toMove = query.get("side") === "1" ? 1 : 0; // in that position
const RESULT = { 1: "You won", 0: "A draw", "-1": "You lost" };
const BAD_REQUEST = 400, NOT_FOUND = 404, GONE = 410;
const HINTS = 3; // moves shown on the board
const kept = `play ${run}`;
const button = (text, act, attributes = {}) => el("button", { type: "button", onclick: act, ...attributes }, text);

// ---- The page ------------------------------------------------------------------------------------

const status = el("p", { class: "state told", role: "status", "aria-live": "polite" });
const board = new Board((text) => order("move", true, { move: text }));
const wdl = el("div", { class: "wdl", role: "img" });
const lines = el("section", { "aria-label": "What the network thinks" });
const moves = el("ol", { class: "played-moves", "aria-label": "Moves" });
const hint = button("Hint", () => order("hint"));
const back = button("Take back", () => order("back", true));
const present = button("Back to the game", () => trying(() => look(null)));
const flip = button("Flip the board", () => { turned = !turned; trying(() => look(at)); });
const rematch = button("Rematch", () => trying(playAgain), { class: "main" });
const shows = el("input", { type: "checkbox", onchange: () => draw() });
const owns = el("input", { type: "checkbox", onchange: () => draw() });
const territory = el("label", { class: "check" }, owns, " Show territory");
const files = el("span");
const position = el("input", { readonly: true, "aria-label": "Position as text", class: "wide", onfocus: () => position.select() });
const about = el("div", { hidden: true }, wdl,
  el("div", { class: "fields" }, present, rematch, hint, back, flip, el("label", { class: "check" }, shows, " Show what the network thinks"), territory),
  el("h2", {}, "Moves"), moves, lines, el("p", { class: "note" }, "Download: ", files), el("p", {}, position));
const form = el("form", { class: "fields", onsubmit: (event) => { event.preventDefault(); trying(() => start()); } });
const setup = el("details", { class: "setup", open: true }, el("summary", {}, "Settings of a new game"), form);
const wait = el("p", { role: "status", class: "note" });

let game = null;
let terms = null; // what the game was opened with
let busy = false;
let turned = false; // the board, to the network's side
let at = null; // the position that is looked at, null: the present one

// ---- What is shown -------------------------------------------------------------------------------

const inLetters = () => game.board.svg.includes("data-kanji") && writing() === "letters";
const said = (texts, people) => (inLetters() ? texts : people);

function draw() {
  const { found } = game;
  const isHint = found?.is_hint && found.side === game.side && !game.over;
  const arrows = isHint ? found.lines.slice(0, HINTS).map((line, i, all) => (
    // Largest is what it would play, which need not be the most visited move.
    { clicks: line.clicks, share: line.share, size: i ? line.share : Math.max(...all.map(({ share }) => share)), text: line.said[0] })) : [];
  const legal = inLetters() ? game.legal.map((move) => ({ ...move, said: move.text })) : game.legal;
  const owners = found?.owners ?? {}; // of a network that tells them
  territory.hidden = !Object.keys(owners).length;
  if (at === null) board.show(game.board, busy ? [] : legal, arrows, owns.checked ? owners : {});
  status.textContent = told();
  hint.disabled = busy || !game.is_mine;
  back.disabled = busy || game.moves.length === game.first;
  rematch.hidden = !game.over;
  flip.hidden = !game.can_turn;
  present.hidden = at === null;
  position.value = board.board.position;
  files.replaceChildren(...game.forms.flatMap((one, nth) => [nth ? " " : "", button(one, () => trying(() => download(one)))]));
  drawMoves();
  drawThoughts(isHint);
}

function told() {
  if (at !== null) return at ? `The position after ${number(at - 1)} ${said(game.moves, game.said)[at - 1]}.` : "The position at the start.";
  if (game.over) {
    const mine = game.side === 0 ? game.outcome : -game.outcome;
    const ahead = game.score < 0 ? 1 : 0;
    const score = game.score === null ? "" : ` (${game.sides[ahead]} +${fixed(Math.abs(game.score), game.score % 1 ? 1 : 0)})`;
    return `${RESULT[mine]}: ${ending(game.over)}${score}.`;
  }
  if (!game.is_mine) {
    const todo = game.moves.length > game.first ? "Take your move back" : "Begin a new game";
    return busy ? "The network thinks ..." : `The network did not move. ${todo}.`;
  }
  const all = said(game.moves, game.said);
  const last = game.moves.length > game.first ? `The network played ${all[all.length - 1]}. ` : "";
  return `${last}Your move: you are ${game.sides[game.side]}.`;
}

/** The number before a move; in chess the second of a pair has none. */
function number(ply) {
  if (game.numbers === null) return `${ply + 1}.`;
  const [before, here] = [game.numbers[ply - 1], game.numbers[ply]];
  return here === before ? "" : `${here}.${game.movers[ply] ? ".." : ""}`;
}

function drawMoves() {
  const all = said(game.moves, game.said);
  const here = at ?? all.length;
  moves.replaceChildren(...all.map((text, ply) => el("li", {}, el("span", { class: "ply" }, number(ply)),
    button(text, () => trying(() => look(ply + 1)), { class: "move", "aria-current": here === ply + 1 && "step", "aria-label": `Position after ${number(ply)} ${text}` }))));
  const shown = moves.querySelector("[aria-current]");
  if (shown) moves.scrollTop = shown.offsetTop - moves.offsetTop - moves.clientHeight / 2;
}

function drawThoughts(isHint) {
  const { found } = game;
  wdl.hidden = lines.hidden = !found || !(shows.checked || isHint);
  if (wdl.hidden) return;
  const [win, drawn, loss] = found.wdl;
  const names = game.side === 0 ? [["you", win], ["draw", drawn], ["network", loss]] : [["network", win], ["draw", drawn], ["you", loss]];
  const sentence = { you: "you win", draw: "draw", network: "the network wins" };
  wdl.setAttribute("aria-label", names.map(([name, share]) => `${sentence[name]} ${share / 10} %`).join(", "));
  wdl.replaceChildren(...names.map(([name, share]) => {
    const part = el("span", { class: name, title: `${sentence[name]} ${share / 10} %` }, share >= 180 ? `${name} ${Math.round(share / 10)} %` : "");
    part.style.flexGrow = share;
    return part;
  }));
  const columns = [["Move"], ["Visits", true], ["Score", true], ["Prior", true], ["Expected line"]];
  const rows = found.lines.map((line) => {
    const [first, ...rest] = said(line.moves, line.said);
    return [first, count(line.visits), percent((1 + line.value) / 2), percent(line.prior), rest.join(" ")];
  });
  const visits = found.lines.reduce((sum, line) => sum + line.visits, 0);
  const reused = visits > found.simulations ? " There are more visits than simulations because some were kept from the move before." : "";
  lines.replaceChildren(el("h2", {}, found.is_hint ? "What it would play for you" : "Before its move"), table("The best moves of the search", columns, rows),
    el("p", { class: "note" }, `${count(found.simulations)} simulations in ${fixed(found.seconds, 2)} s.${reused} Scores are of the side that was to move: wins, and half of the draws.`));
}

/** Shows an earlier position; `ply` null, or the last one, is the present. */
async function look(ply) {
  at = ply === null || ply >= game.moves.length ? null : Math.max(0, ply);
  const shown = await act(`at/${at ?? game.moves.length}`);
  // Not before: `act` may open the game again.
  if (at !== null) board.show(shown);
  else game.board = shown;
  draw();
}

async function download(which) {
  const { name, text } = await act(`file?form=${encodeURIComponent(which)}`);
  const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  el("a", { href: address, download: name }).click();
  URL.revokeObjectURL(address);
}

// ---- Orders --------------------------------------------------------------------------------------

async function order(what, thenReply = false, body = {}) {
  if (busy) return;
  busy = true;
  at = null;
  await trying(async () => {
    await change(what, body);
    if (thenReply) await reply();
  });
  busy = false;
  draw();
}

async function reply() {
  while (!game.over && !game.is_mine) { // a side may move several times in a row
    draw();
    await change("reply", {});
  }
}

async function change(what, body) {
  game = await act(what, body);
  keep();
}

/** Asks for something, or with a `body` orders it, in a game that is opened again if the server has closed it. */
async function act(what, body) {
  const address = () => `/api/play/${game.token}/${what}${what.includes("?") ? "&" : "?"}turned=${Number(turned)}`;
  try {
    return await ask(address(), body);
  } catch (error) {
    if (error.status !== GONE) throw error;
    await open({ ...terms, moves: game.moves.slice(game.first) });
    return ask(address(), body);
  }
}

async function open(wanted) {
  game = await ask(api(run, "/play"), wanted);
  terms = wanted;
  keep();
}

function keep() {
  localStorage.setItem(kept, JSON.stringify({ ...terms, moves: game.moves.slice(game.first) }));
}

/** Begins a game, or goes on with the one that was `left` here. */
async function start(left) {
  if (busy) return;
  busy = true;
  const chosen = new FormData(form);
  const wanted = left ?? { weights: chosen.get("weights"), side: Number(chosen.get("side")), simulations: Number(chosen.get("simulations")), position: (chosen.get("position") ?? "").trim(), ...from };
  wait.textContent = "Loading the network. The first game of a kind takes up to a minute, while its rules are compiled.";
  try {
    const before = game;
    await open(wanted).catch((error) => {
      // One that can never be opened must not stop the page at each load.
      if (left && !before && [BAD_REQUEST, NOT_FOUND].includes(error.status)) localStorage.removeItem(kept);
      throw error;
    });
    // Only now: if the new game had not been opened, this one would go on.
    if (before) await ask(`/api/play/${before.token}/leave`, {}).catch(() => null);
    at = null;
    turned = false;
    about.hidden = false;
    setup.open = false;
    await reply();
  } finally {
    wait.textContent = "";
    busy = false;
    if (game) draw();
  }
}

/** Begins the same game with the other side, against the current network if the server has removed this one. */
async function playAgain() {
  const wanted = { ...terms, side: 1 - game.side, moves: [] };
  await start(wanted).catch((error) => {
    if (error.status !== NOT_FOUND) throw error;
    return start({ ...wanted, weights: "" });
  });
}

/** Shows the position at once, and the game as soon as the network is ready. */
async function startFromThere() {
  const { board: there } = await ask(api(run, `/games/${from.game}/at/${from.ply}`));
  board.show(there);
  await start();
}

// ---- The form ------------------------------------------------------------------------------------

function named(name, text, options, selected) {
  const { select, field } = choice(text, options, selected);
  select.name = name;
  return field;
}

function described({ name, step, at: when, elo }, nth) {
  const strength = elo === null ? "" : `, Elo ${count(elo)}`;
  return `${nth ? "" : "current: "}${step === null ? name : `step ${count(step)}`}, ${ago(when)}${strength}`;
}

await trying(async () => {
  const [{ networks, sides, board: begin }, left] = [await ask(api(run, "/networks")), JSON.parse(localStorage.getItem(kept) ?? "null")];
  const pasted = el("label", {}, el("span", {}, "Start from (optional): a position, moves, or a game"), el("textarea", { name: "position", rows: 1, placeholder: "FEN, SFEN, SGF, PGN ..." }));
  form.append(
    named("weights", "Network", networks.map((one, nth) => [one.name, described(one, nth)])),
    named("side", "You are", sides.map((name, side) => [side, name]), toMove),
    named("simulations", "Simulations a move", [1, 10, 50, 100, 200, 400, 800, 1600, 5000].map((n) => [n, count(n)]), 100),
    from.game ? "" : pasted,
    el("button", { type: "submit", class: "main" }, from.game ? "Play from this position" : "New game"));
  if (from.game) {
    main.append(el("p", {}, "You go on from ", el("a", { href: pageOf(run, `/games/${from.game}#${from.ply}`) }, `game ${from.game}, position ${from.ply}`), ". ", el("a", { href: pageOf(run, "/play") }, "Play from the start")));
  }
  main.append(setup, wait, status, el("div", { class: "beside" }, el("div", {}, board.element), about));
  board.show(begin);
  const isSame = left !== null && (from.game ? left.game === from.game && left.ply === from.ply : left.moves.length > 0);
  if (isSame) await start(left);
  else if (from.game) await startFromThere();
});

document.addEventListener("keydown", (event) => {
  if (!game || event.target.matches("input, select, textarea") || event.altKey || event.ctrlKey || event.metaKey) return;
  const now = at ?? game.moves.length;
  const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: game.moves.length }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  trying(() => look(to));
});
addEventListener("writing", () => { if (game) draw(); });
// A game that nobody looks at needs no tree on the server.
addEventListener("pagehide", () => {
  if (game) fetch(`/api/play/${game.token}/leave`, { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}", keepalive: true });
});
