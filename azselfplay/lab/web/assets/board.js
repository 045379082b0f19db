// A board to look at or to play on. The game defines where its moves are clicked; moves without a place, and
// those of a game without a picture, are buttons. Everything can be done with the keyboard.

import { el, svgEl } from "./core.js";

/** A mark on one spot: a disc in its middle, or the foot of a column, so that the stones stay visible. */
function shade(spot, opacity, title) {
  const radius = Math.min(spot.width, spot.height) * 0.34;
  if (spot.height > 2 * spot.width) {
    const height = spot.width * 0.5;
    return svgEl("rect", { ...spot, y: spot.y + spot.height - height, height, rx: 4, class: "shade", opacity }, title);
  }
  return svgEl("circle", { cx: spot.x + spot.width / 2, cy: spot.y + spot.height / 2, r: radius, class: "shade", opacity }, title);
}

const PROSE = /[a-z]{3,} [a-z]{2,}/i; // a line below a board that says what its cells are called

/** The lines of a board without a picture; lines of words wrap, rows of cells never do. */
const drawn = (text) => text.split("\n").map((line) => el("span", { class: PROSE.test(line) ? "said" : false }, `${line}\n`));

/** A button at its place [row, column]: together they have the shape of the board. */
function placed(button, place) {
  if (place) [button.style.gridRow, button.style.gridColumn] = place.map((at) => at + 1);
  return button;
}

export class Board {
  /** `play(text)`: a move was chosen. Without it the board is for looking only. */
  constructor(play = null) {
    this.play = play;
    this.chosen = [];
    this.legal = [];
    this.picture = el("div", { class: "board" });
    this.chooser = el("div", { class: "chooser", role: "group", "aria-label": "Which move" });
    this.passes = el("div", { class: "passes" });
    this.buttons = el("div", { class: "moves" });
    this.count = el("summary", {});
    this.list = el("details", { class: "all-moves" }, this.count, this.buttons);
    this.element = el("div", { class: "board-and-moves" }, this.picture, this.chooser, this.passes, play ? this.list : null);
  }

  /** `arrows`: [{clicks, share, text}], drawn stronger the larger their share. */
  show(board, legal = [], arrows = []) {
    this.board = board;
    this.legal = legal;
    this.chosen = [];
    this.spots = new Map(board.spots.map(([name, x, y, width, height]) => [name, { x, y, width, height }]));
    if (board.svg === null) this.picture.replaceChildren(el("pre", { class: "drawing" }, ...drawn(board.text)));
    else this.picture.replaceChildren(this.image(), this.overlay = svgEl("svg", { class: "overlay", viewBox: `0 0 ${board.width || 1} ${board.height || 1}` }));
    this.arrows = arrows;
    this.offer();
  }

  image() {
    const source = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(this.board.svg)}`;
    return el("img", { class: "picture", src: source, alt: `Board: ${this.board.position}` });
  }

  /** What can be clicked now: spots, a choice between moves with the same clicks, and all moves as buttons. */
  offer() {
    const going = this.legal.filter((move) => this.chosen.every((name, at) => move.clicks[at] === name));
    const begun = this.chosen.length > 0;
    const done = begun ? going.filter((move) => move.clicks.length === this.chosen.length) : [];
    const button = (move) => el("button", { type: "button", class: "move", onclick: () => this.play(move.text) }, move.text);
    this.chooser.replaceChildren(...(done.length > 1 ? done.map(button) : []));
    const shaped = this.legal.some((move) => move.place);
    const apart = (move) => (this.board.svg === null ? shaped && !move.place : !move.clicks.length);
    this.passes.replaceChildren(...this.legal.filter(apart).map(button));
    this.buttons.replaceChildren(...this.legal.filter((move) => !shaped || move.place).map((move) => placed(button(move), move.place)));
    this.buttons.classList.toggle("like-the-board", shaped);
    this.count.textContent = `All ${this.legal.length} moves as buttons`;
    this.list.hidden = !this.legal.length;
    if (this.board.svg === null) this.list.open = true;
    if (this.overlay?.isConnected) this.drawOverlay(going, begun);
  }

  drawOverlay(going, begun) {
    const next = new Set(going.map((move) => move.clicks[this.chosen.length]).filter(Boolean));
    const first = new Set(this.legal.map((move) => move.clicks[0]).filter(Boolean));
    const parts = this.arrows.flatMap((arrow) => this.arrow(arrow));
    for (const [name, spot] of this.spots) {
      if (!next.has(name) && !first.has(name)) continue;
      const kind = this.chosen.includes(name) ? "chosen" : begun && next.has(name) ? "next" : "first";
      const act = () => this.click(name);
      parts.push(svgEl("rect", {
        ...spot, class: `spot ${kind}`, role: "button", tabindex: 0, "aria-label": this.named(name, kind), "data-spot": name, onclick: act,
        onkeydown: (event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          act();
        },
      }, svgEl("title", {}, name)));
    }
    this.overlay.replaceChildren(...parts);
  }

  named(name, kind) {
    return { chosen: `${name}, chosen`, next: `to ${name}`, first: name }[kind];
  }

  click(name) {
    const fits = (clicks) => this.legal.some((move) => clicks.every((one, at) => move.clicks[at] === one));
    const again = this.chosen.length === 1 && this.chosen[0] === name && !fits([name, name]);
    const longer = [...this.chosen, name];
    this.chosen = again ? [] : fits(longer) ? longer : [name];
    const done = this.legal.filter((move) => move.clicks.length === this.chosen.length && move.clicks.every((one, at) => one === this.chosen[at]));
    if (done.length === 1) {
      this.play(done[0].text);
      return;
    }
    this.offer();
    const focused = done.length ? this.chooser.firstChild : this.overlay.querySelector(`[data-spot="${CSS.escape(name)}"]`);
    focused?.focus();
  }

  arrow({ clicks, share, text }) {
    const spots = clicks.map((name) => this.spots.get(name));
    if (!spots.length || spots.includes(undefined)) return [];
    const middle = (spot) => [spot.x + spot.width / 2, spot.y + spot.height / 2];
    const strength = (0.15 + 0.75 * share).toFixed(2);
    const title = svgEl("title", {}, `${text} ${(100 * share).toFixed(0)} %`);
    const [x1, y1] = middle(spots[0]);
    if (spots.length === 1) return [shade(spots[0], strength, title)];
    const [x2, y2] = middle(spots[spots.length - 1]);
    const size = Math.min(spots[0].width, spots[0].height);
    const length = Math.hypot(x2 - x1, y2 - y1) || 1;
    const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
    const wide = size * (0.06 + 0.14 * share);
    const [hx, hy] = [x2 - dx * size * 0.32, y2 - dy * size * 0.32];
    const head = [[x2, y2], [hx - dy * wide * 1.6, hy + dx * wide * 1.6], [hx + dy * wide * 1.6, hy - dx * wide * 1.6]];
    return [svgEl("g", { class: "arrow", opacity: strength },
      svgEl("line", { x1, y1, x2: hx, y2: hy, "stroke-width": wide }),
      svgEl("polygon", { points: head.map((point) => point.map((n) => n.toFixed(1)).join(",")).join(" ") }), title)];
  }
}
