"""The folder of a recipe's results: what was run and what was measured, for programs and for people.

results/NAME/seed-N.json   command, settings, machine, wall clock, measures, curves
             curves.png    of all seeds
             README.md     the table, and how to repeat it
results/README.md          the targets of all recipes, and whether they were reached
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from azselfplay.host.config import flattened, to_toml
from azselfplay.host.runs import write_atomically
from azselfplay.lab.experiments.measures import PANELS, Judgement, Measure
from azselfplay.lab.experiments.recipe import Recipe
from azselfplay.lab.experiments.training import Trained
from azselfplay.play.plots import close, grid_of

STYLES = ("-", "--", ":", "-.")
COLOURS = ("#1f6fb2", "#d9822b", "#3a9a5b", "#9b4f96", "#666666")
"""Curves: a style for each seed, again from the first one after the last, and a colour for each label."""
SETTINGS = (
    "Settings compared, at equal wall clock, on the stored games of one run, or with the same networks:"
)
OVERVIEW = "# Results"
TRIED = "what_was_tried.md"
"""Page of notes, written by hand."""
SINCE_FIRST_GAME = "minutes since the first game"
SEARCH = re.compile(r"\b\w+\?[^\s,]+")
"""A search with its settings in a player's name (`play.nets.search_name`)."""
EARLY = 0.97
"""A run that took less than this share of its recipe's minutes counts as stopped early."""


def write_seed(folder: Path, recipe: Recipe, seed: int, trained: Trained, found: Judgement) -> None:
    """Write one seed's file. It has the recipe and the machine of the training, also if the run is judged
    later, but the present settings of judging. An old run that did not store its recipe gets all present
    settings."""
    about = {"recipe": recipe.of_a_run, "seed": seed, "machine": {}, **trained.to_json(), **found.to_json()}
    about["recipe"] = {**about["recipe"], **recipe.of_judging}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"seed-{seed}.json", (json.dumps(about, indent=1) + "\n").encode())


def read_seeds(folder: Path) -> dict[int, dict[str, Any]]:
    """Return the contents of all seeds' files, by seed."""
    found = [json.loads(path.read_bytes()) for path in sorted(folder.glob("seed-*.json"))]
    # Sort by number: as a file name, seed-10 comes before seed-2.
    return {one["seed"]: one for one in sorted(found, key=lambda one: int(one["seed"]))}


