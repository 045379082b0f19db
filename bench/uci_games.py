"""Whole games of `azplay uci` against Stockfish through python-chess: forfeits, and how fast it stops.

Needs Stockfish (`apt-get install stockfish`). The network is untrained: the games are lost in
a few dozen moves, and what is measured is the engine, not its strength. The clock is the referee's: time that
the engine, the pipe and python-chess took, no allowance. Two games run at a time.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import chess
import chess.engine

GAMES, AT_ONCE = 20, 2
CLOCK, INCREMENT = 10.0, 0.1
NODES = 100
STOPS = 20
ENGINE = [sys.executable, "-m", "commands.azplay", "uci", "--threads", "1", "--hash", "64"]


@dataclass
class Played:
    """One game: its result, and why it ended."""

    result: str
    reason: str
    plies: int
    least_left: float
    """Seconds, the smallest that our clock ever was."""


def stockfish() -> str:
    """Path of the binary. FileNotFoundError says what to install."""
    found = shutil.which("stockfish") or shutil.which("/usr/games/stockfish")
    if found is None:
        raise FileNotFoundError("stockfish is not installed: apt-get install stockfish")
    return found


async def play_game(ours: bool, nodes: int) -> Played:
    """One game, `ours` the colour of our engine; by the clock, or with `nodes` for each move of ours."""
    (_, us), (_, them) = (
        await chess.engine.popen_uci(ENGINE),
        await chess.engine.popen_uci(stockfish()),
    )
    try:
        await asyncio.wait_for(us.ping(), 300)
        return await _moves(us, them, ours, nodes)
    finally:
        await us.quit()
        await them.quit()


async def _moves(us: chess.engine.Protocol, them: chess.engine.Protocol, ours: bool, nodes: int) -> Played:
    board, clocks, least = chess.Board(), {chess.WHITE: CLOCK, chess.BLACK: CLOCK}, CLOCK
    while not board.is_game_over(claim_draw=True):
        mover = board.turn
        limit = chess.engine.Limit(
            white_clock=clocks[chess.WHITE],
            black_clock=clocks[chess.BLACK],
            white_inc=INCREMENT,
            black_inc=INCREMENT,
        )
        if nodes:
            limit = chess.engine.Limit(nodes=nodes)
        began = time.perf_counter()
        try:
            played = await asyncio.wait_for(
                (us if mover == ours else them).play(board, limit, game=id(board)), 60
            )
        except (chess.engine.EngineError, TimeoutError) as error:
            return Played("forfeit", f"{type(error).__name__}: {error}", board.ply(), least)
        clocks[mover] -= 0 if nodes else time.perf_counter() - began
        if mover == ours:
            least = min(least, clocks[mover])
        if clocks[mover] < 0:
            return Played("forfeit" if mover == ours else "won", "time", board.ply(), least)
        if played.move is None or played.move not in board.legal_moves:
            return Played("forfeit" if mover == ours else "won", f"move {played.move}", board.ply(), least)
        clocks[mover] += INCREMENT
        board.push(played.move)
    outcome = board.outcome(claim_draw=True)
    assert outcome is not None
    result = "drawn" if outcome.winner is None else ("won" if outcome.winner == ours else "lost")
    return Played(result, outcome.termination.name.lower(), board.ply(), least)


async def many_games(nodes: int) -> list[Played]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> Played:
        async with gate:
            return await play_game(number % 2 == 0, nodes)

    return await asyncio.gather(*(one(number) for number in range(GAMES)))


async def stop_latencies() -> list[tuple[float, float]]:
    """(from `stop` to `bestmove`, processor time in it) ms, of searches of 0.05 to 1 s in one growing tree.

    On a busy machine most of the first is waiting for a processor; the second is the engine's own part.
    """
    process = await asyncio.create_subprocess_exec(
        *ENGINE, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    found = []
    process.stdin.write(b"isready\n")
    await _line(process.stdout, b"readyok")
    for number in range(STOPS):
        process.stdin.write(b"position startpos moves e2e4 e7e5\ngo infinite\n")
        await asyncio.sleep(0.05 + 0.05 * number)
        began, used = time.perf_counter(), _processor_ms(process.pid)
        process.stdin.write(b"stop\n")
        await _line(process.stdout, b"bestmove")
        found.append((1000 * (time.perf_counter() - began), _processor_ms(process.pid) - used))
    process.stdin.write(b"quit\n")
    await process.wait()
    return found


def _processor_ms(process: int) -> float:
    """Of the process's first thread, which answers; 0 where there is no /proc."""
    file = Path(f"/proc/{process}/task/{process}/schedstat")
    return int(file.read_text().split()[0]) / 1e6 if file.exists() else 0.0


async def _line(output: asyncio.StreamReader, start: bytes) -> None:
    while not (line := await output.readline()).startswith(start):
        if not line:
            raise RuntimeError("the engine has ended")


def _row(name: str, games: list[Played]) -> dict[str, float]:
    counts = {key: sum(game.result == key for game in games) for key in ("won", "drawn", "lost", "forfeit")}
    plies = statistics.mean(game.plies for game in games)
    least = min(game.least_left for game in games)
    row = (len(games), plies, *counts.values())
    print(f"{name:22} " + " ".join(f"{n:10.0f}" for n in row) + f" {least:10.2f}")
    for game in games:
        if game.result == "forfeit":
            print(f"  forfeit after {game.plies} plies: {game.reason}")
    key = name.replace(" ", "_")
    return {
        f"{key}_games": len(games),
        f"{key}_forfeits": counts["forfeit"],
        f"{key}_least_clock_s": round(least, 2),
    }


def run() -> dict[str, float]:
    measured = asyncio.run(stop_latencies())
    latencies = [latency for latency, _ in measured]
    middle, longest = statistics.median(latencies), max(latencies)
    own = max(used for _, used in measured)
    print(
        f"stop to bestmove: median {middle:.1f} ms, max {longest:.1f} of {STOPS}; own part {own:.1f} at most"
    )
    heads = ("games", "plies", "won", "drawn", "lost", "forfeit", "least left")
    print(f"{'against Stockfish':22} " + " ".join(f"{head:>10}" for head in heads))
    figures = {
        "stop_ms_median": round(middle, 1),
        "stop_ms_max": round(longest, 1),
        "stop_processor_ms_max": round(own, 1),
    }
    figures |= _row("fixed nodes", asyncio.run(many_games(NODES)))
    figures |= _row("clock", asyncio.run(many_games(0)))
    return figures


if __name__ == "__main__":
    print(run())
