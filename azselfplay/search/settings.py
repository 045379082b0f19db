"""Prepares the self-play settings for a search: fills in defaults, checks them, and removes randomness for
play.

`resolve` fills in the game's own values where settings are 0 or empty, and refuses settings that no search
can use. `evaluation_settings` derives the search of the gate from that of self-play.
As in AlphaGo Zero ("Evaluator"), it is the same search at temperature 0; here it also has no root noise.
"""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import numpy as np

from azselfplay.games import GAME_NAMES, get_game
from azselfplay.games.names import nearest
from azselfplay.games.spec import Game
from azselfplay.search.selection import NAMES, selection
from protocol.records import SHARES
from protocol.settings import (
    MoveSettings,
    NoiseSettings,
    SelfPlaySettings,
    StartSettings,
    changed,
    check_settings,
)

MOST_STARTS = 1000
LONGEST_START = 500
"""Limits of start positions: number of lines, and characters per line (Go 19 x 19: 383). Every WELCOME
contains all of them, and every record contains one."""


def resolve(settings: SelfPlaySettings, game: Game) -> SelfPlaySettings:
    """Return settings that a search can use directly. Raises ValueError that says which value is invalid and
    why."""
    start = settings.start
    if start == StartSettings() and game.generator is not None and game.generator.usual:
        start = StartSettings(generator=game.generator.usual, share=1.0)
    filled_in = {
        "history": settings.history or game.history,
        "max_plies": settings.max_plies or game.max_plies,
        "noise.dirichlet_alpha": settings.noise.dirichlet_alpha or game.dirichlet_alpha,
        "start.positions": "\n".join(start_lines(start.positions)),
        "start.generator": ",".join(generator_names(start.generator)),
        "start.share": start.share,
    }
    resolved = changed(settings, filled_in)
    # Check only now: limits such as "at most `simulations`" apply to the values after filling in.
    try:
        check_settings(resolved)
    except ValueError as error:
        raise ValueError(f"self_play.{error}") from None
    check_combinations(resolved)
    name = resolved.search.selection
    # An improved policy that is nearly uniform would be all shares of the first actions.
    if game.max_legal > SHARES and selection(name).LEARNS_SHARES:
        raise ValueError(
            f"self_play.search.selection is {name!r}, which has {SHARES} shares for the moves of a position, "
            f"but {game.name} has up to {game.max_legal}: choose puct"
        )
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
    """Raise ValueError if settings contradict each other, though each is in its range."""
    search, start, resignation = settings.search, settings.start, settings.resignation
    if search.selection not in NAMES:
        raise ValueError(
            f"self_play.search.selection is {search.selection!r}, but must be one of "
            f"{', '.join(NAMES)}; the nearest is {nearest(search.selection, NAMES)}"
        )
    if search.look_ahead and not search.solver:
        raise ValueError("self_play.search.look_ahead is set, but needs self_play.search.solver: set both")
    lines = start_lines(start.positions)
    if start.share > 0 and not (lines or start.generator):
        raise ValueError(
            "self_play.start.share is set, but there are no start positions: name their file, or a "
            "self_play.start.generator"
        )
    # With both, it would be unclear what `start.share` is a share of.
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
    reason = game.rules.end_reason(positions, 1, count, 0)  # or if nothing can change the result any more
    if reason:
        raise ValueError(f"self_play.{name}: the game is over there ({game.reason_name(reason)}): {start!r}")


def start_lines(text: str) -> list[str]:
    """Return the positions of `start.positions`: lines that are not empty and do not begin with #."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def generator_names(text: str) -> list[str]:
    """Return the names in `start.generator`."""
    return [name.strip() for name in text.split(",") if name.strip()]


class Start(NamedTuple):
    text: str
    """The position in the game's notation, as in the record."""
    is_sampled: bool = False
    """Whether it was drawn for this game alone, and not from the usual starts. Then the game gets no opening
    plies, which could destroy what the position was drawn for (in KQK, the queen)."""


def start_of_game(game: Game, settings: SelfPlaySettings, rng: np.random.Generator) -> Start:
    """Return the start of a game: `start.position`, or in a `start.share` of games one of `start.positions`,
    or a position that `start.generator` draws."""
    # Draw no number where it would decide nothing, so that settings that are off change no game.
    if settings.start.share == 0 or rng.random() >= settings.start.share:
        return Start(settings.start.position)
    names = generator_names(settings.start.generator)
    if names:
        assert game.generator is not None
        name = names[int(rng.integers(len(names)))]
        return Start(game.generator.draw(name, rng), is_sampled=name != game.generator.usual)
    lines = start_lines(settings.start.positions)
    return Start(lines[int(rng.integers(len(lines)))])


# ---- For play and measurements ----------------------------------------------------------------------


def fields_of(name: str) -> tuple[str, ...]:
    """Return the paths of the settings that a search with the selection `name` reads. Raises ValueError if
    there is no such selection."""
    fields: tuple[str, ...] = selection(name).FIELDS
    return fields


FIELDS = tuple(dict.fromkeys(["search.selection", *(field for name in NAMES for field in fields_of(name))]))
"""Paths of the self-play settings that define the search. The other settings concern the games: how they
begin, how long they are, and so on."""
FOR_EVALUATION = SelfPlaySettings(
    noise=NoiseSettings(root_noise=0.0), moves=MoveSettings(temperature=0.0, temperature_plies=0)
)
"""PUCT with the defaults, without all other features of self-play (random plies, resignation, ...)."""
FOR_PLAY = changed(
    FOR_EVALUATION, {"search.c_init": 0.8, "search.fpu_reduction": 0.1, "moves.final_move": "secure"}
)
"""The search with which networks play if none is named: self-play has to explore, and play has not. With 64
simulations it is 120 to 140 Elo better in chess and shogi than the Gumbel search of their self-play, in chess
with 400 too (results/what_was_tried.md). The paper has a c_init of 1.25 and plays the most visited move."""


def evaluation_settings(settings: SelfPlaySettings, *more: str) -> SelfPlaySettings:
    """Return FOR_EVALUATION with the search of `settings`, and with the other settings that `more` names."""
    return changed(FOR_EVALUATION, {name: attrgetter(name)(settings) for name in (*FIELDS, *more)})
