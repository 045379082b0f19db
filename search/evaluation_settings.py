"""The search of self-play without its randomness: for play, for measurements, for the gate.

AlphaGo Zero, "Evaluator": the same search at temperature 0; here also without noise at the root.
"""

from __future__ import annotations

from operator import attrgetter

from protocol.settings import MoveSettings, NoiseSettings, SelfPlaySettings, changed
from search.selection import NAMES, selection


def fields_of(name: str) -> tuple[str, ...]:
    """Return the paths of the settings that the search with the selection `name` reads. Raises ValueError if
    there is no such selection."""
    fields: tuple[str, ...] = selection(name).FIELDS
    return fields


FIELDS = tuple(dict.fromkeys(["search.selection", *(field for name in NAMES for field in fields_of(name))]))
"""Paths of the self-play settings that define the search; the others say how games begin or how long they
are."""

FOR_EVALUATION = SelfPlaySettings(
    noise=NoiseSettings(root_noise=0.0), moves=MoveSettings(temperature=0.0, temperature_plies=0)
)
"""The default search. All other features of self-play (cheap searches, random plies, ...) are off in it."""


def evaluation_settings(settings: SelfPlaySettings, *more: str) -> SelfPlaySettings:
    """Return the search of `settings`, and those other settings that `more` names."""
    return changed(FOR_EVALUATION, {name: attrgetter(name)(settings) for name in (*FIELDS, *more)})
