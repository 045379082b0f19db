"""Positions of random games, as sparse networks read them, and networks whose parameters all matter."""

from functools import cache
from pathlib import Path

import numpy as np
import torch
from every_game import EVERY_GAME

from azselfplay.games import get_game
from net.architectures.network import Network, build
from net.architectures.registry import named
from net.weights import WeightsMeta, save
from protocol.frames import LeafBatch

SPARSE_GAMES = tuple(name for name in EVERY_GAME if get_game(name).sparse is not None)


@cache
def positions(game_name: str, count: int = 60, history: int = 1) -> LeafBatch:
    """Return `count` positions of random games."""
    game, rng = get_game(game_name), np.random.default_rng(1)
    states = np.zeros((game.max_plies + 2, game.state_words), np.uint64)
    legal, features, counts, actions = np.zeros(game.max_legal, np.uint16), [], [], []
    while len(counts) < count:
        states[0], n = game.notation.state_from_text(""), 1
        while len(counts) < count and n <= 100:
            found = game.rules.legal_actions(states, n, legal)
            if game.rules.end_reason(states, n, found, -1):
                break
            packed = np.zeros(game.feature_words(history), np.uint64)
            game.rules.encode(states, n, history, packed)
            features.append(packed)
            counts.append(found)
            actions.append(legal[:found].copy())
            game.rules.play(states[n - 1], int(rng.choice(legal[:found])), states[n])
            n += 1
    return LeafBatch(np.array(features), np.array(counts, np.uint16), np.concatenate(actions))


def sparse_network(game_name: str, name: str = "sparse", seed: int = 0, history: int = 1) -> Network:
    """Return a network in which every parameter affects the answers."""
    torch.manual_seed(seed)
    network = build(named(name), get_game(game_name), history)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.1)
    return network.eval()


def saved(path: Path, game_name: str, network: Network, version: int = 0, history: int = 1) -> Path:
    save(path, network, WeightsMeta(game_name, history, network.architecture, 7, version))
    return path
