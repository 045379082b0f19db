// A board to look at or to play on. The game defines where its moves are clicked; a piece can be dragged too. Moves
// without a place are buttons, and so is every move below the board. Everything can be done with the keyboard.

import { choice, el, svgEl } from "./core.js";

const LETTERS = "letters";
const SLACK = 5; // pixels that a finger may move without dragging
const UNSURE = 0.2; // an owner below this is not shown
const byNumber = new Intl.Collator("en", { numeric: true });

/** The picture as elements of the page, so that a piece can be dragged, and style.css knows the dark. */
function drawing(svg, label) {
  // The pages forbid styles in markup. As attributes they are allowed.
  const source = svg.replaceAll(' style="', ' data-style="');
  const picture = document.adoptNode(new DOMParser().parseFromString(source, "image/svg+xml").documentElement);
  for (const one of picture.querySelectorAll("[data-style]")) {
    for (const [, name, value] of one.dataset.style.matchAll(/([\w-]+)\s*:\s*([^;]+)/g)) one.setAttribute(name, value);
  }
  picture.removeAttribute("width");
  picture.removeAttribute("height");
  for (const [name, value] of Object.entries({ class: "picture", role: "img", "aria-label": label })) picture.setAttribute(name, value);
  return picture;
}

/** Whether this machine has a Japanese font: without one all its characters look the same. */
function canWriteKanji() {
  const [one, other] = ["歩", "香"].map((text) => {
    const paper = el("canvas", { width: 20, height: 20 }).getContext("2d");
    paper.font = "16px sans-serif";
    paper.fillText(text, 1, 16);
    return paper.getImageData(0, 0, 20, 20).data.join();
  });
  return one !== other;
}

/** What is written on the pieces: `kanji` or `letters`. */
export const writing = () => localStorage.getItem("pieces") ?? (canWriteKanji() ? "kanji" : LETTERS);

const middle = (spot) => [spot.x + spot.width / 2, spot.y + spot.height / 2];

export class Board {
  /** `play(text)`: a move was chosen. Without it the board is for looking only. */
  constructor(play = null) {
    this.play = play;
    this.chosen = [];
    this.legal = [];
    this.dragged = null;
    this.focused = null; // the spot that the keyboard was at, until it can be there again
    this.picture = el("div", { class: "board" });
    this.chooser = el("div", { class: "chooser", role: "group", "aria-label": "Which move" });
    this.passes = el("div", { class: "passes" });
    this.buttons = el("div", { class: "moves" });
    this.count = el("summary", {});
    this.list = el("details", { class: "all-moves" }, this.count, this.buttons);
    this.pieces = el("div", { class: "fields" });
    this.text = el("pre", { class: "drawing" });
    this.element = el("div", { class: "board-and-moves" }, this.picture, this.chooser, this.passes, play ? this.list : null,
      el("details", { class: "all-moves" }, el("summary", {}, "The board as text"), this.text), this.pieces);
  }

  /** `arrows`: [{clicks, share, text}], drawn wider the larger their share; `owners`: {spot: who will own it, 1 the
   * first player, -1 the second}, drawn the larger the surer. */
  show(board, legal = [], arrows = [], owners = {}) {
    this.focused = this.overlay?.querySelector(":focus-visible")?.dataset.spot ?? this.focused;
    this.board = board;
    this.legal = legal;
    this.arrows = arrows;
    this.owners = owners;
    this.chosen = [];
    this.dragged = null;
    this.spots = new Map(board.spots.map(([name, x, y, width, height]) => [name, { x, y, width, height }]));
    this.drawn = drawing(board.svg, `Board: ${board.position}`);
    this.marks = svgEl("g");
    this.overlay = svgEl("svg", {
      class: "overlay", viewBox: `0 0 ${board.width} ${board.height}`,
      onpointerdown: (event) => this.grab(event), onpointermove: (event) => this.drag(event),
      onpointerup: (event) => this.drop(event), onpointercancel: () => this.letGo(),
    });
    this.picture.style.maxWidth = `${(74 * board.width) / board.height}vh`; // the whole board is seen at once
    this.picture.replaceChildren(this.drawn, this.overlay);
    this.text.textContent = board.text;
    this.write();
    this.offer();
    if (this.focused === null || !legal.length) return;
    if (document.activeElement === document.body) (this.spotOf(this.focused) ?? this.overlay.querySelector(".spot"))?.focus();
    this.focused = null;
  }

  spotOf(name) {
    return this.overlay.querySelector(`[data-spot="${CSS.escape(name)}"]`);
  }

