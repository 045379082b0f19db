"""A position for a page: the picture, where it can be clicked, and the clicks that make each move."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from games.game_history import board_text
from games.knowledge import Clicks, Spot, knowledge_of
from games.spec import Game, State


def board(game: Game, state: State, move: str, *, side: int = 0, is_over: bool = False) -> dict[str, Any]:
    """The position `state` [state_words] reached by `move` ("" at the start), as `side` sees it. `is_over`:
    the game has ended with it, so its text names nobody to move."""
    known = knowledge_of(game)
    clicks = known.clicks if known.svg is not None else None
    turned = clicks.svg_turned if clicks is not None and side == 1 else None
    draw = turned or known.svg
    return {
        "svg": None if draw is None else draw(state, move).decode(),
        "text": board_text(game, state, is_over=is_over),
        "position": game.notation.state_to_text(state),
        "width": 0.0 if clicks is None else clicks.width,
        "height": 0.0 if clicks is None else clicks.height,
        "spots": [] if clicks is None else [list(spot) for spot in spots_of(clicks, turned=bool(turned))],
    }


def spots_of(clicks: Clicks, *, turned: bool) -> tuple[Spot, ...]:
    """Where to click; on a turned picture every spot is in the opposite place."""
    if not turned:
        return clicks.spots
    return tuple(
        spot._replace(x=clicks.width - spot.x - spot.width, y=clicks.height - spot.y - spot.height)
        for spot in clicks.spots
    )


def moves(game: Game, state: State, actions: Iterable[int]) -> list[dict[str, Any]]:
    """Legal actions in `state` as text, and the names of the spots to click in order; for a game
    without a picture also the `place_of` each."""
    known = knowledge_of(game)
    clicks = known.clicks if known.svg is not None else None
    return [
        {
            "text": game.notation.action_to_text(state, action),
            "clicks": [] if clicks is None else list(clicks.clicked(state, action)),
            "place": place_of(game, action) if known.svg is None else None,
        }
        for action in actions
    ]


def place_of(game: Game, action: int) -> tuple[int, int] | None:
    """(row from the top, column) of a button for `action`: its cell where actions are cells, its column where
    they are columns (in row 0). None: the action has no place on the board."""
    if game.actions - game.extra_actions == game.cells and action < game.cells:
        row, col = divmod(action, game.cols)
        return game.rows - 1 - row, col
    return (0, action) if game.actions == game.cols else None
