"""What the networks of a run get wrong, against known truth: one measurement that all judges share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from engine.nets import load_net
from evaluation.truth.measuring import measure
from evaluation.truth.report import PlayerErrors
from experiments.recipe import Recipe
from experiments.training import Snapshot, Trained
from games.knowledge import Row
from games.spec import Game


def errors_of(
    trained: Trained, snapshot: Snapshot, recipe: Recipe, game: Game, rows: Sequence[Row]
) -> list[PlayerErrors]:
    """Errors on `rows` of the raw policy, of the search that judges (`recipe.judge_simulations`), and of
    random moves."""
    net = load_net(trained.path(snapshot))
    kinds = (0, recipe.judge_simulations)
    found = asyncio.run(measure([net], rows, kinds, search=trained.search(recipe, game)))
    net.close()
    return found


def brief_errors(
    trained: Trained, recipe: Recipe, game: Game, rows: Sequence[Row], share: Callable[[PlayerErrors], float]
) -> dict[str, float]:
    """For `experiments.judging.brief`: the error rate of the last network, without search and with it."""
    *players, _ = errors_of(trained, trained.snapshots[-1], recipe, game, rows)
    names = ("errors, raw policy", f"errors, {recipe.judge_simulations} simulations")
    return {name: share(player) for name, player in zip(names, players, strict=True)}
