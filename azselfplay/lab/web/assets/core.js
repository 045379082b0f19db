// What all pages use: elements, requests, numbers for people.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; text children are never markup. `on...` attributes listen. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svgEl(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** The JSON at `path`; with a `body` the request is a POST. Throws an Error with a message for people, and HTTP's
 * status if there was an answer. */
export async function ask(path, body) {
  const order = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(path, body === undefined ? {} : order);
  } catch {
    throw new Error("azplay web does not answer. Is it still running?");
  }
  const found = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(found.error), { status: answer.status });
  return found;
}

export const main = document.getElementById("main");

/** The path of a run's data. */
export const api = (run, rest = "") => `/api/run/${encodeURIComponent(run)}${rest}`;
export const pageOf = (run, rest = "") => `/run/${encodeURIComponent(run)}${rest}`;

const trouble = el("p", { role: "alert", class: "trouble", hidden: true });

/** Shows what went wrong at the top of the page; "" removes it. */
export function complain(error) {
  if (!trouble.isConnected) main.querySelector("h1").after(trouble);
  trouble.textContent = error instanceof Error ? error.message : error;
  trouble.hidden = !trouble.textContent;
}

/** Runs `work`, and shows what goes wrong. */
export async function trying(work) {
  try {
    await work();
    complain("");
  } catch (error) {
    complain(error);
  }
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export const count = (number) => (number === null || number === undefined ? "–" : whole.format(number));
export const fixed = (number, digits) =>
  number === null || number === undefined ? "–" : number.toFixed(digits);
export const percent = (share) =>
  share === null || share === undefined ? "–" : `${(100 * share).toFixed(share < 0.1 || (share > 0.9 && share < 1) ? 1 : 0)} %`;
export const signed = (number, digits) =>
  number === null || number === undefined ? "–" : `${number >= 0 ? "+" : "−"}${Math.abs(number).toFixed(digits)}`;

/** Seconds for people: `12 s`, `5 min`, `3 h`, `4 days`. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds < 100) return `${Math.round(seconds)} s`;
  if (seconds < 100 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 72 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

/** A duration that may be short: with a decimal below ten seconds. */
export function taken(seconds) {
  if (seconds === null || seconds === undefined || !(seconds < 9.95)) return duration(seconds);
  return seconds < 0.05 ? "under 0.1 s" : `${seconds.toFixed(1)} s`;
}

/** How long ago `when` was; `when` is in seconds since 1970. */
export const ago = (when) => (when === null || when === undefined ? "–" : `${duration(Math.max(0, Date.now() / 1000 - when))} ago`);

/** The state of a run: [text, class of its badge]. */
export const stateOf = (run) => ({
  running: ["running", "badge good"], ended: ["ended", "badge"], silent: [`no answer for ${duration(run.silent_s)}`, "badge bad"],
}[run.state]);
export const words = (name) => (name || "").replaceAll("_", " ");

const ENDINGS = {
  line: "three in a row", four: "four in a row", board_full: "the board is full", ply_cap: "the limit of plies is reached",
  more_points: "the winner has more points", fewer_points: "the winner has more points", as_many_points: "both have as many points",
  more_boxes: "the winner has more boxes", fewer_boxes: "the winner has more boxes", as_many_boxes: "both have as many boxes",
};
/** Why a game is over; games of other packages have their own names for it. */
export const ending = (reason) => ENDINGS[reason] ?? words(reason);

/** A table that scrolls by itself where it is wider than the screen. `columns`: [heading, is a number]. */
export function table(caption, columns, rows) {
  const head = columns.map(([text, isNumber]) => el("th", { scope: "col", class: isNumber && "number" }, text));
  const cells = (row) => row.map((cell, at) => el("td", { class: columns[at][1] && "number" }, cell ?? "–"));
  return el(
    "div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    el("table", {}, el("caption", { class: "unseen" }, caption),
      el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows.map((row) => el("tr", {}, cells(row))))),
  );
}

/** Makes `place` contain `children`, but replaces only what differs: focus, selected text and scrolling stay. It does not compare listeners. */
export function update(place, ...children) {
  const shown = [...place.childNodes];
  if (shown.length !== children.length) {
    place.replaceChildren(...children);
    return;
  }
  children.forEach((child, at) => {
    if (shown[at].isEqualNode(child)) return;
    if (child.hasChildNodes() && shown[at].cloneNode().isEqualNode(child.cloneNode())) update(shown[at], ...child.childNodes);
    else shown[at].replaceWith(child);
  });
}

/** A choice with a label. `options`: [value, text]. */
export function choice(label, options, selected, onchange) {
  const select = el("select", { onchange: () => onchange?.(select.value) },
    options.map(([value, text]) => el("option", { value, selected: String(value) === String(selected) }, text)));
  return { select, field: el("label", {}, el("span", {}, label), select) };
}

/** A command for a shell, with a button that copies it; the text can be selected where a browser has no clipboard. */
export function command(text) {
  const button = el("button", { type: "button", onclick: async () => {
    await navigator.clipboard?.writeText(text);
    button.textContent = navigator.clipboard ? "Copied" : "Select it";
  } }, "Copy");
  return el("p", { class: "command" }, el("code", {}, text), button);
}
