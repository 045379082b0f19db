"""Rules of chess, shogi and Go: perft against known counts, and the cost of a call, jitted and from Python.

One thread that never waits, so times are CPU times, which other work on the machine does not change.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from azselfplay.games import get_game
from azselfplay.games.chess.notation import START_FEN, state_from_fen
from azselfplay.games.jit import bind, kernel
from azselfplay.games.shogi.notation import unchecked_state
from azselfplay.games.spec import NO_ROOT, Game, Positions, State
from azselfplay.games.stubs import (
    Actions,
    Words,
    bindings,
    encode,
    end_reason,
    legal_actions,
    perft,
    play,
    wins_among,
)

PERFT = (
    ("start", START_FEN, 5, 4_865_609),
    ("kiwipete", "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq -", 4, 4_085_603),
    ("rook endgame", "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - -", 6, 11_030_083),
    ("promotions", "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq -", 5, 15_833_292),
)
"""Positions and counts as collected by the chess programming community: name, FEN, depth, leaves."""

SHOGI_PERFT = (
    ("start", "", 5, 19_861_490),
    ("most moves", "R8/2K1S1SSk/4B4/9/9/9/9/9/1L1L1L3 b RBGSNLP3g3n17p 1", 3, 53_393_368),
    ("middle game", "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1", 3, 4_809_015),
    ("drop-mate", "7lk/9/8S/9/9/9/9/7L1/8K b P 1", 4, 167_089),
    ("pins", "7k1/9/9/9/l2s5/6snb/9/9/8K b 2G 1", 3, 201_658),
    ("promoted", "k+n7/sg7/9/9/9/9/+r5K1g/7L1/2LN1R1+Bb b RBGSNLP 1", 3, 414_441),
    ("in hand", "9/9/9/3k5/9/5K3/9/9/9 b RB2G2S2N2L9Prb2g2s2n2l9p 1", 2, 248_257),
)
"""The same for shogi, from authors of shogi programs, as SFEN. The sixth has three rooks, which no game can
have."""

GO_PERFT = (("start", "", 4, 361_041),)
"""On 5 x 5; passes and the ends of games count."""

GAMES, PLIES, REPEATS = 16, 96, 30


def run() -> dict[str, float | int]:
    """Check all perft counts and time the rules. Raises AssertionError if a count is wrong."""
    figures: dict[str, float | int] = {}
    for name, prefix, read, rows in (
        ("chess", "", state_from_fen, PERFT),
        ("shogi", "shogi_", unchecked_state, SHOGI_PERFT),
        ("go_5x5", "go_5x5_", get_game("go_5x5").notation.state_from_text, GO_PERFT),
    ):
        figures[f"{prefix}perft_nodes_per_s"] = round(_run_perft(get_game(name), read, rows))
    for name, prefix in (("chess", ""), ("shogi", "shogi_"), ("go_9x9", "go_9x9_"), ("go", "go_")):
        game = get_game(name)
        games = _random_games(game, np.random.default_rng(1))
        found = _time_jitted(game, games) | _time_calls(game, games[0])
        figures |= {f"{prefix}{key}": value for key, value in found.items()}
    for name, figure in figures.items():
        print(f"{name:38} {figure:>14,}")
    return figures


def _run_perft(
    game: Game, read: Callable[[str], State], rows: tuple[tuple[str, str, int, int], ...]
) -> float:
    perft(game, game.notation.state_from_text(""), 2)
    nodes, seconds = 0, 0.0
    for name, text, depth, expected in rows:
        state = read(text)
        began = time.process_time()
        found = perft(game, state, depth, ends=game.name.startswith("go"))
        took = time.process_time() - began
        rate = found / took / 1e6
        print(f"perft {game.name} {name:14} depth {depth}: {found:>12,}  {rate:6.0f} M nodes/s")
        if found != expected:
            raise AssertionError(f"perft {name} at depth {depth}: {found}, published {expected}")
        nodes, seconds = nodes + found, seconds + took
    return nodes / seconds


def _random_games(game: Game, rng: np.random.Generator) -> Positions:
    """Random games of full length, uint64[GAMES, PLIES, words]; a game that ends early is replaced."""
    rules, games = game.rules, np.zeros((GAMES, PLIES, game.state_words), dtype=np.uint64)
    actions = np.zeros(game.max_legal, dtype=np.uint16)
    for positions in games:
        n = 0
        while n < PLIES:
            if n == 0:
                rules.start(positions[0])
                n = 1
            count = rules.legal_actions(positions, n, actions)
            if rules.end_reason(positions, n, count, NO_ROOT):
                n = 0
                continue
            rules.play(positions[n - 1], int(actions[rng.integers(count)]), positions[n])
            n += 1
    return games


def _time_jitted(game: Game, games: Positions) -> dict[str, float | int]:
    """Nanoseconds per call inside jitted code, over all positions of the random games."""
    kernels = bind([sys.modules[__name__]], {game.name: bindings(game)})
    actions, found, replies = np.zeros((3, game.max_legal), np.uint16)
    child = np.zeros(game.state_words, np.uint64)
    loops: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "legal_actions_ns": (kernels.loop_legal, (actions,)),
        "play_ns": (kernels.loop_play, (actions, child)),
        "end_reason_in_search_ns": (kernels.loop_end, ()),
        "encode_8_ns": (kernels.loop_encode, (np.zeros(game.feature_words(8), np.uint64),)),
        "look_ahead_ns": (kernels.loop_wins, (actions, found, replies, child)),
    }
    figures: dict[str, float | int] = {}
    for name, (loop, scratch) in loops.items():
        loop(games, 1, *scratch)
        began = time.process_time()
        loop(games, REPEATS, *scratch)
        calls = GAMES * (PLIES - 8) * REPEATS
        figures[name] = round((time.process_time() - began) / calls * 1e9, 1)
    return figures


@kernel
def loop_legal(games: Positions, repeats: int, actions: Actions) -> int:
    total = 0
    for _ in range(repeats):
        for positions in games:
            for n in range(9, PLIES + 1):
                total += legal_actions(positions, n, actions)
    return total


@kernel
def loop_play(games: Positions, repeats: int, actions: Actions, child: State) -> int:
    total = 0
    for positions in games:
        for n in range(9, PLIES + 1):
            count = legal_actions(positions, n, actions)
            for turn in range(repeats):
                play(positions[n - 1], actions[turn % count], child)
                total += int(child[0] & np.uint64(1))
    return total


@kernel
def loop_end(games: Positions, repeats: int) -> int:
    total = 0
    for _ in range(repeats):
        for positions in games:
            for n in range(9, PLIES + 1):
                total += end_reason(positions, n, 20, 0)
    return total


@kernel
def loop_encode(games: Positions, repeats: int, words: Words) -> int:
    for _ in range(repeats):
        for positions in games:
            for n in range(9, PLIES + 1):
                encode(positions, n, 8, words)
    return int(words[0])


@kernel
def loop_wins(
    games: Positions, repeats: int, actions: Actions, found: Actions, replies: Actions, spare: State
) -> int:
    """Look for moves that win at once in all positions. `spare [words]` keeps what is overwritten."""
    total = 0
    for _ in range(repeats):
        for positions in games:
            for n in range(9, PLIES):
                count = legal_actions(positions, n, actions)
                for word in range(len(spare)):
                    spare[word] = positions[n, word]
                total += wins_among(positions, n, actions[:count], found, replies)
                for word in range(len(spare)):
                    positions[n, word] = spare[word]
    return total


def _time_calls(game: Game, positions: Positions) -> dict[str, float | int]:
    """Nanoseconds per call when Python calls each rule directly."""
    rules = game.rules
    actions, words = np.zeros(game.max_legal, np.uint16), np.zeros(game.feature_words(8), np.uint64)
    rules.legal_actions(positions, PLIES, actions)
    parent, child, action = positions[PLIES - 1], np.zeros(game.state_words, np.uint64), int(actions[0])
    calls: dict[str, Callable[[], Any]] = {
        "legal_actions_from_python_ns": lambda: rules.legal_actions(positions, PLIES, actions),
        "play_from_python_ns": lambda: rules.play(parent, action, child),
        "encode_8_from_python_ns": lambda: rules.encode(positions, PLIES, 8, words),
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
