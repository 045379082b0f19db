"""What a search teaches: how much of its policy target is on moves that keep the result.

Labelled Connect Four positions (`evaluation.truth`) in which some move throws the result away, searched
with a network that knows nothing. `right` is the share of the target on moves that keep the result, `move`
the share of positions in which the move chosen does; a policy that knows nothing has `prior`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import numpy as np

from evaluation.truth.rows import rows_for
from games import get_game
from games.knowledge import Row
from protocol.settings import SelfPlaySettings, changed
from search.evaluator import UniformEvaluator
from search.forest import Forest
from search.mcts import search
from search.moves import choose_action
from search.pool import SearchPool
from search.settings import resolve
from search.tree import SearchTree

SIMULATIONS = (16, 32, 64, 128)
SCALES = (0.1, 0.2, 0.3, 0.5, 1.0)


def quality(rows: Sequence[Row], settings: SelfPlaySettings) -> tuple[float, float]:
    """(right, move) of searches without noise, as above."""
    game = get_game("connect_four")
    resolved = resolve(changed(settings, {"noise.root_noise": 0.0, "moves.temperature_plies": 0}), game)
    pool = SearchPool(Forest(game, resolved, len(rows)), UniformEvaluator())
    rng = np.random.default_rng(0)

    async def one(row: Row) -> tuple[float, bool]:
        with SearchTree(pool.forest, rng) as tree:
            tree.reset(game.notation.state_from_text(row.start))
            for action in row.moves:
                tree.advance(action)
            result = await search(tree, pool)
        shares = result.visits / result.visits.sum()
        keeps = [int(action) in row.keeps for action in result.actions]
        return float(shares[keeps].sum()), choose_action(result, len(row.moves), resolved, rng) in row.keeps

    async def main() -> list[tuple[float, bool]]:
        return await asyncio.gather(*(one(row) for row in rows))

    right, move = np.mean(asyncio.run(main()), axis=0)
    return float(right), float(move)


def run() -> dict[str, float | int]:
    """Prints a table; shares of 1 by kind of search and simulations."""
    rows = [row for row in rows_for(get_game("connect_four")) if row.matters]
    prior = float(np.mean([len(row.keeps) / row.legal for row in rows]))
    gumbel = changed(SelfPlaySettings(), {"search.selection": "gumbel"})
    kinds = {"puct": SelfPlaySettings()}
    kinds |= {f"gumbel_{c}": changed(gumbel, {"gumbel.c_scale": c}) for c in SCALES}
    figures: dict[str, float | int] = {"positions": len(rows), "prior": round(prior, 3)}
    for kind, settings in kinds.items():
        for simulations in SIMULATIONS:
            right, move = quality(rows, changed(settings, {"search.simulations": simulations}))
            print(
                f"{kind:<11} {simulations:4} simulations: right {right:.3f} move {move:.3f}", file=sys.stderr
            )
            figures[f"{kind}_{simulations}_right"] = round(right, 3)
            figures[f"{kind}_{simulations}_move"] = round(move, 3)
    return figures