  /** Kanji or letters on the pieces of a game that has both. */
  write() {
    const named = this.drawn.querySelectorAll("[data-kanji]");
    if (!named.length) return;
    if (!this.pieces.firstChild) {
      this.pieces.append(choice("Pieces", [["kanji", "kanji"], [LETTERS, "letters"]], writing(), (which) => {
        localStorage.setItem("pieces", which);
        dispatchEvent(new Event("writing"));
        this.show(this.board, this.legal, this.arrows);
      }).field);
    }
    if (writing() === LETTERS) return;
    for (const one of named) {
      one.textContent = one.dataset.kanji;
      if (one.dataset.turn) one.setAttribute("transform", one.dataset.turn);
    }
  }

  /** What can be clicked now: spots, a choice between moves with the same clicks, and all moves as buttons. */
  offer() {
    const done = this.done();
    const button = (move) => el("button", { type: "button", class: "move", onclick: () => this.play(move.text) }, move.said ?? move.text);
    this.chooser.replaceChildren(...done.map(button));
    this.passes.replaceChildren(...this.legal.filter((move) => !move.clicks.length).map(button));
    const sorted = [...this.legal].sort((one, other) => byNumber.compare(one.said ?? one.text, other.said ?? other.text));
    this.buttons.replaceChildren(...sorted.map(button));
    this.count.textContent = `All ${this.legal.length} moves as buttons`;
    this.list.hidden = !this.legal.length;
    this.drawOverlay();
    this.mark();
  }

  /** Marks where the chosen piece may go: in the picture, so that a dragged piece is above. */
  mark() {
    const next = this.chosen.length ? [...this.next()] : [];
    this.marks.replaceChildren(...next.map((name) => this.target(name, this.spots.get(name))));
    this.drawn.append(this.marks);
  }

  drawOverlay() {
    const next = this.next();
    const first = new Set(this.legal.map((move) => move.clicks[0]).filter(Boolean));
    const owned = Object.entries(this.owners).filter(([name, value]) => this.spots.has(name) && Math.abs(value) >= UNSURE);
    const parts = [...owned.map(([name, value]) => this.owner(name, value)), ...this.arrows.flatMap((arrow) => this.arrow(arrow))];
    for (const [name, spot] of this.spots) {
      if (!next.has(name) && !first.has(name)) continue;
      const kind = this.chosen.includes(name) ? "chosen" : this.chosen.length && next.has(name) ? "next" : "first";
      const moves = this.canDrag(name) ? " movable" : "";
      parts.push(svgEl("rect", {
        ...spot, class: `spot ${kind}${moves}`, role: "button", tabindex: 0, "aria-label": this.named(name, kind), "data-spot": name, onclick: () => this.click(name),
        onkeydown: (event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          this.click(name);
        },
      }, svgEl("title", {}, name)));
    }
    this.overlay.classList.toggle("drags", [...first].some((name) => this.canDrag(name)));
    this.overlay.replaceChildren(...parts);
  }

  /** A dot, or a ring around a piece that is taken. */
  target(name, spot) {
    const [cx, cy] = middle(spot);
    const size = Math.min(spot.width, spot.height);
    const takes = this.on(name).length > 0;
    return svgEl("circle", { cx, cy, r: size * (takes ? 0.44 : 0.15), class: takes ? "target taken" : "target" });
  }

  named(name, kind) {
    return { chosen: `${name}, chosen`, next: `to ${name}`, first: name }[kind];
  }

  /** The legal moves whose clicks begin with these. */
  going(clicks) {
    return this.legal.filter((move) => clicks.every((one, at) => move.clicks[at] === one));
  }

  fits(clicks) {
    return this.going(clicks).length > 0;
  }

  /** The moves that are chosen whole: several where they have the same clicks. */
  done() {
    return this.chosen.length ? this.going(this.chosen).filter((move) => move.clicks.length === this.chosen.length) : [];
  }

  /** The spots that a next click may choose. */
  next() {
    return new Set(this.going(this.chosen).map((move) => move.clicks[this.chosen.length]).filter(Boolean));
  }

  click(name) {
    const again = this.chosen.length === 1 && this.chosen[0] === name && !this.fits([name, name]);
    const longer = [...this.chosen, name];
    this.chosen = again ? [] : this.fits(longer) ? longer : [name];
    const done = this.done();
    // Not where a longer move begins with the same clicks.
    if (done.length === 1 && this.going(this.chosen).length === 1) {
      this.play(done[0].text);
      return;
    }
    this.offer();
    (done.length ? this.chooser.firstChild : this.spotOf(name))?.focus();
  }

  // ---- Dragging ----------------------------------------------------------------------------------

