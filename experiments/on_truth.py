"""`python -m experiments.on_truth GAME --games RUN`: do the targets limit a run, or does its network?

Labels positions of a run's own games with the game's solver, and trains new networks on them: on the truth,
on what the run itself was told (visits and outcome), on the true moves with its outcomes, and on its visits
with the true values. All see the same positions for as many steps. If a network that was told the truth errs
much less than one that was not, the targets limit the run; if not, the network does. Errors are those of the
bare policy, where some move throws the result away.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from evaluation.match.elo import wilson
from evaluation.truth.rows import final_rows, solution_of
from experiments.labelled_games import LabelledGames, label, load, save
from experiments.machine import describe_machine
from games import get_game
from games.names import is_game, listed
from games.spec import Game
from net.architectures.registry import build, named
from protocol.records import GameRecord
from runtime.exits import Exit, Fatal, guarded
from runtime.finding import run_named
from runtime.runs import write_atomically
from store.reader import Range, StoreReader
from trainer.config import LossSettings, OptimizerSettings
from trainer.known_positions import KnownPositions
from trainer.samples import Samples
from trainer.train_step import TrainStep, prepare_thread

TARGETS = {
    "truth": ("keeps", "values"),
    "visits and outcome": ("visit_shares", "outcomes"),
    "visits and true value": ("visit_shares", "values"),
    "true moves and outcome": ("keeps", "outcomes"),
}
"""The targets for policy and value: columns of `LabelledGames`."""
BATCH = 256
EMA = 0.998
KEPT_BACK = 8192
"""Positions of the run that no network is trained on."""
INSTEAD = "train its networks on games"


@dataclass(frozen=True)
class Told:
    """One trained network, and its results."""

    net: str
    targets: str
    positions: int
    steps: int
    seconds: float
    """Processor time of training, in seconds."""
    errors: dict[str, float]
    """Share of errors by group, in labelled positions of other play."""
    own_errors: dict[str, float]
    """The same in positions that were kept back."""
    value_error: float
    """Mean square of value minus truth, in positions that were kept back."""


def samples_of(labelled: LabelledGames, numbers: npt.NDArray[np.int64], targets: tuple[str, str]) -> Samples:
    """Training samples of the positions `numbers [n]`, with targets as in `TARGETS`."""
    policy, value = (getattr(labelled, name)[numbers] for name in targets)
    shares = policy / policy.sum(axis=1, keepdims=True)
    rows, actions = np.nonzero(labelled.legal[numbers])
    return Samples(
        packed_features=labelled.packed_features[numbers],
        classes=1 - value.astype(np.int64),
        root_values=np.full(len(numbers), np.nan, np.float32),
        capped=np.zeros(len(numbers), np.uint8),
        plies_left=np.ones(len(numbers), np.int32),
        rows=rows,
        actions=actions,
        shares=shares[rows, actions].astype(np.float32),
    )


class Judge:
    """Tests a trained network on positions that it has not seen, in which some move loses something."""

    def __init__(self, game: Game, kept_back: LabelledGames) -> None:
        solution = solution_of(game, INSTEAD)
        rows = [row for row in solution.rows(1, 0) if row.matters]
        self.known = KnownPositions.of_rows(rows, game, game.history)
        matter = kept_back.at(kept_back.matters)
        self.own = KnownPositions(
            tuple(matter.groups.tolist()), matter.packed_features, matter.legal, matter.keeps
        )
        self.order = list(dict.fromkeys([*solution.groups, *self.known.groups, *self.own.groups]))
        self._kept_back = kept_back

    def ask(self, step: TrainStep) -> dict[str, Any]:
        """The fields of `Told` that need a trained network."""
        off = step.values(self._kept_back.packed_features) - self._kept_back.values
        return {
            "errors": self.known.errors(step.policies(self.known.packed_features, self.known.legal)),
            "own_errors": self.own.errors(step.policies(self.own.packed_features, self.own.legal)),
            "value_error": float(np.square(off).mean()),
        }


def train(
    game: Game, net: str, labelled: LabelledGames, targets: str, steps: int, judge: Judge, seed: int = 0
) -> tuple[Told, TrainStep]:
    """A new network, trained for `steps` steps on positions drawn uniformly."""
    torch.manual_seed(seed)
    network = build(named(net), game, game.history)
    optimizer = OptimizerSettings(batch=BATCH, ema=EMA, cosine_steps=steps)
    step = TrainStep(game, game.history, network, optimizer, LossSettings(), torch.device("cpu"))
    rng, begun = np.random.default_rng(seed), process_time()
    for _ in range(steps):
        step.train(samples_of(labelled, rng.integers(0, len(labelled.legal), BATCH), TARGETS[targets]))
    seconds = process_time() - begun
    images = 1 + len(game.symmetries)
    found = judge.ask(step)
    return Told(net, targets, len(labelled.legal) // images, steps, seconds, **found), step


def split(labelled: LabelledGames) -> tuple[LabelledGames, LabelledGames]:
    """(to train on, kept back): the last positions. They are of other games, except where the cut is within
    a game."""
    cut = max(len(labelled.legal) - KEPT_BACK, len(labelled.legal) // 2)
    return labelled.at(slice(cut)), labelled.at(slice(cut, None))


def page(game: str, found: Sequence[Told], judge: Judge, machine: dict[str, Any]) -> str:
    """The results for people."""
    counts = [Counter(sorted(known.groups, key=judge.order.index)) for known in (judge.known, judge.own)]
    named = [*counts[0], *(f"own {group}" for group in counts[1])]
    head = ["network", "told", "positions", "steps", "core-min", *named, "value error"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for one in found:
        shares = zip((one.errors, one.own_errors), counts, strict=True)
        errors = [_share(by[group], count) for by, some in shares for group, count in some.items()]
        cells = [one.net, one.targets, f"{one.positions:,}", f"{one.steps:,}", f"{one.seconds / 60:.1f}"]
        lines.append("| " + " | ".join([*cells, *errors, f"{one.value_error:.3f}"]) + " |")
    return ABOUT.format(game=game, words=shlex.join(sys.argv[1:]), **machine) + "\n".join(lines) + "\n"


ABOUT = """# {game}: does the network limit a run, or what it is told?

