"""How a network searches when it plays or is measured: as in the self-play it learned from, or as one says.

A network that learned from a Gumbel root plays differently, and rates differently, under PUCT. So whoever
rates names the search, and without a word it is that of the run whose folder the weights lie in.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from games.spec import Game
from protocol.settings import SelfPlaySettings
from runtime.exits import Exit, Fatal
from runtime.runs import RunFolder
from search.evaluation_settings import FIELDS, FOR_EVALUATION
from search.selection import selection
from search.settings import resolve


def search_for(text: str, game: Game, weights: Path | None = None) -> SelfPlaySettings:
    """Settings (not resolved) of the search that `text` names; nothing: the one `weights` learned from.

    `text` is ROOT or ROOT?SETTING=VALUE&..., such as `gumbel?gumbel_c_scale=0.1`; what it does not say has
    its default, whatever the run says. Weights that lie in no run's folder: PUCT with the defaults.
    Fatal(CONFIG) for a text that means nothing, Fatal(BAD_DATA) for a run whose settings cannot be read.
    """
    settings = _parsed(text) if text else _of_run(weights)
    try:
        resolve(settings, game)
    except ValueError as error:
        raise Fatal(f"the search {text or search_name(settings)!r}: {error}", Exit.CONFIG) from error
    return settings


def run_search(run: RunFolder, text: str, game: Game) -> str:
    """As `search_for`, for all networks of a run; its name."""
    return search_name(search_for(text, game, run.weights / "any"))


def search_name(settings: SelfPlaySettings) -> str:
    """What `search_for` takes to make these settings again: the root, and what is not as usual."""
    used = selection(settings.root).FIELDS
    changed = [
        f"{name}={getattr(settings, name)}"
        for name in FIELDS
        if name in used and getattr(settings, name) != getattr(FOR_EVALUATION, name)
    ]
    return settings.root + ("?" + "&".join(changed) if changed else "")


def _parsed(text: str) -> SelfPlaySettings:
    root, _, rest = text.partition("?")
    changes: dict[str, Any] = {"root": root}
    for part in rest.split("&") if rest else []:
        name, separator, value = part.partition("=")
        if not separator or name not in FIELDS[1:]:
            raise Fatal(
                f"the search {text!r}: {part!r} is not SETTING=VALUE; settings are {', '.join(FIELDS[1:])}",
                Exit.CONFIG,
            )
        changes[name] = value
    try:
        return _with(changes, strict=False)
    except msgspec.ValidationError as error:
        raise Fatal(f"the search {text!r}: {error}", Exit.CONFIG) from error


def _of_run(weights: Path | None) -> SelfPlaySettings:
    """The search of the run that a weights file lies in, else the default one."""
    folder = None if weights is None else weights.resolve().parent
    if folder is None or folder.name != "weights" or not (folder.parent / "config.toml").is_file():
        return FOR_EVALUATION
    file = folder.parent / "config.toml"
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8")).get("self_play", {})
        return _with({name: table[name] for name in FIELDS if name in table}, strict=True)
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise Fatal(
            f"{file} does not say how the run searches ({error}); name the search, for example puct",
            Exit.BAD_DATA,
        ) from error


def _with(changes: Mapping[str, Any], *, strict: bool) -> SelfPlaySettings:
    """The default search with some fields as given; ValidationError, a ValueError, for a wrong type."""
    read = msgspec.convert(dict(changes), SelfPlaySettings, strict=strict)
    return replace(FOR_EVALUATION, **{name: getattr(read, name) for name in changes})
