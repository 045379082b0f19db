"""Settings of self-play as a search uses them: completed, checked, and without their randomness.

`resolve` fills in the game's own values where settings are 0 or empty, and refuses what no search can use.
`evaluation_settings` makes the search of play, measurements and the gate out of that of self-play: AlphaGo
Zero, "Evaluator": the same search at temperature 0; here also without noise at the root.
"""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from azselfplay.games import GAME_NAMES, get_game
from azselfplay.games.names import nearest
from azselfplay.games.spec import NO_ROOT, Game
from azselfplay.search.selection import NAMES, selection
from protocol.settings import (
    MoveSettings,
    NoiseSettings,
    SearchSettings,
    SelfPlaySettings,
    StartSettings,
    changed,
    check_settings,
)

MOST_STARTS = 1000
LONGEST_START = 500
"""Limits of start positions: lines, and characters a line (Go 19 x 19: 383). All are sent in every WELCOME,
and one is in every record."""
CHEAP_PART = EXTRA_PART = 4
"""A cheap search, and the simulations added to find a max-robust move, have this fraction of the simulations
if the settings do not say."""


def resolve(settings: SelfPlaySettings, game: Game) -> SelfPlaySettings:
    """Return settings that a search can use directly. Raises ValueError saying which value is out of range
    and why."""
    simulations, start = settings.search.simulations, settings.start
    if start == StartSettings() and game.generator is not None and game.generator.usual:
        start = StartSettings(generator=game.generator.usual, share=1.0)
    filled_in = {
        "history": settings.history or game.history,
        "max_plies": settings.max_plies or game.max_plies,
        "noise.dirichlet_alpha": settings.noise.dirichlet_alpha or game.dirichlet_alpha,
        "start.positions": "\n".join(start_lines(start.positions)),
        "start.generator": ",".join(generator_names(start.generator)),
        "start.share": start.share,
        "playout_cap.cheap_simulations": settings.playout_cap.cheap_simulations
        or max(1, simulations // CHEAP_PART),
        "moves.final_extra": settings.moves.final_extra or max(1, simulations // EXTRA_PART),
    }
    resolved = changed(settings, filled_in)
    # Checked when all is filled in: limits such as "at most `simulations`" hold for the values that are used.
    try:
        check_settings(resolved)
    except ValueError as error:
        raise ValueError(f"self_play.{error}") from None
    check_combinations(resolved)
    if resolved.start.position:
        _check_start(game, resolved.start.position, "start.position")
    for line in start_lines(resolved.start.positions):
        _check_start(game, line, "start.positions")
    names = generator_names(resolved.start.generator)
    if names and game.generator is None:
        offering = [name for name in GAME_NAMES if get_game(name).generator is not None]
        raise ValueError(
            f"self_play.start.generator is {resolved.start.generator!r}, but {game.name} draws no start "
            f"positions; {', '.join(offering)} does: instead, give --self-play.start.positions @FILE"
        )
    for name in names:
        assert game.generator is not None
        try:
            game.generator.check(name)
        except ValueError as error:
            raise ValueError(
                f"self_play.start.generator: {error} ({game.name} offers: {game.generator.names})"
            ) from error
    return resolved


def check_combinations(settings: SelfPlaySettings) -> None:
    """Raise ValueError if settings, each of them in its range, do not fit each other."""
    search, start, resignation = settings.search, settings.start, settings.resignation
    if search.selection not in NAMES:
        raise ValueError(
            f"self_play.search.selection is {search.selection!r}, but must be one of "
            f"{', '.join(NAMES)}; the nearest is {nearest(search.selection, NAMES)}"
        )
    if not 1 <= settings.playout_cap.cheap_simulations <= search.simulations:
        raise ValueError(
            f"self_play.playout_cap.cheap_simulations is {settings.playout_cap.cheap_simulations}, but a "
            f"whole search has {search.simulations}"
        )
    if search.look_ahead and not search.solver:
        raise ValueError("self_play.search.look_ahead is set, but needs self_play.search.solver: set both")
    # A constant that nothing reads would cost somebody a run.
    if search.exploration == "alphazero" and search.c_puct != SearchSettings.c_puct:
        raise ValueError(
            "self_play.search.c_puct is set, but exploration = alphazero does not use it: set c_init "
            "instead, or exploration to alphago_zero or ucb"
        )
    lines = start_lines(start.positions)
    if start.share > 0 and not (lines or start.generator):
        raise ValueError(
            "self_play.start.share is set, but there are no start positions: name their file, or a "
            "self_play.start.generator"
        )
    # `start.share` would not say which of the two it is a share of.
    if lines and start.generator:
        raise ValueError(
            "self_play.start.generator and start positions from a file are both set: choose one of them"
        )
    if start.generator and start.share == 0:
        raise ValueError("self_play.start.generator is set, but self_play.start.share is 0: no game uses it")
    if len(lines) > MOST_STARTS or any(len(line) > LONGEST_START for line in lines):
        raise ValueError(
            f"self_play.start.positions: {len(lines)} lines; at most {MOST_STARTS} of {LONGEST_START} "
            "characters each are taken"
        )
    if resignation.value < 0 < resignation.mistakes and resignation.play_on == 0:
        raise ValueError(
            "self_play.resignation.play_on is 0, but the threshold of resignation follows from the games "
            "that are played on: set it to 0.1, or self_play.resignation.mistakes to 0 for a fixed "
            "threshold"
        )


def _check_start(game: Game, start: str, name: str) -> None:
    """Raise ValueError if games cannot begin at `start`, which the setting `name` gives."""
    try:
        positions = game.notation.state_from_text(start)[np.newaxis]
    except ValueError as error:
        raise ValueError(f"self_play.{name}: {error}") from error
    count = game.rules.legal_actions(positions, 1, np.zeros(game.max_legal, np.uint16))
    # NO_ROOT: by the rules of the game, not by those of a search.
    reason = game.rules.end_reason(positions, 1, count, NO_ROOT)
    if reason:
        raise ValueError(f"self_play.{name}: the game is over there ({game.reason_name(reason)}): {start!r}")


def start_lines(text: str) -> list[str]:
    """Return the positions of `start.positions`: lines that are not empty and do not begin with #."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def generator_names(text: str) -> list[str]:
    """Return the names in `start.generator`."""
    return [name.strip() for name in text.split(",") if name.strip()]


# ---- For play and measurements ----------------------------------------------------------------------


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
