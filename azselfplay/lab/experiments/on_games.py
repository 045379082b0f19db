"""`python -m azselfplay.lab.experiments.on_games RUN`: settings of the trainer, compared on a run's games.

Trains a new network for each variant on the games of a run, and takes its losses on a tenth of them that no
variant is trained on. FLAGS are those of the trainer, such as "--loss.value-q-share 0.5"; the first variant
is the run as it was. All take as many steps. This needs no self-play, so it is quick; the price is that the
games stay those of the run, however good the network.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

from azselfplay.games import get_game
from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal, guarded
from azselfplay.host.reading import read_toml
from azselfplay.host.runs import RunFolder, shown_settings, write_atomically
from azselfplay.lab.experiments.intervals import Runs, draw, figure_names, spread, values
from azselfplay.lab.experiments.training import describe_machine
from azselfplay.link.finding import run_named
from azselfplay.store.reader import StoreReader
from azselfplay.store.sqlite import IMPORTED
from trainer.__main__ import load
from trainer.config import TrainerConfig
from trainer.train_step import prepare_thread
from trainer.training_loop import TrainingLoop
from trainer.validation import KnownPositions, watched_rows

PICTURE = "intervals.png"
HELD_OUT = "0.1"
"""Share of the games that no variant is trained on."""
FIGURES = ("policy_loss", "value_loss", "value_spread")
"""Columns of the table, from `HeldOutFigures`."""


def variant_of(text: str) -> tuple[str, list[str]]:
    """Return (name, flags of the trainer) from NAME=FLAGS. Raises Fatal(USAGE)."""
    name, equals, flags = text.partition("=")
    if not name or not equals:
        raise Fatal(
            f"--variant {text!r} must be NAME=FLAGS, such as 'q=--loss.value-q-share 0.5'", Exit.USAGE
        )
    return name, shlex.split(flags)


def settings_of(run: RunFolder, flags: Sequence[str], seed: int, steps: int) -> TrainerConfig:
    """Return the run's own settings, overridden by the flags. If the run's learning rate fell with time, it
    falls over the `steps` instead, so that it is the same in every variant. Raises Fatal(CONFIG,
    BAD_DATA)."""
    if not run.trainer_config.is_file():
        raise Fatal(f"{run.path} has no trainer.toml: no trainer has worked on this run", Exit.BAD_DATA)
    # A new network, whatever the run began with.
    own = ["--config", str(run.trainer_config), "--weights", "new"]
    if read_toml(run.trainer_config).get("optimizer", {}).get("cosine_minutes"):
        # The trainer refuses both settings at once.
        own += ["--optimizer.cosine-minutes", "0", "--optimizer.cosine-steps", str(steps)]
    config = load([*own, "--samples.held-out", HELD_OUT, *flags, "--seed", str(seed)], {})
    return replace(config, device=config.devices[0])  # a run on several devices is compared on one


def teach(
    run: RunFolder, variant: tuple[str, Sequence[str]], seed: int, steps: int, truth: Truth
) -> dict[str, Any]:
    """Train a new network on all games that the run trains on now. `variant`: its name and flags.

    Returns what was done, with the processor time of the steps in seconds, and the figures: held-out losses,
    and those of `Truth`. Raises Fatal(BAD_DATA) if there are too few games.
    """
    name, flags = variant
    config, about = settings_of(run, flags, seed, steps), run.describe()
    # A trainer's own machine has no settings of azserver.
    net = config.net or str(shown_settings(run.config).get("net", ""))
    if not net:
        text = f"neither {run.config} nor {run.trainer_config} names the network: write net into the second"
        raise Fatal(text, Exit.BAD_DATA)
    with TemporaryDirectory() as folder:
        loop = TrainingLoop(config, get_game(about["game"]), about["history"], net, Path(folder))
        with closing(StoreReader(run.games)) as reader:
            loop.apply_quarantine(reader)
            loop.fill(reader, reader.span()[1])
            sql = "SELECT coalesce(sum(CAST(plies AS INTEGER)), 0) FROM games WHERE source != ?"
            ((positions,),) = reader.query(sql, IMPORTED)
            loop.grow(positions)
        # Without training targets or held-out games, there would be nothing to compare.
        if not loop.window.targets or loop.held_out() is None:
            raise Fatal(f"{run.games} has too few games: some hundred are needed", Exit.BAD_DATA)
        # Measure processor time, because wall-clock time includes other work on the machine.
        begun = process_time()
        for _ in range(steps):
            loop.make_step()
        seconds = process_time() - begun
        found = loop.held_out()
        assert found is not None
        done = {"variant": name, "seed": seed, "steps": steps, "seconds": seconds}
        losses = {name: getattr(found, name) for name in FIGURES}
        return {**done, "figures": losses | truth.figures(loop)}


class Truth:
    """Positions that trainers watch, whose result with best play is known."""

    def __init__(self, game: Game, history: int) -> None:
        rows = watched_rows(game)
        self._rows = KnownPositions.of_rows(rows, game, history)
        self._values = np.array([row.value for row in rows])
        self._matter = KnownPositions.of_rows([row for row in rows if row.matters], game, history)

    def figures(self, loop: TrainingLoop) -> dict[str, float]:
        """Return by group the share of errors of the bare policy, where some move throws the result away, and
        the mean square of the bare value minus the truth."""
        # The game is not solved.
        if not len(self._values):
            return {}
        # Use all positions: a value can be checked even where every move keeps the result.
        off = np.square(loop.values(self._rows.packed_features) - self._values)
        groups = np.array(self._rows.groups)
        squares = {
            f"value {one}": float(off[groups == one].mean()) for one in dict.fromkeys(self._rows.groups)
        }
        return self._matter.errors(loop.policies(self._matter.packed_features, self._matter.legal)) | squares


def page(run: str, found: Runs, machine: dict[str, Any]) -> str:
    """Return the results as a page for people: means over seeds with 95 % intervals."""
    spreads = {name: spread(found, name) for name in figure_names(found)}
    lines = [
        "| variant | seeds | steps | core-min | " + " | ".join(spreads) + " |",
        "|---" * (4 + len(spreads)) + "|",
    ]
    for variant in dict.fromkeys(one["variant"] for one in found):
        own = [one for one in found if one["variant"] == variant]
        minutes = sum(one["seconds"] for one in own) / len(own) / 60
        cells = [variant, str(len(own)), f"{own[0]['steps']:,}", f"{minutes:.1f}"]
        for name, known in spreads.items():
            mine = values(found, variant, name)
            text = f"{sum(mine) / len(mine):.4f} ± {known.around(len(mine)):.4f}" if mine else ""
            cells.append(text)
        lines.append("| " + " | ".join(cells) + " |")
    picture = f"\n![Each network, and the mean of each variant with its interval]({PICTURE})\n"
    return (
        ABOUT.format(run=run, words=shlex.join(sys.argv[1:]), **machine) + "\n".join(lines) + "\n" + picture
    )


ABOUT = """# Trained on the games of {run}

