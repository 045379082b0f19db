"""A position for a page: the picture, where it can be clicked, and moves with the clicks that make them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from games.knowledge import Clicks, Spot, knowledge_of
from games.spec import Game, State


def board(game: Game, state: State, move: str, *, side: int = 0) -> dict[str, Any]:
    """The position `state` [state_words] to which `move` led ("" at the start), as `side` sees it."""
    known = knowledge_of(game)
    clicks = known.clicks if known.svg is not None else None
    turned = clicks.svg_turned if clicks is not None and side == 1 else None
    draw = turned or known.svg
    return {
        "svg": None if draw is None else draw(state, move).decode(),
        "text": game.notation.render(state),
        "position": game.notation.state_to_text(state),
        "width": 0.0 if clicks is None else clicks.width,
        "height": 0.0 if clicks is None else clicks.height,
        "spots": [] if clicks is None else [list(spot) for spot in spots_of(clicks, turned=bool(turned))],
    }


def spots_of(clicks: Clicks, *, turned: bool) -> tuple[Spot, ...]:
    """Where to click; on a turned picture every spot lies opposite."""
    if not turned:
        return clicks.spots
    return tuple(
        spot._replace(x=clicks.width - spot.x - spot.width, y=clicks.height - spot.y - spot.height)
        for spot in clicks.spots
    )


def moves(game: Game, state: State, actions: Iterable[int]) -> list[dict[str, Any]]:
    """Legal actions in `state` as text, and the names of the spots to click in order."""
    known = knowledge_of(game)
    clicks = known.clicks if known.svg is not None else None
    return [
        {
            "text": game.notation.action_to_text(state, action),
            "clicks": [] if clicks is None else list(clicks.clicked(state, action)),
        }
        for action in actions
    ]
