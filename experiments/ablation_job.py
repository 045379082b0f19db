"""One run of an ablation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments import recipe as recipes
from experiments.ablation_file import run_name
from experiments.recipe import Recipe
from runtime.runs import RunFolder

BEGINNING = "beginning"
"""Stands for the variant in the name of a run that others continue."""
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
    after_minutes: float = 0.0
    """Minutes of the beginning that it continues; 0: none."""

    def what(self) -> dict[str, Any]:
        """What was run, whatever the machine, for the file of results."""
        what = {"variant": self.variant, "seed": self.seed, "minutes": self.minutes}
        if self.after_minutes:
            what["after_minutes"] = self.after_minutes
        return {**what, "settings": settings_of(self.recipe)}

    @property
    def beginning(self) -> RunFolder | None:
        """The run that it continues a copy of."""
        if not self.after_minutes:
            return None
        name = run_name(self.recipe, f"{BEGINNING}-{self.after_minutes:g}-minutes", self.seed)
        return RunFolder(self.runs, name)


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """The recipe's settings that affect a run: minutes and seeds are set by the ablation."""
    return {name: value for name, value in recipes.to_settings(recipe).items() if name not in NOT_OURS}