  canDrag(name) {
    return this.legal.some((move) => move.clicks.length > 1 && move.clicks[0] === name);
  }

  /** The parts of the picture that stand on a spot: its piece. */
  on(name) {
    const spot = this.spots.get(name);
    return [...this.drawn.querySelectorAll("use, circle:not(.target), polygon, text")].filter((one) => {
      const { left, top, width, height } = one.getBoundingClientRect();
      const { x, y } = this.point(left + width / 2, top + height / 2);
      return width > 0 && x > spot.x && x < spot.x + spot.width && y > spot.y && y < spot.y + spot.height;
    });
  }

  /** A point of the screen in the picture's units. */
  point(x, y) {
    return new DOMPoint(x, y).matrixTransform(this.overlay.getScreenCTM().inverse());
  }

  grab(event) {
    const name = event.target.dataset?.spot;
    if (event.button === 0 && name && this.canDrag(name)) this.dragged = { name, from: this.point(event.clientX, event.clientY), x: event.clientX, y: event.clientY, piece: null };
  }

  drag(event) {
    const held = this.dragged;
    if (!held || (!held.piece && Math.hypot(event.clientX - held.x, event.clientY - held.y) < SLACK)) return;
    if (!held.piece) {
      held.piece = this.on(held.name);
      this.overlay.setPointerCapture(event.pointerId);
      this.chosen = [held.name];
      this.mark();
      this.drawn.append(...held.piece); // above all others
    }
    const { x, y } = this.point(event.clientX, event.clientY);
    this.move(held.piece, x - held.from.x, y - held.from.y);
  }

  move(piece, x, y) {
    for (const one of piece) one.style.translate = x || y ? `${x}px ${y}px` : "";
  }

  drop(event) {
    const held = this.dragged;
    if (!held?.piece) {
      this.dragged = null; // a click
      return;
    }
    const { x, y } = this.point(event.clientX, event.clientY);
    const [to, spot] = [...this.spots].find(([, one]) => x >= one.x && x < one.x + one.width && y >= one.y && y < one.y + one.height) ?? [];
    if (to === undefined || to === held.name || !this.fits([held.name, to])) {
      this.letGo();
      return;
    }
    const [from, goal] = [middle(this.spots.get(held.name)), middle(spot)];
    this.move(held.piece, goal[0] - from[0], goal[1] - from[1]); // until the board of the next position is there
    this.dragged = null;
    this.click(to);
  }

  /** The piece goes back; what was chosen can be chosen anew. */
  letGo() {
    if (this.dragged?.piece) {
      this.move(this.dragged.piece, 0, 0);
      this.chosen = [];
      this.offer();
    }
    this.dragged = null;
  }

  // ---- Hints -------------------------------------------------------------------------------------

  owner(name, value) {
    const spot = this.spots.get(name);
    const [x, y] = middle(spot);
    const size = 0.4 * Math.abs(value) * Math.min(spot.width, spot.height);
    return svgEl("rect", { x: x - size / 2, y: y - size / 2, width: size, height: size, class: value > 0 ? "owner" : "owner second" });
  }

  arrow({ clicks, share, size: weight = share, text }) {
    const spots = clicks.map((name) => this.spots.get(name));
    if (!spots.length || spots.includes(undefined)) return [];
    const title = svgEl("title", {}, `${text} ${(100 * share).toFixed(0)} %`);
    const [spot] = spots;
    const size = Math.min(spot.width, spot.height);
    const [x1, y1] = middle(spot);
    if (spots.length === 1) {
      // A disc in the middle, or at the top of a column, which is free where the column can be chosen.
      const cy = spot.height > 2 * spot.width ? spot.y + size / 2 : y1;
      return [svgEl("circle", { cx: x1, cy, r: size * (0.12 + 0.26 * weight), class: "shade" }, title)];
    }
    const [x2, y2] = middle(spots[spots.length - 1]);
    const length = Math.hypot(x2 - x1, y2 - y1) || 1;
    const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
    const wide = size * (0.05 + 0.15 * weight);
    const [hx, hy] = [x2 - dx * size * 0.32, y2 - dy * size * 0.32];
    // One outline around shaft and head.
    const shape = [[1, x1, y1], [1, hx, hy], [2.8, hx, hy], [0, x2, y2], [-2.8, hx, hy], [-1, hx, hy], [-1, x1, y1]]
      .map(([side, x, y]) => `${(x - dy * side * wide / 2).toFixed(1)},${(y + dx * side * wide / 2).toFixed(1)}`);
    return [svgEl("polygon", { points: shape.join(" "), class: "arrow" }, title)];
  }
}
