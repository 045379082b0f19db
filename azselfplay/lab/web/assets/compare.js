// The curves of two runs in one chart.

import { api, ask, choice, el, main, trying } from "./core.js";
import { Curves } from "./curves.js";

const query = new URLSearchParams(location.search);
const place = el("div");

async function draw(names) {
  if (names.some((name) => !name)) {
    place.replaceChildren(el("p", { class: "note" }, "Choose two runs."));
    return;
  }
  const found = await Promise.all(names.map((name) => ask(api(name, "/history"))));
  const known = names.map((name, at) => [name, found[at]]).filter(([, one]) => one.columns.time.length);
  const missing = names.filter((name) => !known.some(([other]) => other === name));
  place.replaceChildren(
    ...missing.map((name) => el("p", { class: "note" }, `${name} has no figures yet.`)),
    known.length ? new Curves(known).element : "");
}

await trying(async () => {
  const runs = (await ask("/api/runs")).map((run) => run.name);
  const names = ["a", "b"].map((key, at) => query.get(key) ?? runs[at] ?? "");
  const fields = names.map((selected, at) =>
    choice(["First run", "Second run"][at], [["", "choose"], ...runs.map((name) => [name, name])], selected, (name) => {
      names[at] = name;
      history.replaceState(null, "", `?${new URLSearchParams({ a: names[0], b: names[1] })}`);
      trying(() => draw(names));
    }).field);
  main.append(el("div", { class: "fields" }, fields), place);
  await draw(names);
});