def write_page(folder: Path, recipe: Recipe) -> None:
    """Write page and picture from the seeds' files."""
    seeds = read_seeds(folder)
    judged = {seed: Judgement.from_json(about) for seed, about in seeds.items()}
    draw(judged, recipe, folder / "curves.png")
    command = f"make learn-{recipe.name.replace('_', '-')}"
    if not set(seeds) <= set(recipe.seeds):
        command += f' ARGS="--seeds {" ".join(map(str, seeds))}"'
    # Old results stay when a recipe is tuned, and the page must not show settings that a seed did not have.
    now = flattened(_settings({"recipe": recipe.of_a_run}))
    others = [str(seed) for seed, about in seeds.items() if flattened(_settings(about)) != now]
    changed = ""
    if others:
        named = f"seed{'s' if len(others) > 1 else ''} {', '.join(others)}"
        changed = f"The recipe has changed since {named}; the settings below are those of then. "
    first, *later = [(seed, flattened(_settings(about))) for seed, about in seeds.items()]
    differences = []  # of later seeds that were run with other settings than the first
    for seed, settings in later:
        names = sorted(name for name in {**first[1], **settings} if settings.get(name) != first[1].get(name))
        if names:
            values = ", ".join(f"`{name}` = {settings.get(name, 'the default')}" for name in names)
            differences.append(f"- seed {seed} differs: {values}")
    runs = [
        "| seed | date, commit | wall clock, min | core-min | games | positions | steps | machine |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for seed, one in seeds.items():
        machine, summary = one["machine"], one["summary"]
        on = "not known"
        if machine:
            on = f"{machine['processor']}, {machine['cores']} cores, GPU: {machine['gpu']}"
        when = f"{machine.get('date', '')} {machine.get('commit', '')}".strip()
        minutes = f"{one['minutes']:.1f}{_stopped(one)}"
        runs.append(
            f"| {seed} | {when} | {minutes} | {one['core_minutes']:.0f} | {summary['games']:,} | "
            f"{summary['positions']:,} | {summary['steps']:,} | {on} |"
        )
    parts = [
        f"# {recipe.title}",
        f"Repeat it with `{command}`: {recipe.minutes:g} {_minutes(recipe.clock)} of self-play and "
        f"training for each seed, then the judging. {changed}Written by "
        "`python -m azselfplay.lab.experiments`.",
        "\n".join(runs),
        "\n".join(f"- {name}: `{search}`" for search, name in _searches(judged).items()),
        _table(judged),
        *(f"- seed {seed}: {note}" for seed, one in judged.items() for note in one.notes),
        "![curves](curves.png)",
        f"Settings beside the defaults{f' (seed {first[0]})' if differences else ''}:",
        f"```toml\n{to_toml(_settings(next(iter(seeds.values()))))}```",
        "\n".join(differences),
    ]
    text = "\n\n".join(part for part in parts if part) + "\n"
    write_atomically(folder / "README.md", text.encode())
    write_overview(folder.parent)


def draw(judgements: Mapping[int, Judgement], recipe: Recipe, path: Path) -> None:
    """Draw the curves of all seeds: a panel for each measure."""
    panels = list(dict.fromkeys(panel for one in judgements.values() for panel in one.curves))
    figure, axes = grid_of(len(panels), (6.0, 3.6))
    for axis, panel in zip(axes, panels, strict=False):
        labels = list(
            dict.fromkeys(label for one in judgements.values() for label in one.curves.get(panel, {}))
        )
        for style, (seed, judgement) in zip(cycle(STYLES), judgements.items(), strict=False):
            for label, points in judgement.curves.get(panel, {}).items():
                minutes, values = [minute for minute, _ in points], [value for _, value in points]
                colour = COLOURS[labels.index(label) % len(COLOURS)]
                name = f"{label}, seed {seed}"
                axis.plot(minutes, values, style, color=colour, marker="o", markersize=3, label=name)
        axis.set_title(panel, fontsize=10)
        of_training = f"{_minutes(recipe.clock)} of self-play and training"
        axis.set_xlabel(SINCE_FIRST_GAME if panel in PANELS else of_training)
        axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))  # from 0 on, so that heights can be compared
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    figure.suptitle(recipe.title)
    figure.savefig(path, dpi=110)
    close(figure)


def write_overview(folder: Path) -> None:
    """Write the page with the targets of all recipes in `folder`, and links to everything compared. Only a
    folder called `results` has one; another folder, from --out, and another README.md are not ours."""
    overview = folder / "README.md"
    is_ours = not overview.exists() or overview.read_bytes().startswith(f"{OVERVIEW}\n".encode())
    if folder.name != "results" or not is_ours:
        return
    lines = [
        OVERVIEW,
        "",
        "The targets of each recipe. Each page has the untrained network under the same search and random "
        "moves beside it, curves, settings, and how to repeat it. Written by "
        "`python -m azselfplay.lab.experiments`.",
        "",
        "| recipe | wall clock, min (core-min) | what | seeds | target | reached |",
        "|---|---|---|---|---|---|",
    ]
    for of_recipe in sorted({path.parent for path in folder.glob("*/seed-*.json")}):
        seeds = read_seeds(of_recipe)
        judged = [Judgement.from_json(about) for about in seeds.values()]
        title = f"[{next(iter(seeds.values()))['recipe']['title']}]({of_recipe.name}/README.md)"
        clock = ", ".join(
            f"{one['minutes']:.0f} ({one['core_minutes']:.0f}){_stopped(one)}" for one in seeds.values()
        )
        asked = [one for found in judged for one in found.measures if one.target is not None]
        keys = dict.fromkeys((one.what, one.player) for one in asked)
        plain = Counter((what, SEARCH.sub("", player)) for what, player in keys)
        letters = _searches(dict(enumerate(judged)))
        for key in keys:
            found = [_find(one.measures, key) for one in judged]
            values = "; ".join("-" if one is None else one.text(one.value) for one in found)
            # The search is on the recipe's page. Here its letter stands only between two of them.
            player = SEARCH.sub("", key[1])
            player = player if plain[key[0], player] == 1 else _lettered(key[1], letters)
            what = f"{key[0]} ({player.removesuffix(', ')})"
            lines.append(f"| {title} | {clock} | {what} | {values} | {_target(found)} | {_reached(found)} |")
            title = clock = ""  # named once, in the first of its lines
    lines += ["", SETTINGS, ""]
    # Each table of settings compared; pages of studies whose code is gone stay in the list.
    for kind in ("ablation", "on_games", "on_searches"):
        for page in sorted(folder.glob(f"{kind}-*/README.md")):
            title = page.read_text().partition("\n")[0].removeprefix("# ")
            lines.append(f"- [{title}]({page.parent.name}/README.md)")
    if (folder / TRIED).exists():
        lines += ["", f"[What was tried]({TRIED}) has the rest."]
    write_atomically(overview, ("\n".join(lines) + "\n").encode())


