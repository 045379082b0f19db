"""Positions a second of `azplay analyse`: 10,000 chess positions in one stream, over real pipes.

Positions of random games, given as the moves that lead there, an untrained `tiny` network on the CPU. What
counts is how full the batches are: rows per batch over the batch the device works best with.
"""

from __future__ import annotations

import json
import os
import threading
import time

import numpy as np

from engine.analysis.position import Analyst
from engine.analysis.service import Service, positions_in_flight
from engine.nets import LoadedNet, load_net
from games import get_game
from games.game_history import GameHistory
from games.spec import Game
from runtime import aio
from search.warm import warm

GAME = "chess"
POSITIONS = 10_000
SIMULATIONS = 16
GAME_PLIES = 80
"""Positions come from the first plies of games, as many of each ply."""


def request_lines(count: int, seed: int = 0) -> bytes:
    """JSON lines of `count` positions in which the game goes on."""
    game, rng = get_game(GAME), np.random.default_rng(seed)
    lines: list[str] = []
    while len(lines) < count:
        moves = _random_moves(game, rng)
        for plies in range(0, len(moves), 8):
            request = {"id": len(lines), "moves": moves[:plies], "simulations": SIMULATIONS}
            lines.append(json.dumps(request))
    return "\n".join(lines[:count]).encode() + b"\n"


def _random_moves(game: Game, rng: np.random.Generator) -> list[str]:
    game_history = GameHistory(game)
    while game_history.ply < GAME_PLIES and game_history.end_reason() is None:
        game_history.play(int(rng.choice(game_history.legal_actions())))
    return game_history.moves_text()


def _analyse(net: LoadedNet, data: bytes) -> tuple[int, float]:
    """(lines that came back with a best move, seconds)."""
    service = Service(
        Analyst.of(net.game, net.evaluator, net.history),
        in_flight=positions_in_flight(0, net.target_rows),
        simulations=SIMULATIONS,
    )
    read_in, write_in = os.pipe()
    read_out, write_out = os.pipe()
    found: list[int] = []
    feeder = threading.Thread(target=_feed, args=(write_in, data))
    reader = threading.Thread(target=_count, args=(read_out, found))
    began = time.perf_counter()
    feeder.start()
    reader.start()
    aio.run(lambda stop: service.run(read_in, write_out, stop))
    os.close(write_out)
    feeder.join()
    reader.join()
    os.close(read_in)
    return found[0], time.perf_counter() - began


def _feed(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _count(descriptor: int, found: list[int]) -> None:
    with os.fdopen(descriptor, "rb") as file:
        found.append(sum(b'"best"' in line for line in file))


def run() -> dict[str, float]:
    warm(GAME)
    data = request_lines(POSITIONS)
    net = load_net(None, GAME)
    answered, seconds = _analyse(net, data)
    net.close()
    if answered != POSITIONS:
        raise RuntimeError(f"{answered} of {POSITIONS} positions were answered")
    mean_batch = net.evaluator.rows / net.evaluator.batches
    figures = {
        "positions_per_s": answered / seconds,
        "evals_per_s": net.evaluator.rows / seconds,
        "mean_batch": mean_batch,
        "target_rows": net.target_rows,
        "mean_batch_fill": mean_batch / net.target_rows,
        "seconds": seconds,
    }
    print(f"{POSITIONS:,} chess positions at {SIMULATIONS} simulations, tiny network on the CPU")
    for name, value in figures.items():
        print(f"  {name:18} {value:12,.2f}")
    return figures
