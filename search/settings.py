"""Self-play settings with the game's own values filled in where the settings say 0 or nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from games import GAME_NAMES, get_game
from games.spec import Game
from protocol.settings import SelfPlaySettings
from search.final_move import FINAL_MOVES
from search.selection import NAMES

MAX_SIMULATIONS = 20_000
"""Visit counts travel as uint16, and a kept subtree may triple them."""

FPU_MODES = ("reduction", "absolute")
EXPLORATIONS = ("alphazero", "alphago_zero", "ucb")
"""In the order of the numbers in `search.layout`."""

MOST_STARTS = 1000
LONGEST_START = 200
"""Start positions: they travel in every WELCOME, and one in every record."""
CHEAP_PART = 4
"""A cheap search has this part of the simulations where the settings say nothing."""


EXTRA_PART = 4
"""So are the simulations added to find a max-robust move."""


def resolve(settings: SelfPlaySettings, game: Game) -> SelfPlaySettings:
    """Settings that a search can use as they are. ValueError says which value is out of range and why."""
    resolved = replace(
        settings,
        history=settings.history or game.history,
        max_plies=settings.max_plies or game.max_plies,
        dirichlet_alpha=settings.dirichlet_alpha or game.dirichlet_alpha,
        start_positions="\n".join(start_lines(settings.start_positions)),
        start_generator=",".join(generator_names(settings.start_generator)),
        cheap_simulations=settings.cheap_simulations or max(1, settings.simulations // CHEAP_PART),
        final_extra=settings.final_extra or max(1, settings.simulations // EXTRA_PART),
    )
    _check(resolved)
    if resolved.start:
        _check_start(game, resolved.start)
    for line in start_lines(resolved.start_positions):
        _check_start(game, line, "start_positions")
    _check_generator(game, resolved)
    return resolved


def start_lines(text: str) -> list[str]:
    """The positions of `start_positions`: lines that are neither empty nor begin with #."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def generator_names(text: str) -> list[str]:
    """The names in `start_generator`."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _check_generator(game: Game, settings: SelfPlaySettings) -> None:
    """ValueError if the game does not draw what `start_generator` names."""
    names = generator_names(settings.start_generator)
    if names and game.generator is None:
        offering = [name for name in GAME_NAMES if get_game(name).generator is not None]
        raise ValueError(
            f"self_play.start_generator is {settings.start_generator!r}, but {game.name} draws no start "
            f"positions; {', '.join(offering)} does: name a file of --start-positions instead"
        )
    for name in names:
        assert game.generator is not None
        try:
            game.generator.check(name)
        except ValueError as error:
            raise ValueError(
                f"self_play.start_generator: {error} ({game.name} offers: {game.generator.names})"
            ) from error


def _check_start(game: Game, start: str, name: str = "start") -> None:
    """ValueError if games cannot begin at `start`, which the setting `name` gives."""
    try:
        positions = game.notation.state_from_text(start)[np.newaxis]
    except ValueError as error:
        raise ValueError(f"self_play.{name}: {error}") from error
    count = game.rules.legal_actions(positions, 1, np.zeros(game.max_legal, np.uint16))
    reason = game.rules.end_reason(positions, 1, count, False)
    if reason:
        raise ValueError(f"self_play.{name}: the game is over there ({game.reason_name(reason)}): {start!r}")


def _check(settings: SelfPlaySettings) -> None:
    _check_ranges(settings)
    _check_choices(settings)
    _check_starts(settings)
    _check_resignation(settings)
    if settings.round_games and settings.seed <= 0:
        raise ValueError("self_play.round_games is for runs that can be repeated: set self_play.seed above 0")


def _check_ranges(settings: SelfPlaySettings) -> None:
    ranges: tuple[tuple[str, float, float], ...] = (
        ("history", 1, 8),
        ("simulations", 1, MAX_SIMULATIONS),
        ("c_base", 1, 1e9),
        ("c_init", 0, 1e3),
        ("c_puct", 0, 1e3),
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
        ("forced_playouts", 0, 100),
        ("final_secure", 0, 1e3),
        ("final_extra", 1, MAX_SIMULATIONS),
        ("cheap_simulations", 1, max(1, settings.simulations)),
        ("random_share", 0, 1),
        ("start_share", 0, 1),
        ("random_plies", 0, 1000),
        ("opening_share", 0, 1),
        ("opening_plies", 0, 1000),
        ("opening_temperature", 0.01, 100),
        ("max_plies", 1, 10_000),
        ("resign_value", -1, 0),
        ("resign_mistakes", 0, 0.5),
        ("resign_play_on", 0, 1),
        ("round_games", 0, 1e6),
    )
    for name, low, high in ranges:
        value = getattr(settings, name)
        if not low <= value <= high:
            raise ValueError(f"self_play.{name} is {value}, but must lie between {low:g} and {high:g}")


def _check_choices(settings: SelfPlaySettings) -> None:
    choices = {
        "root": NAMES,
        "fpu": FPU_MODES,
        "exploration": EXPLORATIONS,
        "final_move": FINAL_MOVES,
    }
    for name, known in choices.items():
        if getattr(settings, name) not in known:
            found = getattr(settings, name)
            raise ValueError(f"self_play.{name} is {found!r}, but must be one of {', '.join(known)}")
    if settings.exploration == "alphazero" and settings.c_puct != SelfPlaySettings.c_puct:
        raise ValueError(
            "self_play.c_puct is set, but exploration = alphazero does not use it: set c_init instead, or "
            "exploration to alphago_zero or ucb"
        )


def _check_starts(settings: SelfPlaySettings) -> None:
    lines = start_lines(settings.start_positions)
    if settings.start_share > 0 and not (lines or settings.start_generator):
        raise ValueError(
            "self_play.start_share is set, but there are no start positions: name their file, or a "
            "self_play.start_generator"
        )
    if lines and settings.start_generator:
        raise ValueError(
            "self_play.start_generator and start positions from a file are both set: choose one of them"
        )
    if settings.start_generator and settings.start_share == 0:
        raise ValueError("self_play.start_generator is set, but self_play.start_share is 0: no game uses it")
    if len(lines) > MOST_STARTS or any(len(line) > LONGEST_START for line in lines):
        raise ValueError(
            f"self_play.start_positions: {len(lines)} lines; at most {MOST_STARTS} of {LONGEST_START} "
            "characters each are taken"
        )


def _check_resignation(settings: SelfPlaySettings) -> None:
    if settings.round_games and settings.resign_value < 0 < settings.resign_mistakes:
        raise ValueError(
            "self_play.resign_value: its threshold moves while a round is played, which cannot be repeated; "
            "set self_play.resign_mistakes to 0 for one that stays, or self_play.round_games to 0"
        )
    if settings.resign_value < 0 < settings.resign_mistakes and settings.resign_play_on == 0:
        raise ValueError(
            "self_play.resign_play_on is 0, but the threshold of resignation follows from the games that are "
            "played on: set it to 0.1, or self_play.resign_mistakes to 0 for a threshold that stays"
        )
