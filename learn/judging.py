"""Judges by name; each is imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from learn.measures import Judgement
from learn.recipe import Recipe
from learn.training import Trained
from runtime.exits import Exit, Fatal

JUDGES = ("tic_tac_toe", "connect_four", "endgame", "chess")


def check_judge(recipe: Recipe) -> None:
    """Fatal(CONFIG) if nobody of that name is there to judge: before hours of training, not after them."""
    if recipe.judge not in JUDGES:
        raise Fatal(
            f"recipe {recipe.name}: there is no judge {recipe.judge!r}; there are {', '.join(JUDGES)}",
            Exit.CONFIG,
        )


def judge(trained: Trained, recipe: Recipe, tell: Callable[[str], None]) -> Judgement:
    """What the recipe's judge says of a run."""
    check_judge(recipe)
    found: Judgement = importlib.import_module(f"learn.judge_{recipe.judge}").judge(trained, recipe, tell)
    return found


def brief(trained: Trained, recipe: Recipe) -> dict[str, float]:
    """A few shares that tell variants of a recipe apart, of the last network (not every judge has them)."""
    judge_module = importlib.import_module(f"learn.judge_{recipe.judge}")
    figures: dict[str, float] = judge_module.brief(trained, recipe)
    return figures
