"""USI engines: shogi."""
# ruff: noqa: ARG002

from __future__ import annotations

import math
from itertools import pairwise

from evaluation.match.engine_player import (
    OPTION,
    USUAL_NODES,
    EngineError,
    EngineGame,
    EngineSpec,
    LineProcess,
    begun,
)
from evaluation.match.player import Choice, Clock, PlayerResigned
from games.game_history import GameHistory

EXAMPLE = "usi:/usr/games/fairy-stockfish?nodes=1000 (Debian: apt-get install fairy-stockfish)"
CENTIPAWN_SCALE = 600.0
"""Centipawns at which the chances are 73 to 27, as in most shogi engines."""


def check_limits(text: str, spec: EngineSpec) -> None:
    """Do nothing: USI can express every limit of a spec."""


async def connect(spec: EngineSpec) -> UsiConnection:
    """A running engine with its options set. Raises EngineError or OSError if there is none."""
    return await begun(UsiConnection(spec, await LineProcess.start(spec.command)))


class UsiConnection:
    """One engine process."""

    def __init__(self, spec: EngineSpec, process: LineProcess) -> None:
        self._spec = spec
        self._process = process

    async def begin(self) -> None:
        await self._process.send("usi")
        known = {""}
        while (line := await self._process.line()).strip() != "usiok":
            if option := OPTION.match(line):
                known.add(option["name"].lower())
        for name, value in self._spec.options.items():
            if name.lower() not in known:
                raise EngineError(f"it has no option {name!r}")
            await self._process.send(f"setoption name {name} value {value}")
        await self._be_ready()

    async def _be_ready(self) -> None:
        await self._process.send("isready")
        while (await self._process.line()).strip() != "readyok":
            pass

    async def begin_game(self, game_history: GameHistory, clock: Clock | None, game: EngineGame) -> None:
        await self._process.send("usinewgame")
        await self._be_ready()

    async def choose(self, game_history: GameHistory, clock: Clock | None) -> Choice:
        start = f"sfen {game_history.start}" if game_history.start else "startpos"
        moves = game_history.moves_text()
        await self._process.send(" ".join(["position", start, *(["moves", *moves] if moves else [])]))
        await self._process.send(go_line(self._spec, clock, game_history.side_to_move))
        value, nodes = None, 0
        while not (line := await self._process.line()).startswith("bestmove"):
            value, nodes = heard(line, value, nodes)
        move = [*line.split(), ""][1]
        if move == "resign":
            raise PlayerResigned
        if move == "win":
            raise EngineError("declares that it has won, which these rules do not know")
        return Choice(game_history.game.notation.action_from_text(game_history.state, move), value, nodes)

    async def quit(self) -> None:
        await self._process.send("quit")
        await self._process.ended()

    def kill(self) -> None:
        self._process.kill()


def go_line(spec: EngineSpec, clock: Clock | None, side: int) -> str:
    """The `go` command with the limits of the spec, or by the clock of `side` (0: the first player)."""
    words = ["go"]
    if clock is not None:
        times = (clock.remaining, clock.opponent or clock.remaining)
        first, second = times if side == 0 else times[::-1]
        words += ["btime", _ms(first), "wtime", _ms(second)]
        words += ["binc", _ms(clock.increment), "winc", _ms(clock.increment)]
    elif spec.movetime is not None:
        words += ["btime", "0", "wtime", "0", "byoyomi", _ms(spec.movetime)]
    if spec.depth is not None:
        words += ["depth", str(spec.depth)]
    if spec.nodes is not None or (clock is None and not spec.has_limit):
        words += ["nodes", str(spec.nodes or USUAL_NODES)]
    return " ".join(words)


def _ms(seconds: float) -> str:
    return str(max(0, round(1000 * seconds)))


def heard(line: str, value: float | None, nodes: int) -> tuple[float | None, int]:
    """(value for the side to move, nodes) after an `info` line, which may contain neither."""
    words = line.split()
    if words[:1] != ["info"] or "string" in words[:2]:
        return value, nodes
    pairs = dict(pairwise(words))
    if pairs.get("nodes", "").isdecimal():
        nodes = int(pairs["nodes"])
    if pairs.get("score") == "mate":
        value = -1.0 if pairs.get("mate", "").startswith("-") else 1.0
    elif _is_number(pairs.get("cp", "")):
        value = math.tanh(int(pairs["cp"]) / (2 * CENTIPAWN_SCALE))
    return value, nodes


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 10
