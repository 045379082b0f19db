"""Chess rules: perft against the published counts, what a call costs, jitted and from Python.

One thread that never waits, so times are CPU times: a machine busy with something else does not change them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from games.chess import GAME
from games.chess.movegen import MAX_LEGAL
from games.chess.notation import START_FEN
from games.chess.perft import perft
from games.spec import Positions

PERFT = (
    ("start", START_FEN, 5, 4_865_609),
    ("kiwipete", "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq -", 4, 4_085_603),
    ("rook endgame", "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - -", 6, 11_030_083),
    ("promotions", "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq -", 5, 15_833_292),
)
"""Positions and counts as collected by the chess programming community: name, FEN, depth, leaves."""

_RULES = GAME.rules
_legal_actions, _play, _encode, _end_reason = (
    _RULES.legal_actions,
    _RULES.play,
    _RULES.encode,
    _RULES.end_reason,
)
GAMES, PLIES, REPEATS = 16, 96, 30


def run() -> dict[str, float | int]:
    """Check the four perft counts, time the rules. AssertionError if a count is off."""
    nodes_per_s = _run_perft()
    games = _random_games(np.random.default_rng(1))
    figures: dict[str, float | int] = {"perft_nodes_per_s": round(nodes_per_s)}
    figures |= _time_jitted(games)
    figures |= _time_calls(games[0])
    for name, figure in figures.items():
        print(f"{name:32} {figure:>14,}")
    return figures


def _run_perft() -> float:
    perft(GAME.notation.state_from_text(""), 2)
    nodes, seconds = 0, 0.0
    for name, fen, depth, expected in PERFT:
        state = GAME.notation.state_from_text(fen)
        began = time.process_time()
        found = perft(state, depth)
        took = time.process_time() - began
        print(f"perft {name:14} depth {depth}: {found:>12,}  {found / took / 1e6:6.0f} M nodes/s")
        if found != expected:
            raise AssertionError(f"perft {name} at depth {depth}: {found}, published {expected}")
        nodes, seconds = nodes + found, seconds + took
    return nodes / seconds


def _random_games(rng: np.random.Generator) -> Positions:
    """Random games of full length, uint64[GAMES, PLIES, words]; a game that ends early is played anew."""
    games = np.zeros((GAMES, PLIES, GAME.state_words), dtype=np.uint64)
    actions = np.zeros(MAX_LEGAL, dtype=np.uint16)
    for positions in games:
        n = 0
        while n < PLIES:
            if n == 0:
                _RULES.start(positions[0])
                n = 1
            count = _legal_actions(positions, n, actions)
            if _end_reason(positions, n, count, False):
                n = 0
                continue
            _play(positions[n - 1], int(actions[rng.integers(count)]), positions[n])
            n += 1
    return games


def _time_jitted(games: Positions) -> dict[str, float | int]:
    """Nanoseconds a call inside jitted code, over all positions of the random games."""
    kernels: dict[str, Callable[..., Any]] = {
        "legal_actions_ns": _loop_legal,
        "play_ns": _loop_play,
        "end_reason_in_search_ns": _loop_end,
        "encode_8_ns": _loop_encode,
    }
    figures: dict[str, float | int] = {}
    for name, kernel in kernels.items():
        loop = numba.njit(kernel)
        loop(games, 1)
        began = time.process_time()
        loop(games, REPEATS)
        calls = GAMES * (PLIES - 8) * REPEATS
        figures[name] = round((time.process_time() - began) / calls * 1e9, 1)
    return figures


def _loop_legal(games: Positions, repeats: int) -> int:
    actions, total = np.zeros(MAX_LEGAL, np.uint16), 0
    for _ in range(repeats):
        for positions in games:
            for n in range(9, PLIES + 1):
                total += _legal_actions(positions, n, actions)
    return total


def _loop_play(games: Positions, repeats: int) -> int:
    actions, child, total = np.zeros(MAX_LEGAL, np.uint16), np.zeros(9, np.uint64), 0
    for positions in games:
        for n in range(9, PLIES + 1):
            count = _legal_actions(positions, n, actions)
            for turn in range(repeats):
                _play(positions[n - 1], actions[turn % count], child)
                total += int(child[8] & np.uint64(1))
    return total


def _loop_end(games: Positions, repeats: int) -> int:
    total = 0
    for _ in range(repeats):
        for positions in games:
            for n in range(9, PLIES + 1):
                total += _end_reason(positions, n, 20, True)
    return total


def _loop_encode(games: Positions, repeats: int) -> int:
    words = np.zeros(8 * 14 + 7, np.uint64)
    for _ in range(repeats):
        for positions in games:
            for n in range(9, PLIES + 1):
                _encode(positions, n, 8, words)
    return int(words[0])


def _time_calls(positions: Positions) -> dict[str, float | int]:
    """Nanoseconds a call when Python calls each rule by itself."""
    actions, words = np.zeros(MAX_LEGAL, dtype=np.uint16), np.zeros(GAME.feature_words(8), dtype=np.uint64)
    _legal_actions(positions, PLIES, actions)
    parent, child, action = positions[PLIES - 1], np.zeros(GAME.state_words, dtype=np.uint64), int(actions[0])
    calls: dict[str, Callable[[], Any]] = {
        "legal_actions_from_python_ns": lambda: _legal_actions(positions, PLIES, actions),
        "play_from_python_ns": lambda: _play(parent, action, child),
        "encode_8_from_python_ns": lambda: _encode(positions, PLIES, 8, words),
    }
    figures: dict[str, float | int] = {}
    for name, call in calls.items():
        call()
        began = time.process_time()
        for _ in range(50_000):
            call()
        figures[name] = round((time.process_time() - began) / 50_000 * 1e9, 1)
    return figures


if __name__ == "__main__":
    run()