New networks, trained on positions of a run's own games. They were told the truth (all moves that keep the
result alike, and the result with best play) or what the run itself was told. Errors of the bare policy, where
some move throws the result away, with 95 % intervals: in the labelled positions of mixed play
(`azplay truth`), and in the run's own positions (*own*) that were kept back. *Value error* is the mean square
against the truth in those.

`python -m experiments.on_truth {words}`, {date}, commit {commit}, {processor}, load average {load_before}.

"""


def _share(share: float, count: int) -> str:
    low, high = wilson(round(share * count), count)
    return f"{share:.1%} [{low:.1%}, {high:.1%}]"


def games_in(run: str, game: Game, seed: int = 0) -> Iterator[GameRecord]:
    """The games of a run or of a games.db, in random order."""
    path = Path(run) if run.endswith(".db") else run_named(run).games
    reader = StoreReader(path)
    if reader.game != game.name:
        raise Fatal(f"{path} holds games of {reader.game}, not of {game.name}", Exit.CONFIG)
    numbers = np.random.default_rng(seed).permutation(np.arange(reader.span()[0], reader.span()[1] + 1))
    for number in numbers.tolist():
        for _, record in reader.sound(game, Range(number, number)):
            yield record


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.on_truth", description=__doc__)
    parser.add_argument("game", help=f"one that is solved, of {listed()}")
    parser.add_argument("--games", required=True, help="a run, or a games.db, whose positions are labelled")
    parser.add_argument("--positions", type=int, default=50_000, help="how many are labelled")
    parser.add_argument("--labels", type=Path, help="keep the labels here, or take those that are here")
    parser.add_argument("--net", nargs="+", default=["3x48", "4x64"], help="networks to train")
    parser.add_argument("--told", nargs="+", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--steps", type=int, default=6000, help=f"of {BATCH} positions")
    parser.add_argument("--out", type=Path, default=Path("results"))
    return parser.parse_args(argv)


def labels_of(options: argparse.Namespace, game: Game) -> LabelledGames:
    """The labels from the file, or made and written there."""
    if options.labels and options.labels.exists():
        return load(options.labels, game)
    solution = solution_of(game, INSTEAD)
    # Where all positions are used for judging, nothing can be kept apart.
    apart_from = [] if game.few_positions else [*final_rows(game), *solution.rows(1, 0)]
    found = label(game, games_in(options.games, game), solution, apart_from, options.positions, print)
    if options.labels:
        save(options.labels, found)
    return found


def _main() -> int:
    options = parse()
    if not is_game(options.game):
        raise Fatal(f"there is no game {options.game!r}; there are {listed()}", Exit.CONFIG)
    if options.positions < 2 or options.steps < 1:
        raise Fatal("--positions must be at least 2 and --steps at least 1", Exit.CONFIG)
    game, machine = get_game(options.game), describe_machine()
    trained_on, kept_back = split(labels_of(options, game))
    trained_on, judge = trained_on.moved(game, game.history), Judge(game, kept_back)
    folder: Path = options.out / f"on_truth-{options.game}"
    folder.mkdir(parents=True, exist_ok=True)
    prepare_thread(1)
    found: list[Told] = []
    for net in options.net:
        for targets in options.told:
            told, step = train(game, net, trained_on, targets, options.steps, judge)
            found.append(told)
            print(f"{net}, {targets}: {told.errors}, value error {told.value_error:.3f}", flush=True)
            write_atomically(folder / f"{net}-{targets.replace(' ', '_')}.safetensors", step.weights(0))
            about = {"machine": machine, "found": [vars(one) for one in found]}
            write_atomically(folder / "found.json", (json.dumps(about, indent=1) + "\n").encode())
            write_atomically(folder / "README.md", page(game.name, found, judge, machine).encode())
    return int(Exit.OK)


if __name__ == "__main__":
    sys.exit(guarded(_main))
