"""The heuristic of a game as kernels import it; `games.jit.bind` replaces it by a game's own."""

from __future__ import annotations

from typing import Any

from games.jit import Unbound
from games.knowledge import Heuristic
from games.spec import State


def evaluate(state: State) -> int:  # noqa: ARG001
    """The value that alpha-beta gives a leaf, for its side to move. state  [state_words]"""
    raise _unbound()


def material(state: State) -> int:  # noqa: ARG001
    """The value that the greedy player gives a position, for the side to move. state  [state_words]"""
    raise _unbound()


def order_score(state: State, action: int) -> int:  # noqa: ARG001
    """Actions with larger scores are searched first. state  [state_words]"""
    raise _unbound()


def is_noisy(state: State, action: int) -> bool:  # noqa: ARG001
    """Whether the quiescence search tries the action. state  [state_words]"""
    raise _unbound()


SEES_REPLY = Unbound()
"""Whether the greedy player avoids moves after which the other side wins at once."""


def _unbound() -> RuntimeError:
    return RuntimeError("this is bound to the heuristic of a game by games.jit.bind")


def bindings(heuristic: Heuristic) -> list[tuple[Any, Any]]:
    """Pairs (stub, function of `heuristic`) for `games.jit.bind`."""
    return [
        (evaluate, heuristic.evaluate),
        (material, heuristic.material),
        (order_score, heuristic.order_score),
        (is_noisy, heuristic.is_noisy),
        (SEES_REPLY, heuristic.sees_reply),
    ]
