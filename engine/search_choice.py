"""How a network searches when it plays or is measured: as in the self-play it learned from, or as named.

A network that learned from a Gumbel root plays differently under PUCT, and its rating differs. So commands
accept the name of a search. By default they use the search of the run to which the weights belong.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from games.names import nearest
from games.spec import Game
from protocol.settings import SelfPlaySettings, changed
from runtime.config import flattened, nested
from runtime.exits import Exit, Fatal
from runtime.reading import read_toml
from runtime.runs import RunFolder
from search.settings import FIELDS, FOR_EVALUATION, fields_of, resolve

WORDS = {path.replace("gumbel.", "gumbel_").rpartition(".")[2]: path for path in FIELDS[1:]}
"""Settings by their short names in a search's name: ratings are stored under these names."""


def search_for(text: str, game: Game, weights: Path | None = None) -> SelfPlaySettings:
    """Settings (not resolved) of the search that `text` names, or of the run that `weights` learned from.

    `text` is SELECTION or SELECTION?SETTING=VALUE&..., such as `gumbel?gumbel_c_scale=0.1`. Settings that it
    leaves out have their defaults, not the run's values. Without text, weights outside a run's folder get
    PUCT with the defaults. Raises Fatal(CONFIG) for an invalid text, Fatal(BAD_DATA) for a run whose settings
    cannot be read.
    """
    settings = _parsed(text) if text else _of_run(weights)
    try:
        resolve(settings, game)
    except ValueError as error:
        raise Fatal(f"the search {text or search_name(settings)!r}: {error}", Exit.CONFIG) from error
    return settings


def run_search(run: RunFolder, text: str, game: Game) -> str:
    """The name of the search for all networks of a run; see `search_for`."""
    return search_name(search_for(text, game, run.weights / "any"))


def search_name(settings: SelfPlaySettings) -> str:
    """The text from which `search_for` makes these settings: the selection, and settings other than
    defaults."""
    used = fields_of(settings.search.selection)
    others = [
        f"{word}={attrgetter(path)(settings)}"
        for word, path in WORDS.items()
        if path in used and attrgetter(path)(settings) != attrgetter(path)(FOR_EVALUATION)
    ]
    return settings.search.selection + ("?" + "&".join(others) if others else "")


def _parsed(text: str) -> SelfPlaySettings:
    name, _, rest = text.partition("?")
    changes: dict[str, Any] = {"search.selection": name}
    try:
        used = fields_of(name)
    except ValueError as error:
        raise Fatal(f"the search {text!r}: {error}", Exit.CONFIG) from error
    words = [word for word, path in WORDS.items() if path in used]
    for part in rest.split("&") if rest else []:
        word, separator, value = part.partition("=")
        if not separator or word not in words:
            what = f"{name} reads no setting {word!r}" if separator else f"{part!r} is not SETTING=VALUE"
            near = f"the nearest is {nearest(word, words)}; it reads {', '.join(words)}"
            raise Fatal(f"the search {text!r}: {what}; {near}", Exit.CONFIG)
        changes[WORDS[word]] = value
    try:
        return _with(changes, strict=False)
    except msgspec.ValidationError as error:
        raise Fatal(f"the search {text!r}: {error}", Exit.CONFIG) from error


def _of_run(weights: Path | None) -> SelfPlaySettings:
    """The search of the run to which a weights file belongs, else the default search."""
    folder = None if weights is None else weights.resolve().parent
    if folder is None or folder.name != "weights" or not (folder.parent / "config.toml").is_file():
        return FOR_EVALUATION
    file = folder.parent / "config.toml"
    try:
        table = read_toml(file).get("self_play", {})
        found = flattened(table)
        return _with({path: found[path] for path in FIELDS if path in found}, strict=True)
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise Fatal(
            f"{file} does not say how the run searches ({error}); name the search, for example puct",
            Exit.BAD_DATA,
        ) from error


def _with(changes: Mapping[str, Any], *, strict: bool) -> SelfPlaySettings:
    """The default search with some fields changed. Raises ValidationError (a ValueError) for a wrong type."""
    read = msgspec.convert(nested(changes), SelfPlaySettings, strict=strict)
    return changed(FOR_EVALUATION, {path: attrgetter(path)(read) for path in changes})
