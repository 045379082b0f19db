"""What is known about Go: on boards up to 3 x 3 everything."""

from __future__ import annotations

from functools import cache, partial

from games.go import chains_kernel, heuristic_kernel, legal_kernel, pictures, rules_kernel
from games.go.board import Board
from games.go.kernels import bindings_of, kernels_of
from games.go.notation import Text
from games.go.rules import GoRules
from games.go.sgf import sgf_writer
from games.go.truth import solution_of
from games.jit import bind
from games.knowledge import Heuristic, Knowledge


@cache
def knowledge_of_rules(rules: GoRules) -> Knowledge:
    """What is known about the game under these rules. No fixed player has been rated yet."""
    text = Text(Board(rules.size), kernels_of(rules))
    modules = [chains_kernel, rules_kernel, legal_kernel, heuristic_kernel]
    found = bind(modules, bindings_of(rules))
    names = ("evaluate", "material", "order_score", "is_noisy")
    return Knowledge(
        heuristic=Heuristic(**{name: getattr(found, name) for name in names}, sees_reply=False),
        svg=partial(pictures.svg, text),
        clicks=pictures.clicks(rules.size),
        pgn=sgf_writer(rules),
        solution=solution_of(rules, text),
    )
