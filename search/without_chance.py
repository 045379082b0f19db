"""The search of self-play without its chance: for play, for measurements, for the gate.

AlphaGo Zero, "Evaluator": the same search at temperature 0; no noise at the root either.
"""

from __future__ import annotations

from dataclasses import replace

from protocol.settings import SelfPlaySettings

PUCT_FIELDS = (
    *("exploration", "c_base", "c_init", "c_puct", "fpu", "fpu_reduction", "fpu_value"),
    *("final_move", "final_secure", "final_extra"),
)
GUMBEL_FIELDS = ("gumbel_considered", "gumbel_c_visit", "gumbel_c_scale")
FIELDS = ("root", *PUCT_FIELDS, *GUMBEL_FIELDS)
"""The settings of self-play that are a way to search; the others say how games begin or how long they are."""

WITHOUT_CHANCE = SelfPlaySettings(root_noise=0.0, temperature=0.0, temperature_plies=0)
"""The default search. What else there is in self-play (cheap searches, random plies, ...) is off there."""


def without_chance(settings: SelfPlaySettings, *more: str) -> SelfPlaySettings:
    """The search of `settings`, and what else of them is named in `more`."""
    return replace(WITHOUT_CHANCE, **{name: getattr(settings, name) for name in (*FIELDS, *more)})
