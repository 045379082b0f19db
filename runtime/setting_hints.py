"""Guesses what was meant by a setting that a command does not have."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

from games.names import is_game
from games.nearest import near
from runtime.exits import Exit

GROUPS = {
    "self_play": "azserver",
    "gate": "azserver",
    "optimizer": "the trainer",
    "loss": "the trainer",
    "window": "the trainer",
    "samples": "the trainer",
    "publishing": "the trainer",
    "players": "the trainer",
}
"""Groups of settings, by the program that they belong to."""
FLAGS = {"azserver": "--server-config", "the trainer": "--trainer-config"}
"""azrun's flags for the settings files of these programs."""


def what_was_meant(name: str, known: Sequence[str]) -> str:
    """Return text to follow "... is not a setting": the nearest of `known`, or the program with this
    group."""
    group = name.partition(".")[0]
    owner = GROUPS.get(group)
    if owner is not None and not any(one.partition(".")[0] == group for one in known):
        return f"; {group} belongs to {owner}: put it into its file (azrun: {FLAGS[owner]})"
    if meant := near(name, known):
        return f"; the nearest is {meant!r}"
    return ""


def refuse_bare_game(config_class: Any, arguments: Sequence[str], command: str) -> None:
    """Exit with USAGE if the first argument is a game's name and the command has a flag for it."""
    fields = {field.name: str(field.type) for field in dataclasses.fields(config_class)}
    if "game" not in fields or any(kind.startswith("Positional") for kind in fields.values()):
        return
    if arguments and is_game(arguments[0]):
        print(f"{command}: did you mean `{command} --game {arguments[0]}`?", file=sys.stderr)
        raise SystemExit(Exit.USAGE)
