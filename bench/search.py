"""Leaves per second on one core: coroutine searches with a uniform network that costs nothing.

The code path is that of self-play: one coroutine per game, one `await` per search, all searches stepped
together, their leaves joined into batches, on uvloop. For comparison, the same run measures a plain search of
the same kind on python-chess objects with the same 119 planes. All are measured in turns.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import chess
import numpy as np
import uvloop

from azselfplay.games import get_game
from azselfplay.search.evaluator import UniformEvaluator
from azselfplay.search.forest import Forest
from azselfplay.search.mcts import choose_action, search
from azselfplay.search.pool import SearchPool
from azselfplay.search.settings import resolve
from azselfplay.search.tree import SearchTree
from azselfplay.search.warm import warm
from bench.turns import TURNS, Spread, in_turns, ratio
from protocol.settings import SearchSettings, SelfPlaySettings

GAMES = 256
SECONDS = 3.0
"""Seconds of a turn."""
LONG = 15.0
"""Seconds of a turn with 800 simulations a move: long enough that most searches begin with a kept subtree."""


def coroutine_path(
    game_name: str, games: int = GAMES, simulations: int = 100, seconds: float = SECONDS
) -> float:
    """Return leaves per second of this process's CPU time; trees are kept from move to move."""
    game = get_game(game_name)
    settings = resolve(SelfPlaySettings(search=SearchSettings(simulations=simulations)), game)

    async def play(pool: SearchPool, number: int) -> None:
        with SearchTree(pool.forest, np.random.default_rng(number)) as tree:
            while True:  # game after game, until cancelled
                tree.reset(game.notation.state_from_text(""))
                while tree.end_reason() is None:
                    result = await search(tree, pool)
                    tree.advance(choose_action(result, tree.ply, settings, tree.rng))

    async def main() -> float:
        pool = SearchPool(Forest(game, settings, games), UniformEvaluator())
        began = time.process_time()
        players = [asyncio.ensure_future(play(pool, number)) for number in range(games)]
        await asyncio.sleep(seconds)
        rate = pool.leaves / (time.process_time() - began)
        for player in players:
            player.cancel()
        await asyncio.gather(*players, return_exceptions=True)
        return rate

    return uvloop.run(main())


# ---- The plain twin -----------------------------------------------------------------------------


class PlainNode:
    def __init__(self, prior: float) -> None:
        self.prior, self.visits, self.value_sum = prior, 0, 0.0
        self.children: dict[chess.Move, PlainNode] = {}


def plain_planes(board: chess.Board) -> np.ndarray[Any, Any]:
    """Return AlphaZero's 119 planes as packed words, from a board with its move stack."""
    words = np.zeros(119, np.uint64)
    past = board.copy(stack=8)
    turn = board.turn
    for step in range(8):
        for index, (colour, kind) in enumerate((c, k) for c in (turn, not turn) for k in chess.PIECE_TYPES):
            mask = past.pieces_mask(kind, colour)
            # Planes show the board as the side to move sees it.
            words[14 * step + index] = mask if turn else chess.flip_vertical(mask)
        words[14 * step + 12] = past.is_repetition(2)
        words[14 * step + 13] = past.is_repetition(3)
        if not past.move_stack:
            break
        past.pop()
    words[112:] = turn, board.ply(), board.castling_rights, 0, 0, 0, board.halfmove_clock
    return words


def plain_leaf(node: PlainNode, board: chess.Board) -> float:
    """Expand with equal priors, like the fast search. Returns the value for the side to move."""
    moves = list(board.legal_moves)
    if board.is_repetition(2) or board.halfmove_clock >= 100 or board.is_insufficient_material():
        return 0.0
    if not moves:
        return -1.0 if board.is_check() else 0.0
    plain_planes(board)
    node.children = {move: PlainNode(1 / len(moves)) for move in moves}
    return 0.0


def plain_simulation(root: PlainNode, board: chess.Board) -> None:
    """Walk from `root` to a leaf, and back its value up."""
    board, node, path = board.copy(stack=True), root, [root]
    while node.children:
        parent = node
        c_puct = (math.log((1 + parent.visits + 19652) / 19652) + 1.25) * math.sqrt(max(1, parent.visits))
        move, node = max(
            parent.children.items(),
            key=lambda item: (
                (-item[1].value_sum / item[1].visits if item[1].visits else 0.0)
                + c_puct * item[1].prior / (1 + item[1].visits)
            ),
        )
        board.push(move)
        path.append(node)
    value = plain_leaf(node, board)
    for node in reversed(path):
        node.visits += 1
        node.value_sum += value
        value = -value


def plain_path() -> float:
    """Return simulations per second of CPU time on python-chess, over games with 100 simulations per move."""
    rng = np.random.default_rng(0)
    board = chess.Board()
    simulations, began = 0, time.process_time()
    while time.process_time() - began < SECONDS:
        if board.is_game_over(claim_draw=True):
            board = chess.Board()
        root = PlainNode(1.0)
        # The first simulation only expands the root.
        for _ in range(101):
            plain_simulation(root, board)
        simulations += 101
        visits = np.array([child.visits for child in root.children.values()], float)
        board.push(list(root.children)[rng.choice(len(visits), p=visits / visits.sum())])
    return simulations / (time.process_time() - began)


SIDES = {
    "connect four, 256 games": lambda: coroutine_path("connect_four"),
    "chess, 119 planes, 256 games": lambda: coroutine_path("chess"),
    "chess, 119 planes, 512 games": lambda: coroutine_path("chess", games=512),
    "chess, 256 games, 800 simulations": lambda: coroutine_path("chess", simulations=800, seconds=LONG),
    "chess on python-chess, plain Python": plain_path,
    "shogi, 362 planes, 256 games": lambda: coroutine_path("shogi"),
    "Go 9x9, 17 planes, 256 games": lambda: coroutine_path("go_9x9"),
    "Go 19x19, 17 planes, 256 games": lambda: coroutine_path("go"),
}


def run() -> dict[str, float]:
    for game in ("connect_four", "chess", "shogi", "go_9x9", "go"):
        warm(game)
    measured = in_turns(SIDES)
    print(f"{'path':38} leaves/s per core, median of {TURNS} turns (least to most)")
    for name, rates in measured.items():
        print(f"{name:38} {Spread.of(rates).text()}")
    times = ratio(measured["chess, 119 planes, 256 games"], measured["chess on python-chess, plain Python"])
    print(f"ratio of chess to python-chess {times.text('.1f')}")
    ratios = {"ratio": times.median, "ratio, least": times.least, "ratio, most": times.most}
    return {**{name: Spread.of(rates).median for name, rates in measured.items()}, **ratios}
