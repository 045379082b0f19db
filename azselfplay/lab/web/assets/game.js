// A stored game, position by position: what the search found there, and the answer of a network.

import { api, ask, choice, complain, count, el, ending, fixed, main, pageOf, percent, signed, table, trying } from "./core.js";
import { Board } from "./board.js";
import { Chart } from "./chart.js";
import { Variations } from "./variations.js";

const { run, number } = main.dataset;
const OTHERS = 3; // other moves of each search in a download with variations
const about = el("p", { class: "state" });
const board = new Board();
const value = new Chart({ title: "Value for the first player", unit: "value", caption: "After the search, and the network's own before it. Click to go there.", range: [-1.05, 1.05], least_step: 1, decimals: 3, choose: (at) => go(Math.round(at)) });
const list = el("ol", { class: "played-moves short", "aria-label": "Moves" });
const slider = el("input", { type: "range", min: 0, value: 0, "aria-label": "Position", oninput: () => go(Number(slider.value)) });
const where = el("p", { class: "where", role: "status" });
const search = el("section", { "aria-label": "The search in this position" });
const network = el("section", { "aria-label": "A network on this position" });
const variations = new Variations(run, Number(number), (moves) => trying(() => showLine(moves)));
const meaning = el("p", { class: "note", hidden: true });
const onward = el("a", {}, "Play on from here");
let game = null;
let ply = 0;
let asked = "";
let weights = [];
let position = null;

const step = (text, label, to) => el("button", { type: "button", "aria-label": label, onclick: () => go(to()) }, text);
const steps = el("div", { class: "steps" },
  step("|◀", "First position", () => 0), step("◀", "Back", () => ply - 1), step("▶", "Forward", () => ply + 1), step("▶|", "Last position", () => game.moves.length));

const withOthers = el("input", { type: "checkbox", onchange: () => drawLinks() });
const links = el("span");

function drawLinks() {
  const more = withOthers.checked ? `&variations=${OTHERS}` : "";
  links.replaceChildren(...game.forms.flatMap((form, at) => [at ? ", " : "",
    el("a", { href: pageOf(run, `/games/${number}/download?form=${form}${more}`), download: true, "aria-label": `Download as ${form}` }, form)]));
}

function drawAbout() {
  const score = game.score === null ? "" : ` (${signed(game.score, 1)})`;
  about.replaceChildren(
    `${game.result}${score}: ${ending(game.reason)}, ${game.plies} plies, ${game.simulations === null ? "imported" : `weights ${game.weights}, ${count(game.simulations)} simulations a move, played by`} ${game.player || "?"}. `,
    "Download: ", links, " ",
    el("label", { class: "check" }, withOthers, ` with the ${OTHERS} most visited other moves as variations`));
  drawLinks();
}

/** All moves. In chess a number is of a move of each side. */
function drawMoves() {
  const turns = [];
  game.moves.forEach((move, at) => {
    const number = game.numbers?.[at] ?? at + 1;
    if (!game.numbers || number !== game.numbers[at - 1]) turns.push([el("span", { class: "ply" }, `${number}.${game.numbers && game.sides[at] ? ".." : ""}`)]);
    turns[turns.length - 1].push(el("button", { type: "button", class: "move", onclick: () => go(at + 1) }, move));
  });
  list.replaceChildren(...turns.map((turn) => el("li", {}, turn)));
}

/** Marks the move that led to the position, and scrolls the list, but not the page, to it. */
function markMove() {
  const buttons = [...list.querySelectorAll("button")];
  for (const [at, one] of buttons.entries()) {
    if (at === ply - 1) one.setAttribute("aria-current", "step");
    else one.removeAttribute("aria-current");
  }
  const shown = (buttons[ply - 1] ?? buttons[0])?.closest("li");
  if (shown) list.scrollTop = shown.offsetTop - list.clientHeight / 2;
}

function drawValue() {
  const xs = game.moves.map((_, at) => at);
  value.set([
    { label: "after the search", xs, ys: game.values, colour: 0 },
    { label: "network alone", xs, ys: game.priors, colour: 1, dash: 1 },
  ], "ply", ply);
}

function drawSearch() {
  const found = position.search;
  if (!found) {
    search.replaceChildren(el("h2", {}, "End of the game"), el("p", {}, `${game.result}: ${ending(game.reason)}.`));
    return;
  }
  const mover = `${game.names[found.side]} played `.replace(/^t/, "T");
  if (!found.candidates.length) {
    search.replaceChildren(el("h2", {}, "No search"), el("p", {}, mover, el("b", {}, game.moves[position.ply]), ", without a search."));
    return;
  }
  const depth = found.depth ? `, depth ${fixed(found.depth[0], 1)} (deepest ${found.depth[1]})` : "";
  const shares = new Map(said()?.policy.map((one) => [one.text, one.share]) ?? []);
  const improved = found.visits === null; // shares of Gumbel's improved policy, which moves have without a visit, too
  const columns = [["Move"], ...(improved ? [] : [["Visits", true]]), ["Search"], ...(said() ? [["Network"]] : [])];
  const rows = found.candidates.map((one) => [
    el("span", { class: one.played ? "played" : null }, one.said), ...(improved ? [] : [count(one.visits)]), bar(one.share, 0), ...(said() ? [bar(shares.get(one.text), 1)] : [])]);
  search.replaceChildren(
    el("h2", {}, "Search"),
    el("p", {}, mover, el("b", {}, game.moves[position.ply]), `. Value ${signed(found.value, 3)}, network ${signed(found.prior_value, 3)}, KL ${fixed(found.kl, 3)} nats, ${improved ? "shares of the improved policy" : `${count(found.visits)} visits`}${depth}. ${found.is_target ? "The network learns from this policy." : "Not a policy target."}`),
    table(improved ? "Moves by their share" : "Moves by visits", columns, rows));
}

