// Curves as SVG that can be zoomed: drag over a stretch, use the buttons, or the keyboard.

import { el, signed, svgEl } from "./core.js";

const HEIGHT = 230;
const EDGE = { left: 54, right: 12, top: 22, bottom: 34 };
const DASHES = 6; // that style.css tells apart
const LEAST_SPAN = 0.1; // of the largest value, that an axis shows at least when it does not begin at 0
const DOT = 4; // pixels that the outermost dots need beyond the axes
const STEP = 0.5; // of the width that one zoom by button keeps

/** About `wanted` round numbers between `low` and `high`, at least `least` apart. */
function ticks(low, high, wanted, least = 0) {
  const rough = Math.max(least, (high - low) / Math.max(1, wanted));
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step * 1e-9; at += 1) found.push(at * step);
  return found;
}

/** 1, 2 and 5 times powers of ten between `low` and `high`, for an axis in logarithms. */
function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) found.push(...[1, 2, 5].map((n) => n * 10 ** power));
  return found.filter((at) => at >= low && at <= high);
}

/** Labels of numbers one step apart: with just enough digits to tell neighbours apart. */
function labels(places, percent = false) {
  const most = Math.max(...places.map(Math.abs));
  const [scale, suffix] = percent ? [100, " %"] : most >= 1e6 ? [1e-6, "M"] : most >= 1e4 ? [1e-3, "k"] : [1, ""];
  const step = places.length > 1 ? scale * (places[1] - places[0]) : scale * (most || 1);
  const digits = Math.min(12, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
  return places.map((at) => `${(scale * at).toFixed(digits).replace(/^-(0(\.0*)?)$/, "$1")}${suffix}`);
}

export function short(number) {
  const size = Math.abs(number);
  if (size >= 1e6) return `${+(number / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(number / 1e3).toPrecision(3)}k`;
  return `${size < 1 ? +number.toFixed(4) : +number.toPrecision(4)}`;
}

const looks = ({ colour = 0, dash = 0 }) => `c${colour} d${dash % DASHES}`;

export class Chart {
  /** `unit` of the y axis, which begins at 0; with a `least_span` it follows the curves and shows at least that span. `least_step`: between two marks of the x axis. `decimals` of the values in the legend, which have a sign then. `choose(x)`: called when somebody clicks a place on the x axis; it replaces zooming by dragging. */
  constructor({ title, caption = "", percent = false, unit = "", least_span = null, range = null, least_step = 0, decimals = null, choose = null }) {
    this.percent = percent;
    this.unit = unit;
    this.leastSpan = least_span;
    this.range = range;
    this.leastStep = least_step;
    this.decimals = decimals;
    this.choose = choose;
    this.isLog = false;
    this.series = [];
    this.levels = [];
    this.zoom = null;
    this.cursor = null;
    this.svg = svgEl("svg", { class: "plot", height: HEIGHT, tabindex: 0, role: "img", "aria-label": title });
    this.legend = el("ul", { class: "legend" });
    this.title = title;
    const button = (text, label, act) => el("button", { type: "button", "aria-label": `${title}: ${label}`, onclick: act }, text);
    this.all = button("All", "show everything", () => this.zoomTo(null));
    const tools = choose ? null : el("div", { class: "tools" },
      button("+", "zoom in", () => this.zoomBy(STEP)), button("−", "zoom out", () => this.zoomBy(1 / STEP)), this.all);
    this.element = el("figure", { class: "chart" },
      el("figcaption", {}, el("h3", {}, title), tools), this.svg, this.legend,
      caption ? el("p", { class: "note" }, caption) : null);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  /** `series`: {label, xs, ys, colour, dash, margins, faint}; null values are gaps, and faint ones are not in the legend. `levels`: horizontal lines, {label, y}. */
  set(series, xLabel, mark = null, levels = []) {
    this.series = series;
    this.xLabel = xLabel;
    this.mark = mark;
    this.levels = levels;
    this.draw();
  }

  extent() {
    const xs = this.series.flatMap((one) => one.xs.filter((x, at) => x !== null && one.ys[at] !== null));
    return xs.length ? [Math.min(...xs), Math.max(...xs)] : [0, 1];
  }

  seen() {
    let [low, high] = this.zoom ?? this.extent();
    if (high <= low) [low, high] = [low - 0.5, high + 0.5];
    return [low, high];
  }

  zoomTo(span) {
    this.zoom = span;
    this.draw();
  }

  zoomBy(share) {
    const [low, high] = this.seen();
    const [first, last] = this.extent();
    const middle = this.cursor ?? (low + high) / 2;
    const half = ((high - low) * share) / 2;
    const from = Math.max(first, middle - half);
    const to = Math.min(last, middle + half);
    this.zoomTo(from <= first && to >= last ? null : [from, to]);
  }

  pan(share) {
    const [low, high] = this.seen();
    const [first, last] = this.extent();
    const by = Math.max(first - low, Math.min(last - high, share * (high - low)));
    if (this.zoom) this.zoomTo([low + by, high + by]);
  }

  heights([low, high]) {
    if (this.range) return this.range;
    const ys = this.series.flatMap((one) => one.ys.flatMap((y, at) => {
      if (y === null || y === undefined || one.xs[at] < low || one.xs[at] > high) return [];
      const margin = one.margins?.[at] ?? 0;
      return margin ? [y - margin, y + margin] : [y];
    }));
    if (!ys.length) return [0, 1];
    ys.push(...this.levels.map((level) => level.y));
    const [least, most] = [Math.min(...ys), Math.max(...ys)];
    if (this.isLog && least > 0) return [least / 1.05, 1.05 * most];
    if (this.leastSpan === null && !this.zoom && least >= 0) return [0, this.percent ? Math.min(1, 1.06 * most || 1) : 1.06 * most || 1];
    // Values that hardly differ must not look like a cliff.
    const span = Math.max(1.12 * (most - least), this.leastSpan ?? LEAST_SPAN * Math.abs(most)) || 1;
    const from = (least + most - span) / 2;
    const [floor, ceiling] = [this.leastSpan === null && least >= 0 ? 0 : -Infinity, this.percent ? 1 : Infinity];
    return [Math.max(floor, from), Math.min(ceiling, from + span)];
  }

  draw() {
    const width = this.svg.clientWidth;
    if (!width || !this.xLabel) return;
    const x = this.seen();
    const y = this.heights(x);
    this.place = (value) => EDGE.left + ((value - x[0]) / (x[1] - x[0])) * (width - EDGE.left - EDGE.right);
    this.value = (pixels) => x[0] + ((pixels - EDGE.left) / (width - EDGE.left - EDGE.right)) * (x[1] - x[0]);
    // Values that may be 0 or less have no logarithm.
    const scale = this.isLog && y[0] > 0 && !this.range ? Math.log10 : (value) => value;
    this.height = (value) => HEIGHT - EDGE.bottom - ((scale(value) - scale(y[0])) / (scale(y[1]) - scale(y[0]))) * (HEIGHT - EDGE.top - EDGE.bottom);
    this.isLogNow = scale === Math.log10;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.replaceChildren(...this.axes(x, y, width), ...this.lines(width), ...this.curves(x, width), this.line = svgEl("line", { class: "cursor", y1: EDGE.top, y2: HEIGHT - EDGE.bottom, visibility: "hidden" }), this.band = svgEl("rect", { class: "band", y: EDGE.top, height: HEIGHT - EDGE.top - EDGE.bottom, visibility: "hidden" }));
    this.all.disabled = this.zoom === null;
    this.tell();
  }

  axes(x, y, width) {
    const powers = this.isLogNow ? logTicks(y[0], y[1]) : [];
    const heights = powers.length > 1 ? powers : ticks(y[0], y[1], 5);
    const written = powers.length > 1 && !this.percent ? powers.map(short) : labels(heights, this.percent);
    const lines = heights.flatMap((at, index) => [
      svgEl("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: this.height(at), y2: this.height(at) }),
      svgEl("text", { x: EDGE.left - 6, y: this.height(at) + 4, class: "tick end y" }, written[index]),
    ]);
    const places = ticks(x[0], x[1], width / 80, this.leastStep);
    const named = labels(places);
    const marks = places.map((at, index) => {
      const anchor = this.place(at) > width - EDGE.right - 20 ? "end" : "middle";
      return svgEl("text", { x: Math.min(this.place(at), width - 2), y: HEIGHT - EDGE.bottom + 15, class: `tick x ${anchor}` }, named[index]);
    });
    const name = svgEl("text", { x: width - EDGE.right, y: HEIGHT - 4, class: "tick end" }, this.xLabel);
    const unit = svgEl("text", { x: 2, y: 12, class: "tick" }, this.unit);
    return [...lines, ...marks, name, unit];
  }

  /** The levels, and over them the names of those that are far enough apart. */
  lines(width) {
    let last = Infinity;
    const named = [...this.levels].sort((a, b) => a.y - b.y).flatMap(({ label, y }) => {
      if (last - this.height(y) < 13) return [];
      last = this.height(y);
      return [svgEl("text", { class: "tick named", x: EDGE.left + 4, y: last + 4 }, label)];
    });
    const lines = this.levels.map(({ y }) => svgEl("line", { class: "level", x1: EDGE.left, x2: width - EDGE.right, y1: this.height(y), y2: this.height(y) }));
    return [...lines, ...named];
  }

  curves(x, width) {
    const clip = `clip${Math.random().toString(36).slice(2)}`;
    const frame = svgEl("clipPath", { id: clip }, svgEl("rect", { x: EDGE.left - DOT, y: 0, width: width - EDGE.left - EDGE.right + 2 * DOT, height: HEIGHT }));
    const drawn = this.series.flatMap((one) => {
      // A value of 0 or less that is out of sight must not spoil the logarithms of the others.
      const points = one.xs.map((at, index) => [at, one.ys[index], one.margins?.[index]])
        .filter(([at, value, margin]) => at !== null && value !== null && value !== undefined && (!this.isLogNow || value > (margin ?? 0)));
      const path = points.map(([at, value], index) => `${index ? "L" : "M"}${this.place(at).toFixed(1)} ${this.height(value).toFixed(1)}`).join("");
      const parts = [svgEl("path", { d: path || "M0 0", class: `curve ${looks(one)}${one.faint ? " faint" : ""}` })];
      if (points.length <= 60 && !one.faint) {
        for (const [at, value, margin] of points) {
          if (margin) parts.push(svgEl("line", { class: `margin c${one.colour}`, x1: this.place(at), x2: this.place(at), y1: this.height(value - margin), y2: this.height(value + margin) }));
          parts.push(svgEl("circle", { class: `dot c${one.colour}`, cx: this.place(at), cy: this.height(value), r: 2.5 }));
        }
      }
      return parts;
    });
    if (this.mark !== null) drawn.push(svgEl("line", { class: "marked", x1: this.place(this.mark), x2: this.place(this.mark), y1: EDGE.top, y2: HEIGHT - EDGE.bottom }));
    return [frame, svgEl("g", { "clip-path": `url(#${clip})` }, drawn)];
  }

  /** The legend with the values at the cursor, or with the newest values. */
  tell() {
    const at = this.cursor ?? this.mark ?? this.seen()[1];
    const written = (value) => {
      if (value === null) return "–";
      if (this.decimals !== null) return signed(value, this.decimals);
      return this.percent ? `${(100 * value).toFixed(1)} %` : short(value);
    };
    const told = this.series.filter((one) => !one.faint).map((one) => [one, written(nearest(one, at))]);
    this.legend.replaceChildren(...told.map(([one, value]) => el("li", {},
      svgEl("svg", { class: "swatch", viewBox: "0 0 34 4", "aria-hidden": "true" }, svgEl("line", { class: `curve ${looks(one)}`, x1: 0, x2: 34, y1: 2, y2: 2 })),
      `${one.label} `, el("b", {}, value))));
    const all = told.map(([one, value]) => `${one.label} ${value}`).join(", ");
    this.svg.setAttribute("aria-label", `${this.title} at ${this.xLabel} ${short(at)}: ${all || "no figures yet"}`);
  }

  point(at) {
    this.cursor = at;
    this.line.setAttribute("visibility", at === null ? "hidden" : "visible");
    if (at !== null) for (const end of ["x1", "x2"]) this.line.setAttribute(end, this.place(at));
    this.tell();
  }

  listen() {
    const where = (event) => {
      const [low, high] = this.seen();
      return Math.min(high, Math.max(low, this.value(event.clientX - this.svg.getBoundingClientRect().left)));
    };
    let from = null;
    this.svg.addEventListener("pointerdown", (event) => {
      if (!this.value || event.button) return;
      if (this.choose) this.choose(where(event));
      else from = where(event);
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!this.value) return;
      this.point(where(event));
      if (from === null) return;
      const [left, right] = [from, this.cursor].sort((a, b) => a - b).map((at) => this.place(at));
      this.band.setAttribute("visibility", "visible");
      this.band.setAttribute("x", left);
      this.band.setAttribute("width", right - left);
    });
    this.svg.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const span = [from, where(event)].sort((a, b) => a - b);
      from = null;
      const pixels = this.place(span[1]) - this.place(span[0]);
      if (pixels > 8) this.zoomTo(span);
      else this.draw();
    });
    this.svg.addEventListener("pointerleave", () => {
      from = null;
      this.band?.setAttribute("visibility", "hidden");
      if (this.line) this.point(null);
    });
    this.svg.addEventListener("dblclick", () => this.zoomTo(null));
    this.svg.addEventListener("keydown", (event) => {
      if (!this.value || this.choose) return;
      const acts = { "+": () => this.zoomBy(STEP), "-": () => this.zoomBy(1 / STEP), 0: () => this.zoomTo(null), ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2) };
      const act = acts[event.key];
      if (act) {
        act();
        event.preventDefault();
      }
    });
  }
}

function nearest(one, at) {
  let [best, distance] = [null, Infinity];
  one.xs.forEach((x, index) => {
    const value = one.ys[index];
    if (x === null || value === null || value === undefined || Math.abs(x - at) > distance) return;
    [best, distance] = [value, Math.abs(x - at)];
  });
  return best;
}
