"""A plain search on python-chess with asyncio, in turns: one coroutine per game, one `await` per leaf, one
batch for all leaves of a turn of the event loop. Nodes and boards are Python objects; the network is a torch
module."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import chess
import numpy as np
import numpy.typing as npt
import torch

from azselfplay.games import get_game
from azselfplay.games.chess.board import ACTION_OF, UNDERPROMOTION_PLANE
from bench.peers.answering import Counts, Options, answer, give_up, options, play_for, versions
from bench.search import PlainNode, plain_backup, plain_descent, plain_planes, plain_value_at_end
from net.architectures.network import build
from net.architectures.registry import named

GAMES = 64
SCALARS = [*(14 * step + plane for step in range(8) for plane in (12, 13)), 112, 113, 118]
"""Planes that have one number for the whole board, here in hundredths. Castling rights are bits."""
UNDERPROMOTIONS = (chess.KNIGHT, chess.BISHOP, chess.ROOK)

Answer = tuple[npt.NDArray[np.float32], float]
"""Priors of the legal moves, value for the side to move."""


def action_of(move: chess.Move, turn: chess.Color) -> int:
    """Index into AlphaZero's policy of 4,672."""
    start, end = (move.from_square, move.to_square) if turn else (move.from_square ^ 56, move.to_square ^ 56)
    if move.promotion in UNDERPROMOTIONS:
        plane = UNDERPROMOTION_PLANE + 3 * UNDERPROMOTIONS.index(move.promotion) + end - start - 7
        return plane * 64 + start
    return int(ACTION_OF[start * 64 + end])


class Network:
    """An untrained torch module in float32 for positions as packed planes."""

    def __init__(self, net: str) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        game = get_game("chess")
        self._module = build(named(net), game, game.history).eval()

    def __call__(self, words: Sequence[npt.NDArray[Any]], actions: Sequence[list[int]]) -> list[Answer]:
        """`words`: uint64[119] per row."""
        packed = np.stack(words)
        bits = np.unpackbits(packed.view(np.uint8), bitorder="little")
        planes = bits.reshape(len(words), 119, 8, 8).astype(np.float32)
        planes[:, SCALARS] = packed[:, SCALARS, None, None] / 100
        with torch.inference_mode():
            logits, wdl = self._module(torch.from_numpy(planes))
            win, _, loss = torch.softmax(wdl, 1).unbind(1)
            values = (win - loss).tolist()
        return [
            (_softmax(row[chosen]), v) for row, chosen, v in zip(logits.numpy(), actions, values, strict=True)
        ]


def _softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    weights = np.exp(logits - logits.max())
    found: npt.NDArray[np.float32] = weights / weights.sum()
    return found


def free(words: Sequence[npt.NDArray[Any]], actions: Sequence[list[int]]) -> list[Answer]:  # noqa: ARG001
    """A network that knows and costs nothing."""
    return [(np.full(len(chosen), 1 / len(chosen), np.float32), 0.0) for chosen in actions]


class Batches:
    """Joins all requests of one turn of the event loop into one batch."""

    def __init__(self, network: Any) -> None:
        self.rows = 0
        self._network = network
        self._asked: list[tuple[npt.NDArray[Any], list[int], asyncio.Future[Answer]]] = []

    async def evaluate(self, words: npt.NDArray[Any], actions: list[int]) -> Answer:
        loop = asyncio.get_running_loop()
        if not self._asked:
            loop.call_soon(self._run)
        future: asyncio.Future[Answer] = loop.create_future()
        self._asked.append((words, actions, future))
        return await future

    def _run(self) -> None:
        asked, self._asked = self._asked, []
        answers = self._network([one[0] for one in asked], [one[1] for one in asked])
        self.rows += len(asked)
        for (_, _, future), found in zip(asked, answers, strict=True):
            future.set_result(found)


class SelfPlay:
    """Games on an event loop that runs only during a turn."""

    def __init__(self, chosen: Options) -> None:
        self._simulations = chosen.simulations
        self._done = 0
        self._batches = Batches(Network(chosen.net) if chosen.net else free)
        self._loop = asyncio.new_event_loop()
        self.games = chosen.batch or GAMES
        self._playing = [self._loop.create_task(self._play(number)) for number in range(self.games)]
        self.measure(0.5)

    def measure(self, seconds: float) -> Counts:
        began, done, rows = time.perf_counter(), self._done, self._batches.rows
        play_for(self._loop, self._playing, seconds)
        return Counts(time.perf_counter() - began, self._done - done, self._batches.rows - rows)

    def close(self) -> None:
        give_up(self._loop, self._playing)

    async def _play(self, number: int) -> None:
        rng, board = np.random.default_rng(number), chess.Board()
        while True:
            if board.is_game_over(claim_draw=True):
                board = chess.Board()
            root = PlainNode(1.0)
            for _ in range(self._simulations + 1):
                await self._simulate(root, board)
            visits = np.array([child.visits for child in root.children.values()], float)
            board.push(list(root.children)[rng.choice(len(visits), p=visits / visits.sum())])

    async def _simulate(self, root: PlainNode, board: chess.Board) -> None:
        board = board.copy(stack=True)
        path = plain_descent(root, board)
        moves = list(board.legal_moves)
        value = plain_value_at_end(board, moves)
        if value is None:
            actions = [action_of(move, board.turn) for move in moves]
            priors, value = await self._batches.evaluate(plain_planes(board), actions)
            path[-1].children = {
                move: PlainNode(prior) for move, prior in zip(moves, priors.tolist(), strict=True)
            }
        plain_backup(path, value)
        self._done += len(path) > 1  # the root's own evaluation is not a simulation


def main() -> None:
    side = SelfPlay(options())
    answer(
        {"versions": versions("chess", "torch"), "settings": f"{side.games} games side by side"}, side.measure
    )
    side.close()


if __name__ == "__main__":
    main()