New networks, trained on the stored games of one run; losses on a tenth of the games, which none was trained
on. Of games that are solved: the share of errors of the bare policy in known positions where some move throws
the result away, by group, and the mean square of the bare value minus the truth in all known positions
(*value*). Intervals are of 95 %; the spread over seeds is taken as common to all variants. Value losses of
variants with different value targets cannot be compared.

`python -m azselfplay.lab.experiments.on_games {words}`, {date}, commit {commit}, {processor}, load average
{load_before}.

"""


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m azselfplay.lab.experiments.on_games", description=__doc__
    )
    parser.add_argument("run", help="name or folder of a run that has been trained")
    parser.add_argument("--variant", action="append", default=[], metavar="NAME=FLAGS")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, default=Path("results"))
    return parser.parse_args(argv)


def main() -> int:
    """Entry point of the process."""
    options = parse()
    if options.steps < 1:
        raise Fatal("--steps must be at least 1", Exit.USAGE)
    run, machine = run_named(options.run), describe_machine()
    variants = [("as it was", []), *map(variant_of, options.variant)]
    folder: Path = options.out / f"on_games-{run.name}"
    folder.mkdir(parents=True, exist_ok=True)
    prepare_thread(1)
    about = run.describe()
    truth = Truth(get_game(str(about["game"])), int(about["history"]))
    found: list[dict[str, Any]] = []
    for seed in options.seeds:
        for name, flags in variants:
            found.append(teach(run, (name, flags), seed, options.steps, truth))
            print(f"{name}, seed {seed}: {found[-1]['figures']}", flush=True)
            # Write after each network, so that results are kept if this is stopped.
            kept = {"machine": machine, "variants": dict(variants), "found": found}
            write_atomically(folder / "found.json", (json.dumps(kept, indent=1) + "\n").encode())
            draw(found, variants[0][0], folder / PICTURE)
            write_atomically(folder / "README.md", page(run.name, found, machine).encode())
    return int(Exit.OK)


if __name__ == "__main__":
    sys.exit(guarded(main))
