"""A file of `experiments/ablations`: a recipe, and variants of it that are compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from experiments import recipe as recipes
from experiments.recipe import Recipe
from runtime.exits import Exit, Fatal
from runtime.reading import read_toml

FOLDER = Path(__file__).parent / "ablations"
BASE = "as the recipe"
ONLY_THE_FIRST = 1e9
"""Minutes between two snapshots, so that only the last network is compared."""


@dataclass(frozen=True)
class Ablation:
    """A comparison of variants."""

    name: str
    title: str
    recipe: Recipe
    minutes: float
    seeds: tuple[int, ...]
    variants: Mapping[str, Mapping[str, Any]]
    """Variants by name: `net`, `simulations`, `server`, `trainer` as in a recipe. They replace the recipe's
    settings, table by table."""

    def all(self) -> dict[str, Recipe]:
        """The recipe itself and its variants."""
        return {BASE: self.recipe} | {name: varied(self.recipe, one) for name, one in self.variants.items()}


def load(name: str) -> Ablation:
    """The ablation `name` of `experiments/ablations`, or of the TOML file `name`. Raises Fatal(CONFIG) if it
    is missing or invalid."""
    from experiments.judges import check_judge  # imports compiled code, so not for --help

    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    try:
        found = read_toml(path)
        recipe, base = recipes.load(found.pop("recipe")), found.pop("base", {})
        if not isinstance(base, Mapping):
            raise Fatal(f"{path}: `base` must be a table of settings, not {base!r}", Exit.CONFIG)
        recipe = varied(recipe, base)
        check_judge(recipe)
        whole = {**found, "name": path.stem, "recipe": replace(recipe, snapshot_minutes=ONLY_THE_FIRST)}
        ablation = msgspec.convert(whole, Ablation)
        _check(ablation, path)
        return ablation
    except FileNotFoundError as error:
        known = ", ".join(sorted(one.stem for one in FOLDER.glob("*.toml")))
        raise Fatal(f"there is no ablation {name!r}; there are {known}", Exit.CONFIG) from error
    except KeyError as error:
        raise Fatal(f"{path} names no recipe", Exit.CONFIG) from error
    except (OSError, ValueError) as error:
        raise Fatal(f"{path} is wrong: {error}", Exit.CONFIG) from error


def _check(ablation: Ablation, path: Path) -> None:
    """Raise Fatal(CONFIG) for minutes that no run can have, or if two variants would share the folders of
    their runs."""
    if ablation.minutes <= 0:
        raise Fatal(f"{path}: minutes must be more than 0", Exit.CONFIG)
    first: dict[str, str] = {}
    for variant in ablation.all():
        other = first.setdefault(run_name(ablation.recipe, variant, 1), variant)
        if other != variant:
            raise Fatal(
                f"the variants {other!r} and {variant!r} of {ablation.name} differ in punctuation only, but "
                "their run folders are named by letters and digits; rename one",
                Exit.CONFIG,
            )


def varied(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """`recipe` with `changes` to its settings. Raises Fatal(CONFIG) if they are invalid."""
    return recipes.from_settings(recipe.name, _laid_over(recipes.to_settings(recipe), changes))


def _laid_over(below: Any, above: Any) -> Any:
    if not isinstance(above, Mapping) or not isinstance(below, Mapping):
        return above
    return {**below, **{key: _laid_over(below.get(key), value) for key, value in above.items()}}


def run_name(recipe: Recipe, variant: str, seed: int) -> str:
    """Name of the run's folder. Of the variant's name, letters, digits and dots are kept; everything else
    becomes a hyphen."""
    return f"{recipe.name}-{re.sub('[^A-Za-z0-9.]+', '-', variant)}-seed{seed}"
