"""The heuristic of a game as kernels import it; `games.jit.bind` puts a game's own here."""

from __future__ import annotations

from typing import Any

from games.jit import Unbound
from games.knowledge import Heuristic
from games.spec import State


def evaluate(state: State) -> int:  # noqa: ARG001
    """What alpha-beta takes a position for that it does not search on, for its side to move."""
    raise _unbound()


def material(state: State) -> int:  # noqa: ARG001
    """What the greedy player counts, for the side to move."""
    raise _unbound()


def order_score(state: State, action: int) -> int:  # noqa: ARG001
    """Larger is searched first."""
    raise _unbound()


def is_noisy(state: State, action: int) -> bool:  # noqa: ARG001
    """Whether the quiescence search goes on with it."""
    raise _unbound()


SEES_REPLY = Unbound()
"""Whether the greedy player avoids moves after which the other side wins at once."""


def _unbound() -> RuntimeError:
    return RuntimeError("this is bound to the heuristic of a game by games.jit.bind")


def bindings(heuristic: Heuristic) -> list[tuple[Any, Any]]:
    """What `games.jit.bind` needs to put `heuristic` in the place of these stubs."""
    return [
        (evaluate, heuristic.evaluate),
        (material, heuristic.material),
        (order_score, heuristic.order_score),
        (is_noisy, heuristic.is_noisy),
        (SEES_REPLY, heuristic.sees_reply),
    ]
