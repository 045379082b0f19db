"""How a network values material: its value compared with the balance, and games that begin with more
material."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from engine.nets import LoadedNet, load_net
from evaluation.openings import Opening, random_openings
from evaluation.truth_errors import play_settings
from experiments import contest
from experiments.judges.matches import CURVE_SEED, FINAL_SEED, PAIRS, final_players, opening_plies, play
from experiments.measures import Judgement, Measure, share
from experiments.recipe import Recipe
from experiments.training import Trained
from games.game_history import GameHistory
from games.knowledge import Odds, knowledge_of
from games.spec import Game
from search.evaluator import LeafBatch, evaluate
from search.tree import tree_for

GAMES, EVERY = 40, 7
"""Games between a random and a greedy player, and plies between two positions of the same game."""
FIRST_PLY = 8
"""Positions before this ply are too similar."""
ODDS_SEED = 11
CORRELATION = "correlation of the raw value with material"


def add_correlations(
    found: Judgement, game: Game, trained: Trained, recipe: Recipe, tell: Callable[[str], None]
) -> None:
    """How the raw value follows material: all snapshots for the curve; the last network and the untrained one
    on other positions."""
    curve, final = material_positions(game, CURVE_SEED), material_positions(game, FINAL_SEED)
    labels = list(final_players(trained, recipe))
    for snapshot in trained.snapshots:
        tell(f"value and material, minute {snapshot.minute}")
        file = trained.path(snapshot)
        found.add_point(CORRELATION, "network", snapshot.minute, correlation(game, file, curve))
        for label, one in zip(labels, (trained.snapshots[-1], trained.snapshots[0]), strict=False):
            if snapshot is one:
                r = correlation(game, file, final)
                found.measures.append(Measure(CORRELATION, label, r, len(final), unit=""))


def material_positions(game: Game, seed: int) -> list[GameHistory]:
    """Positions of games between a random and a greedy player, with all kinds of material balance."""
    openings = random_openings(game, GAMES // 2, opening_plies(game), seed=seed)
    positions = []
    for played in contest.play(game, "random", "greedy", openings, seed=seed):
        for plies in range(FIRST_PLY, len(played.actions), EVERY):
            game_history = GameHistory(game, played.start)
            for action in played.actions[:plies]:
                game_history.play(action)
            positions.append(game_history)
    return positions


def correlation(game: Game, file: Path, positions: Sequence[GameHistory]) -> float:
    """Pearson's r of the raw value with material, both for the side to move."""
    net = load_net(file)
    try:
        values = asyncio.run(_values(net, positions))
    finally:
        net.close()
    material = knowledge_of(game).heuristic.material
    amounts = [float(material(game_history.state)) for game_history in positions]
    return float(np.corrcoef(values, amounts)[0, 1]) if np.std(values) > 0 else 0.0


async def _values(net: LoadedNet, positions: Sequence[GameHistory]) -> list[float]:
    settings = play_settings(net, 1)

    async def one(game_history: GameHistory) -> float:
        tree = tree_for(net.game, settings, np.random.default_rng(0))
        tree.reset(game_history.states[0])
        for action in game_history.actions:
            tree.advance(action)
        answer = await evaluate(net.evaluator, LeafBatch.of(tree.root_leaf()))
        return float(answer.values[0])

    return list(await asyncio.gather(*(one(game_history) for game_history in positions)))


def add_odds(
    found: Judgement, game: Game, trained: Trained, recipe: Recipe, tell: Callable[[str], None]
) -> None:
    """Games won from positions with more material, if the game defines such positions."""
    odds = knowledge_of(game).matches.odds
    if odds is None:
        return
    for label, player in final_players(trained, recipe).items():
        tell(f"{label} with {odds.name}")
        won, count = converted(game, odds, player)
        found.measures.append(share(f"won with {odds.name} against random", label, won, count))


def converted(game: Game, odds: Odds, player: str) -> tuple[int, int]:
    """(games won, games) of `player` with more material against random moves."""
    rng = np.random.default_rng(ODDS_SEED)
    openings: list[Opening] = []
    while len(openings) < PAIRS:
        game_history = GameHistory(game, odds.starts[len(openings) % len(odds.starts)])
        while game_history.ply < opening_plies(game) and game_history.end_reason() is None:
            game_history.play(int(rng.choice(game_history.legal_actions())))
        if game_history.end_reason() is None and abs(_lead(game_history)) >= odds.lead:
            name = f"{odds.name} {len(openings)}"
            openings.append(Opening(name, game_history.start, tuple(game_history.actions)))
    played = play(game, player, "random", openings)
    ahead = [one for one in played if (_lead(GameHistory(game, one.start)) > 0) != one.swapped]
    return sum(one.outcome_for_a == 1 for one in ahead), len(ahead)


def _lead(game_history: GameHistory) -> int:
    """Material of the first player minus that of the second."""
    value = int(knowledge_of(game_history.game).heuristic.material(game_history.state))
    return value if game_history.side_to_move == 0 else -value
