"""`python -m experiments.mates_in_one`: chess positions with a mate in one, from games of a UCI engine.

The engine plays both sides after a few random moves, with a random number of nodes a move; one side also
plays some moves at random, so that mates happen on full boards too. Each game gives at most one position: one
of those in which the side to move can mate at once, drawn at random. The result is the file of
`games.chess.knowledge`, which counts how many of these mates a network plays.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Collection
from pathlib import Path

import chess
import chess.engine

from runtime.exits import Exit, Fatal, guarded

OUT = Path(__file__).parent.parent / "games" / "chess" / "data" / "mates_in_one.epd"
MOST_PLIES = 200
OPENING_PLIES = (2, 10)
NODES = (20, 3000)
"""Range of the nodes a move; each side has its own number in a game."""
RANDOM_MOVES = (0.0, 0.4)
"""Range of the share of the weaker side's moves that are random."""


def mates(board: chess.Board) -> list[chess.Move]:
    """The legal moves that mate."""
    return [move for move in board.legal_moves if board.gives_check(move) and _is_mate_after(board, move)]


def _is_mate_after(board: chess.Board, move: chess.Move) -> bool:
    board.push(move)
    found = board.is_checkmate()
    board.pop()
    return found


def started(command: str) -> chess.engine.SimpleEngine:
    """The engine, with one thread. Raises Fatal(CONFIG)."""
    try:
        engine = chess.engine.SimpleEngine.popen_uci(command)
        engine.configure({"Threads": 1, "Hash": 1})
    except (OSError, chess.engine.EngineError, TimeoutError) as error:
        text = f"--engine {command!r} does not answer as a UCI engine ({error or 'no answer'})"
        hint = "give the path of one (Debian: apt-get install stockfish; --engine /usr/games/stockfish)"
        raise Fatal(f"{text}: {hint}", Exit.CONFIG) from error
    return engine


def position_of_a_game(engine: chess.engine.SimpleEngine, rng: random.Random) -> str | None:
    """Play a game. Returns one of its positions with a mate in one, as EPD; None if it has none."""
    board, found = chess.Board(), []
    for _ in range(rng.randint(*OPENING_PLIES)):
        board.push(rng.choice(list(board.legal_moves)))
        if board.is_game_over():
            return None
    weaker, share = rng.choice(chess.COLORS), rng.uniform(*RANDOM_MOVES)
    limits = {color: chess.engine.Limit(nodes=rng.randint(*NODES)) for color in chess.COLORS}
    while not board.is_game_over(claim_draw=True) and board.ply() < MOST_PLIES:
        if mates(board):
            found.append(board.epd())
        if board.turn == weaker and rng.random() < share:
            board.push(rng.choice(list(board.legal_moves)))
        else:
            move = engine.play(board, limits[board.turn]).move
            assert move is not None
            board.push(move)
    return rng.choice(found) if found else None


def make(engine_command: str, seed: int, count: int, apart_from: Collection[str] = ()) -> list[str]:
    """`count` different positions of as many games, none of those in `apart_from`. Raises Fatal(CONFIG) for
    a program that is no UCI engine."""
    rng, found = random.Random(seed), dict[str, None]()
    with started(engine_command) as engine:
        while len(found) < count:
            position = position_of_a_game(engine, rng)
            if position is None or position in found or position in apart_from:
                continue
            found[position] = None
            if len(found) % 50 == 0:
                print(f"{len(found)} of {count}", flush=True)
    return list(found)


def _lines(file: Path | None) -> list[str]:
    """The lines of a file, none without a file. Raises Fatal(CONFIG) if it cannot be read."""
    try:
        return file.read_text().splitlines() if file else []
    except OSError as error:
        raise Fatal(f"--apart-from {file} cannot be read: {error.strerror}", Exit.CONFIG) from error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="stockfish", help="command of a UCI engine")
    parser.add_argument("--seed", type=int, default=1, help="of random moves, nodes and positions")
    parser.add_argument("--count", type=int, default=500, help="positions")
    parser.add_argument("--apart-from", type=Path, help="a file of this kind, whose positions are left out")
    parser.add_argument("--out", type=Path, default=OUT, help="the file to write")
    given = parser.parse_args()
    if given.count < 1:
        raise Fatal(f"--count is {given.count}, but must be at least 1", Exit.USAGE)
    lines = make(given.engine, given.seed, given.count, _lines(given.apart_from))
    header = f"# python -m experiments.mates_in_one --seed {given.seed} --count {given.count}"
    header += f" --apart-from {given.apart_from.name}\n" if given.apart_from else "\n"
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(header + "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main))
