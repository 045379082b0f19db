// A stored game, position by position: what the search found there, and the answer of a network.

import { api, ask, choice, complain, count, el, ending, fixed, main, pageOf, percent, signed, table, trying } from "./core.js";
import { Board } from "./board.js";
import { Chart } from "./chart.js";
import { Variations } from "./variations.js";

const { run, number } = main.dataset;
const SIDES = ["first player", "second player"];
const OTHERS = 3; // other moves of each search in a download with variations
const about = el("p", { class: "state" });
const board = new Board();
const value = new Chart({ title: "Value for the first player", unit: "value", caption: "After the search, and the network's own before it. Click to go there.", range: [-1.05, 1.05], least_step: 1, decimals: 3, choose: (at) => go(Math.round(at)) });
const slider = el("input", { type: "range", min: 0, value: 0, "aria-label": "Position", oninput: () => go(Number(slider.value)) });
const where = el("p", { class: "where", role: "status" });
const search = el("section", { "aria-label": "The search in this position" });
const network = el("section", { "aria-label": "A network on this position" });
const variations = new Variations(run, Number(number), (moves) => trying(() => showLine(moves)));
const meaning = el("p", { class: "note", hidden: true }, "Green: moves that the search tried. The stronger the green, the more visits.");
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
    `${game.result}${score}: ${ending(game.reason)}, ${game.plies} plies, weights ${game.weights}, ${count(game.simulations)} simulations a move, played by ${game.player || "?"}. `,
    "Download: ", links, " ",
    el("label", { class: "check" }, withOthers, ` with the ${OTHERS} most visited other moves as variations`));
  drawLinks();
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
  const depth = found.depth ? `, depth ${fixed(found.depth[0], 1)} (deepest ${found.depth[1]})` : "";
  const shares = new Map(said()?.policy.map((one) => [one.text, one.share]) ?? []);
  const columns = [["Move"], ["Visits", true], ["Search"], ...(said() ? [["Network"]] : [])];
  const rows = found.candidates.map((one) => [
    el("span", { class: one.text === found.move ? "played" : null }, one.text), count(one.visits), bar(one.share, 0), ...(said() ? [bar(shares.get(one.text), 1)] : [])]);
  search.replaceChildren(
    el("h2", {}, "Search"),
    el("p", {}, `The ${SIDES[found.side]} played `, el("b", {}, found.move), `. Value ${signed(found.value, 3)}, network ${signed(found.prior_value, 3)}, KL ${fixed(found.kl, 3)} nats, ${count(found.visits)} visits${depth}. ${found.is_target ? "The network learns from this policy." : "Not a policy target."}`),
    table("Moves by visits", columns, rows));
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
  const lines = found ? [el("p", {}, `${found.weights}: value ${signed(found.value, 3)} for the side to move; win ${percent(found.wdl[0])}, draw ${percent(found.wdl[1])}, loss ${percent(found.wdl[2])}, without a search.`)] : [];
  network.replaceChildren(el("h2", {}, "Network"), el("div", { class: "fields" }, field), ...lines);
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
  meaning.hidden = !position.search || position.board.svg === null;
  value.mark = ply;
  value.draw();
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

async function go(to) {
  const wanted = Math.max(0, Math.min(game.moves.length, to));
  ply = wanted;
  await trying(async () => {
    const found = await ask(api(run, `/games/${number}/at/${wanted}`));
    if (wanted !== ply) return;
    position = found;
    history.replaceState(null, "", `#${ply}`);
    draw();
    await askNetwork();
  });
}

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
  main.append(about, el("div", { class: "beside" }, el("div", {}, board.element, meaning, steps, slider, where, onward), el("div", {}, search, network, variations.element)), value.element);
  await go(Number(location.hash.slice(1)) || 0);
});
if (game) {
  try {
    weights = await ask(api(run, "/weights"));
    drawNetwork();
  } catch (error) {
    complain(error);
  }
}
