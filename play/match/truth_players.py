"""Players that cannot err: solvers of the small games, endgame tables of chess (`play.truth`)."""
# ruff: noqa: ARG002

from __future__ import annotations

import asyncio

import numpy as np

from games.spec import Game, State
from play.lines import GameLine
from play.match.search_players import Think, alphabeta_think, in_thread
from play.player import Choice, Clock, PlayerFailed, Seat
from runtime.exits import Exit, Fatal

CONNECT_FOUR_STONES = 10
"""From so many stones on a Connect Four position is solved (below it takes seconds to minutes)."""
CONNECT_FOUR_DEPTH = 10
"""Plies of the alpha-beta that plays before."""


class TruthPlayer:
    """One mind for all games at once: its memory is shared, so its moves are made one after the other."""

    def __init__(self, name: str, think: Think) -> None:
        self.name = name
        self.think = think
        self.lock = asyncio.Lock()

    async def sit_down(self, seed: int) -> Seat:
        return TruthSeat(self, np.random.default_rng(seed))

    async def close(self) -> None:
        """Nothing to give back."""


class TruthSeat:
    """One game of a TruthPlayer."""

    def __init__(self, player: TruthPlayer, rng: np.random.Generator) -> None:
        self._player = player
        self._rng = rng

    async def choose(self, line: GameLine, clock: Clock | None = None) -> Choice:
        async with self._player.lock:
            return await in_thread(lambda: self._player.think(line, self._rng))

    async def close(self) -> None:
        """Nothing to give back."""


def solver_think(game: Game) -> Think:
    """Any action that keeps the result of perfect play, by lot. Fatal(CONFIG) for a game without a solver."""
    if game.name == "tic_tac_toe":
        return _tic_tac_toe_think()
    if game.name == "connect_four":
        return _connect_four_think(game)
    raise Fatal(
        f"there is no solver for {game.name}; there is one for tic_tac_toe, connect_four", Exit.CONFIG
    )


def _tic_tac_toe_think() -> Think:
    from play.truth.tic_tac_toe import key_of, solve

    tree = solve()

    def think(line: GameLine, rng: np.random.Generator) -> Choice:
        known = tree[key_of(line.state)]
        return Choice(int(rng.choice(known.keeps)), float(known.value))

    return think


def _connect_four_think(game: Game) -> Think:
    from play.truth.connect_four import Solver

    solver, before = Solver(), alphabeta_think(game, CONNECT_FOUR_DEPTH)

    def think(line: GameLine, rng: np.random.Generator) -> Choice:
        if int(line.state[2]) < CONNECT_FOUR_STONES:
            return before(line, rng)
        seen = solver.nodes
        verdict = solver.verdict(line.state)
        return Choice(int(rng.choice(verdict.keeps)), float(verdict.value), solver.nodes - seen)

    return think


def tablebase_think(game: Game) -> Think:
    """The quickest way to win, or the slowest to lose, from `play.truth.endgames`.

    Fails in a position that has no table. Fatal(CONFIG) for another game than chess.
    """
    if game.name != "chess":
        raise Fatal(f"endgame tables are there for chess only, not for {game.name}", Exit.CONFIG)
    from play.truth import endgames

    def rank(line: GameLine, action: int, child: State) -> tuple[int, int]:
        game.rules.play(line.state, action, child)
        after = GameLine(game, game.notation.state_to_text(child))
        if after.end_reason() is not None:
            sign = 1 if line.side_to_move == 0 else -1
            return after.outcome() * sign, 0
        known = endgames.probe(child)
        if known is None:
            raise PlayerFailed(f"no endgame table for {after.start}")
        return -known.value, known.plies if known.value > 0 else -known.plies

    def think(line: GameLine, rng: np.random.Generator) -> Choice:
        known = endgames.probe(line.state)
        if known is None:
            raise PlayerFailed(
                f"no endgame table for {game.notation.state_to_text(line.state)}; there are "
                f"{', '.join(endgames.ENDINGS)}"
            )
        legal, child = line.legal_actions(), np.zeros_like(line.state)
        ranks = [rank(line, int(action), child) for action in legal]
        best = [action for action, one in zip(legal, ranks, strict=True) if one == max(ranks)]
        return Choice(int(rng.choice(best)), float(known.value))

    return think