const said = () => (asked && position?.network?.asked === asked ? position.network : null);

function bar(share, colour) {
  const inner = el("span", { class: `bar c${colour}` });
  inner.style.width = `${Math.round(110 * (share ?? 0))}px`;
  return el("span", { class: "share" }, inner, percent(share));
}

function drawNetwork() {
  if (!weights.length) return;
  const { field } = choice("Policy of", [["", "no network"], ...weights.map((name) => [name, name])], asked, (name) => {
    asked = name;
    trying(askNetwork);
  });
  const found = said();
  const waits = asked && position?.search ? [el("p", { class: "note" }, "Asking the network. The first time takes some seconds.")] : [];
  const lines = found ? [el("p", {}, `${found.weights}: value ${signed(found.value, 3)} for the side to move; win ${percent(found.wdl[0])}, draw ${percent(found.wdl[1])}, loss ${percent(found.wdl[2])}, without a search.`)] : waits;
  network.replaceChildren(el("h2", {}, "Network"), ...lines, el("div", { class: "fields" }, field));
}

async function askNetwork() {
  const here = position;
  if (asked && here.search) {
    const found = await ask(api(run, `/games/${number}/at/${here.ply}/network?weights=${encodeURIComponent(asked)}`));
    here.network = { ...found, asked };
  }
  if (here === position) draw();
}

function draw() {
  slider.value = ply;
  const before = ply ? `, after ${game.moves[ply - 1]}` : "";
  where.replaceChildren(`Position ${ply} of ${game.moves.length}${before}`);
  onward.href = pageOf(run, `/play?game=${number}&ply=${ply}&side=${game.sides[ply] ?? 0}`);
  onward.hidden = ply === game.moves.length;
  board.show(position.board, [], position.search?.candidates ?? []);
  meaning.hidden = !position.search;
  const tried = position.search?.visits === null ? "with a share of the improved policy, the larger the more." : "that the search tried, the larger the more visits.";
  meaning.replaceChildren(`Green: moves ${tried}`);
  value.mark = ply;
  value.draw();
  markMove();
  drawSearch();
  drawNetwork();
  variations.at(ply, game.sides[ply], asked);
}

/** The position after moves that were not played; the next step returns to the game. */
async function showLine(moves) {
  const here = position;
  const found = await ask(api(run, `/games/${number}/at/${here.ply}?${new URLSearchParams({ line: moves.join(" ") })}`));
  if (here !== position) return;
  board.show(found.board);
  meaning.hidden = true;
  where.replaceChildren(`Variation from position ${here.ply}: ${moves.join(" ")}. `, el("button", { type: "button", onclick: () => draw() }, "Back to the game"));
}

async function show(to) {
  const wanted = Math.max(0, Math.min(game.moves.length, to));
  ply = wanted;
  const found = await ask(api(run, `/games/${number}/at/${wanted}`));
  if (wanted !== ply) return;
  position = found;
  history.replaceState(null, "", `#${ply}`);
  draw();
  await askNetwork();
}

const go = (to) => trying(() => show(to));

document.addEventListener("keydown", (event) => {
  if (!game || event.target.matches("input, select, textarea, .plot") || event.altKey || event.ctrlKey || event.metaKey) return;
  const to = { ArrowLeft: ply - 1, ArrowRight: ply + 1, Home: 0, End: game.moves.length }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  go(to);
});

await trying(async () => {
  game = await ask(api(run, `/games/${number}`));
  slider.max = game.moves.length;
  drawAbout();
  drawValue();
  drawMoves();
  main.append(about, el("div", { class: "beside stored" }, el("div", {}, board.element, steps, slider, where, meaning, onward), el("div", {}, list, search, network, variations.element)), value.element);
  // Without a place in the address: the last position in which there was something to decide.
  await show(location.hash ? Number(location.hash.slice(1)) || 0 : game.moves.length - 1);
});
if (game) {
  try {
    weights = await ask(api(run, "/weights"));
    const played = game.simulations !== null && weights.find((name) => Number(name.split("-")[0]) === Number(game.weights.split("-").pop()));
    asked = played || (weights[0] ?? "");
    drawNetwork();
    await askNetwork();
  } catch (error) {
    complain(error);
  }
}
