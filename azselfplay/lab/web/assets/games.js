// The stored games of a run, with a filter.

import { api, ask, choice, count, el, main, pageOf, table, trying, words } from "./core.js";

const { run } = main.dataset;
const COLUMNS = [["Game", true], ["Result"], ["Ended by"], ["Last moves"], ["Plies", true], ["Weights", true], ["Played by"], ["Stored"]];
const query = new URLSearchParams(location.search);
const place = el("div");
const form = el("form", { class: "fields", onsubmit: (event) => { event.preventDefault(); change(); } });
let reasonsKnown = false;
main.append(form, place);

function number(name, text) {
  const input = el("input", { name, type: "number", min: 0, value: query.get(name) ?? "", inputmode: "numeric" });
  return el("label", {}, el("span", {}, text), input);
}

function drawForm(reasons) {
  if (reasonsKnown) return;
  reasonsKnown = true;
  const named = (name, text, options) => {
    const { select, field } = choice(text, [["", "any"], ...options], query.get(name) ?? "");
    select.name = name;
    return field;
  };
  form.replaceChildren(
    named("outcome", "Result", [["first", "first player won"], ["draw", "draw"], ["second", "second player won"]]),
    named("reason", "Ended by", reasons.map((reason) => [reason, words(reason)])),
    named("source", "Played by", [["workers", "workers of azserver"], ["clients", "clients"], ["imported", "imported"]]),
    number("version", "Weights version"), number("min_plies", "Plies from"), number("max_plies", "to"),
    el("button", { type: "submit" }, "Show"),
  );
}

function change() {
  const wanted = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  history.replaceState(null, "", `?${wanted}`);
  trying(() => look(wanted));
}

function row(game) {
  return [
    el("a", { href: pageOf(run, `/games/${game.number}`) }, count(game.number)), game.result, words(game.reason),
    el("span", { class: "moves-of" }, game.last.length < game.plies ? "… " : "", game.last.join(" ")), count(game.plies), game.weights, game.source,
    new Date(1000 * game.received).toLocaleString(),
  ];
}

async function look(wanted) {
  const found = await ask(api(run, `/games?${wanted}`));
  drawForm(found.reasons);
  const more = new URLSearchParams(wanted);
  more.set("before", found.older ?? 0);
  const older = el("button", { type: "button", onclick: () => trying(() => look(more)) }, "Older games");
  const [low, high] = found.looked_at;
  place.replaceChildren(
    found.games.length ? table("Games", COLUMNS, found.games.map(row)) : el("p", {}, "No game passes this filter."),
    el("p", { class: "note" }, `Searched games ${count(low)} to ${count(high)} of ${count(found.span[1])}. `),
    found.older === null ? "" : older,
  );
}

trying(() => look(query));
