"""The search of self-play without its chance: for play, for measurements, for the gate.

AlphaGo Zero, "Evaluator": the same search at temperature 0; no noise at the root either.
"""

from __future__ import annotations

from operator import attrgetter

from protocol.settings import MoveSettings, NoiseSettings, SelfPlaySettings, changed
from search.selection import NAMES, selection

FIELDS = tuple(
    dict.fromkeys(["search.selection", *(field for name in NAMES for field in selection(name).FIELDS)])
)
"""Paths of the settings of self-play that are a way to search; the others say how games begin or how long
they are."""

FOR_EVALUATION = SelfPlaySettings(
    noise=NoiseSettings(root_noise=0.0), moves=MoveSettings(temperature=0.0, temperature_plies=0)
)
"""The default search. What else there is in self-play (cheap searches, random plies, ...) is off there."""


def evaluation_settings(settings: SelfPlaySettings, *more: str) -> SelfPlaySettings:
    """The search of `settings`, and what else of them is named in `more`."""
    return changed(FOR_EVALUATION, {name: attrgetter(name)(settings) for name in (*FIELDS, *more)})
