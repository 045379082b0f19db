"""What an ablation tells people: its page, and messages about its runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from experiments.ablation_table import remarks, table
from runtime.config import to_toml

if TYPE_CHECKING:
    from experiments.ablation_file import Ablation

PICTURE = "intervals.png"


def minutes_text(minutes: float) -> str:
    """Return `minutes` with its unit, such as "1 minute"."""
    return f"{minutes:g} minute{'' if minutes == 1 else 's'}"


def what_came(run: Mapping[str, Any]) -> str:
    """A message about a run that has ended."""
    if not run["games"]:
        return (
            "ended. WARNING: no games, so its figures are those of an untrained network: give more --minutes"
        )
    return f"ended, with {run['games']:,} games and {run['steps']:,} steps"


def page(ablation: Ablation, runs: Sequence[Mapping[str, Any]], recipe: Mapping[str, Any], base: str) -> str:
    """The results for people. `recipe`: its settings as compared. `base`: its name among the variants."""
    processors, commits = (", ".join(sorted({one[key] for one in runs})) for key in ("processor", "commit"))
    variants = "\n".join(f"- `{name}`: `{json.dumps(one)}`" for name, one in ablation.variants.items())
    return (
        f"# {ablation.title}\n\n"
        f"`python -m experiments.ablation {ablation.name}`: {minutes_text(ablation.minutes)} a run, "
        f"one core of {processors}, commit {commits}. Mean over seeds with its 95 % "
        "interval (Student's t, the spread of runs taken as common to all variants); in brackets the "
        "difference from the recipe. Each variant searches as it trained.\n\n"
        f"{table(runs, base)}\n\n{remarks(runs)}"
        f"![Each run, and the mean of each variant with its interval]({PICTURE})\n\n"
        f"Variants, laid over the recipe:\n\n{variants}\n\n"
        f"The recipe, `{ablation.recipe.name}`, as compared:\n\n```toml\n{to_toml(recipe)}```\n"
    )
