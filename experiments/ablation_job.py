"""One run of an ablation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments import recipe as recipes
from experiments.recipe import Recipe

NOT_OURS = (
    *("title", "minutes", "clock", "seeds", "snapshot_minutes", "most_games", "targets"),
    *("opponents", "opening", "default_on"),
)
"""Settings of a recipe that do not affect training, or that an ablation sets itself."""


@dataclass(frozen=True)
class Job:
    """One run of one variant."""

    variant: str
    recipe: Recipe
    seed: int
    minutes: float
    runs: Path
    core: int | None
    """The core that all its processes are bound to; None: any."""

    def what(self) -> dict[str, Any]:
        """What was run, whatever the machine, for the file of results."""
        settings = settings_of(self.recipe)
        return {"variant": self.variant, "seed": self.seed, "minutes": self.minutes, "settings": settings}


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """The recipe's settings that affect a run: minutes and seeds are set by the ablation."""
    return {name: value for name, value in recipes.to_settings(recipe).items() if name not in NOT_OURS}
