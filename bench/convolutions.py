"""Networks in float32 on one core, with Winograd's convolutions and with oneDNN's, in turns.

Processor time of the thread that computes, so other work on the machine matters little.
"""

from __future__ import annotations

import time
from functools import partial
from unittest import mock

import torch

from azselfplay.games import get_game
from bench.inference import chess_like_batch
from bench.turns import in_turns, ratio
from net.architectures.network import build, fold
from net.architectures.registry import named
from net.batches import Batch
from net.cpu import convolutions
from net.cpu.engine import CpuEngine

NETWORKS = (
    ("chess", "3x48"),
    ("chess", "small"),
    ("shogi", "3x48"),
    ("connect_four", "3x48"),
    ("connect_four", "4x64"),
    ("go_9x9", "small"),
    ("go", "small"),
)
ROWS, RUNS, TURNS = 128, 2, 15


def engine_of(game_name: str, net: str, *, by_winograd: bool) -> CpuEngine:
    """An untrained network on one thread, with Winograd's convolutions or with oneDNN's."""
    game = get_game(game_name)
    torch.manual_seed(0)
    network = fold(build(named(net), game, 1).eval())
    rule = convolutions.by_winograd if by_winograd else lambda _: False
    with mock.patch.object(convolutions, "by_winograd", rule):
        return CpuEngine(network, game, 1, torch.float32, threads=1)


def microseconds(engine: CpuEngine, batch: Batch) -> float:
    """Processor time of a position."""
    began = time.process_time()
    for _ in range(RUNS):
        engine.start(batch, 0)
        engine.finish(0)
    return (time.process_time() - began) / RUNS / batch.rows * 1e6


def run() -> dict[str, float]:
    """By game and network: how many times as fast Winograd's convolutions are."""
    figures = {}
    print("us of processor time a position: median (least to most)")
    for game, net in NETWORKS:
        batch = Batch(*chess_like_batch(get_game(game), ROWS, history=1))
        engines = {
            name: engine_of(game, net, by_winograd=name == "winograd") for name in ("oneDNN", "winograd")
        }
        sides = {name: partial(microseconds, engine, batch) for name, engine in engines.items()}
        in_turns(sides, 1)
        found = in_turns(sides, TURNS)
        times = ratio(found["oneDNN"], found["winograd"])
        least = {name: min(values) for name, values in found.items()}
        print(
            f"{game:14} {net:6} oneDNN {least['oneDNN']:5.0f}, Winograd {least['winograd']:5.0f} at best: "
            f"{times.text('.2f')} times as fast"
        )
        figures[f"{game}_{net}"] = round(times.median, 2)
        for engine in engines.values():
            engine.close()
    return figures
