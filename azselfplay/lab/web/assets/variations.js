// What a network's search finds in a position of a stored game: lines of moves whose positions can be shown.

import { api, ask, choice, count, el, percent, signed, table, trying } from "./core.js";

const SIMULATIONS = [100, 400, 1600, 5000];

export class Variations {
  /** `show(moves)`: the person asked for the position after these moves. */
  constructor(run, number, show) {
    this.run = run;
    this.number = number;
    this.show = show;
    this.simulations = 400;
    this.busy = false;
    this.result = el("div", { "aria-live": "polite" });
    const { field } = choice("Simulations", SIMULATIONS.map((n) => [n, count(n)]), this.simulations, (n) => { this.simulations = Number(n); });
    this.start = el("button", { type: "button", onclick: () => trying(() => this.search()) }, "Search here");
    this.element = el("section", { "aria-label": "Variations", hidden: true },
      el("h2", {}, "Variations"), el("div", { class: "fields" }, field, this.start), this.result);
  }

  /** The position that is shown; `side` to move, undefined where the game is over. */
  at(ply, side, weights) {
    this.weights = weights;
    this.element.hidden = side === undefined;
    if (ply === this.ply) return;
    [this.ply, this.side] = [ply, side];
    this.result.replaceChildren();
  }

  async search() {
    if (this.busy) return;
    const ply = this.ply;
    this.busy = this.start.disabled = true;
    this.result.replaceChildren(el("p", { class: "note" }, "Searching. The first search of a kind takes up to a minute, while the rules are compiled."));
    try {
      const order = { weights: this.weights, side: this.side, simulations: this.simulations, game: this.number, ply };
      const { token } = await ask(api(this.run, "/play"), order);
      try {
        const { found, weights } = await ask(`/api/play/${token}/hint`, {});
        if (ply === this.ply) this.draw(found, weights);
      } finally {
        await ask(`/api/play/${token}/leave`, {});
      }
    } catch (error) {
      this.result.replaceChildren();
      throw error;
    } finally {
      this.busy = this.start.disabled = false;
    }
  }

  draw(found, weights) {
    const rows = found.lines.map(({ moves, visits, value, prior }) => [
      el("span", { class: "line" }, moves.map((move, at) => el("button", {
        type: "button", class: "move", "aria-label": `Show the position after ${moves.slice(0, at + 1).join(" ")}`, onclick: () => this.show(moves.slice(0, at + 1)),
      }, move))),
      count(visits), signed(value, 3), percent(prior),
    ]);
    this.result.replaceChildren(
      table("Variations", [["Line"], ["Visits", true], ["Value", true], ["Prior", true]], rows),
      el("p", { class: "note" }, `${weights}, ${count(found.simulations)} simulations. Values are for the side to move. Choose a move to see the position after it.`));
  }
}