def _minutes(clock: str) -> str:
    """Return the name of the minutes of a recipe with this clock."""
    return "core-minutes" if clock == "cores" else "minutes"


def _stopped(about: Mapping[str, Any]) -> str:
    """Return a note for a run that ended before its time without having all its games."""
    recipe = about["recipe"]
    most = recipe.get("most_games", 0)
    took = about["core_minutes" if recipe.get("clock") == "cores" else "minutes"]
    is_early = took < EARLY * recipe["minutes"] and not 0 < most <= about["summary"]["games"]
    return f", stopped early (of {recipe['minutes']:g})" if is_early else ""


def _searches(judged: Mapping[int, Judgement]) -> dict[str, str]:
    """Return short names of the searches with settings that players' names contain: each row would be twice
    as long with them."""
    players = [one.player for found in judged.values() for one in found.measures]
    texts = dict.fromkeys(text for player in players for text in SEARCH.findall(player))
    return {text: f"search {letter}" for text, letter in zip(texts, ascii_uppercase, strict=False)}


def _lettered(player: str, searches: Mapping[str, str]) -> str:
    return SEARCH.sub(lambda search: searches[search[0]], player)


def _table(judged: Mapping[int, Judgement]) -> str:
    """Return a table with one line per measure and player, and one column per seed."""
    # Keep the judge's order; a seed may lack a figure that another seed has.
    keys = list(dict.fromkeys((one.what, one.player) for found in judged.values() for one in found.measures))
    head = ["what", "who", "over", "ms a move", *(f"seed {seed}" for seed in judged), "target", "reached"]
    lines, searches = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)], _searches(judged)
    for key in keys:
        found = [_find(one.measures, key) for one in judged.values()]
        known = [one for one in found if one is not None]
        times = ", ".join(f"{one.ms_a_move:.2g}" for one in known if one.ms_a_move is not None)
        over = ", ".join(dict.fromkeys(str(one.count) for one in known))
        cells = [key[0], _lettered(key[1], searches), over, times]
        for measure in found:
            text = "" if measure is None else measure.text(measure.value)
            if measure is not None and measure.low is not None and measure.high is not None:
                text += f" [{measure.text(measure.low)}, {measure.text(measure.high)}]"
            cells.append(text)
        lines.append("| " + " | ".join([*cells, _target(found), _reached(found)]) + " |")
    return "\n".join(lines)


def _find(measures: Sequence[Measure], key: tuple[str, str]) -> Measure | None:
    return next((one for one in measures if (one.what, one.player) == key), None)


def _target(found: Sequence[Measure | None]) -> str:
    """Return the target of a figure; "" if it has none. `found`: the figure of each seed."""
    for one in found:
        if one is not None and one.target is not None:
            return ("at most " if one.at_most else "at least ") + one.text(one.target)
    return ""


def _reached(found: Sequence[Measure | None]) -> str:
    """Return `yes` only if every seed reached the target; a seed without the figure did not."""
    if not _target(found):
        return ""
    count = sum(one is not None and one.reached is True for one in found)
    return "yes" if count == len(found) else f"no ({count} of {len(found)} seeds)"


def _settings(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recipe's settings from a seed's file; the recipe itself may have changed since."""
    recipe = about["recipe"]
    run = {key: recipe[key] for key in ("net", "simulations", "games", "workers")}
    return {**run, "server": recipe["server"], "trainer": recipe["trainer"]}
