"""Self-play settings with the game's own values filled in where the settings say 0 or nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from games.spec import Game
from protocol.settings import SelfPlaySettings

MAX_SIMULATIONS = 20_000
"""Visit counts travel as uint16, and a kept subtree may triple them."""

ROOTS = ("puct", "gumbel")
FPU_MODES = ("reduction", "absolute")

MOST_STARTS = 1000
LONGEST_START = 200
"""Start positions: they travel in every WELCOME, and one in every record."""
CHEAP_PART = 4
"""A cheap search has this part of the simulations where the settings say nothing."""


def resolve(settings: SelfPlaySettings, game: Game) -> SelfPlaySettings:
    """Settings that a search can use as they are. ValueError says which value is out of range and why."""
    resolved = replace(
        settings,
        history=settings.history or game.history,
        max_plies=settings.max_plies or game.max_plies,
        dirichlet_alpha=settings.dirichlet_alpha or game.dirichlet_alpha,
        start_positions="\n".join(start_lines(settings.start_positions)),
        cheap_simulations=settings.cheap_simulations or max(1, settings.simulations // CHEAP_PART),
    )
    _check(resolved)
    if resolved.start:
        _check_start(game, resolved.start)
    for line in start_lines(resolved.start_positions):
        _check_start(game, line, "start_positions")
    return resolved


def start_lines(text: str) -> list[str]:
    """The positions of `start_positions`: lines that are neither empty nor begin with #."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _check_start(game: Game, start: str, name: str = "start") -> None:
    """ValueError if games cannot begin at `start`, which the setting `name` gives."""
    try:
        line = game.notation.state_from_text(start)[np.newaxis]
    except ValueError as error:
        raise ValueError(f"self_play.{name}: {error}") from error
    count = game.rules.legal_actions(line, 1, np.zeros(game.max_legal, np.uint16))
    reason = game.rules.end_reason(line, 1, count, False)
    if reason:
        raise ValueError(f"self_play.{name}: the game is over there ({game.reason_name(reason)}): {start!r}")


def _check(settings: SelfPlaySettings) -> None:
    ranges: tuple[tuple[str, float, float], ...] = (
        ("history", 1, 8),
        ("simulations", 1, MAX_SIMULATIONS),
        ("c_base", 1, 1e9),
        ("c_init", 0, 1e3),
        ("fpu_reduction", 0, 2),
        ("fpu_value", -1, 1),
        ("gumbel_considered", 1, 256),
        ("gumbel_c_visit", 0, 1e4),
        ("gumbel_c_scale", 0, 10),
        ("root_noise", 0, 1),
        ("dirichlet_alpha", 1e-3, 1e3),
        ("temperature", 0, 100),
        ("temperature_plies", 0, 1e6),
        ("cheap_probability", 0, 0.99),
        ("cheap_simulations", 1, max(1, settings.simulations)),
        ("random_share", 0, 1),
        ("start_share", 0, 1),
        ("random_plies", 0, 1000),
        ("max_plies", 1, 10_000),
        ("round_games", 0, 1e6),
    )
    for name, low, high in ranges:
        value = getattr(settings, name)
        if not low <= value <= high:
            raise ValueError(f"self_play.{name} is {value}, but must lie between {low:g} and {high:g}")
    if settings.round_games and settings.seed <= 0:
        raise ValueError("self_play.round_games is for runs that can be repeated: set self_play.seed above 0")
    if settings.root not in ROOTS:
        raise ValueError(f"self_play.root is {settings.root!r}, but must be one of {', '.join(ROOTS)}")
    lines = start_lines(settings.start_positions)
    if settings.start_share > 0 and not lines:
        raise ValueError("self_play.start_share is set, but there are no start positions: name their file")
    if len(lines) > MOST_STARTS or any(len(line) > LONGEST_START for line in lines):
        raise ValueError(
            f"self_play.start_positions: {len(lines)} lines; at most {MOST_STARTS} of {LONGEST_START} "
            "characters each are taken"
        )
    if settings.fpu not in FPU_MODES:
        raise ValueError(f"self_play.fpu is {settings.fpu!r}, but must be one of {', '.join(FPU_MODES)}")
