"""UCI engines, through python-chess."""
# ruff: noqa: ARG002

from __future__ import annotations

import asyncio
import contextlib
import re

import chess
import chess.engine

from evaluation.match.engine_player import OPTION, USUAL_NODES, EngineError, EngineGame, EngineSpec, begun
from evaluation.match.player import Choice, Clock
from games.game_history import GameHistory

EXAMPLE = "uci:/usr/games/stockfish?nodes=1000 (Debian: apt-get install stockfish)"


def check_limits(text: str, spec: EngineSpec) -> None:
    """Do nothing: the protocol has all limits."""


async def connect(spec: EngineSpec) -> UciConnection:
    """A running engine with its options set. Raises EngineError or OSError if there is none."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(Uci, *spec.command, stderr=asyncio.subprocess.DEVNULL)
    return await begun(UciConnection(spec, transport, protocol))


class Uci(chess.engine.UciProtocol):
    """Reads the announced options itself: for python-chess a name ends at the first word such as `max`, and a
    default that the option does not allow is an error."""

    def _line_received(self, line: str) -> None:
        if self.initialized or line.split()[:1] != ["option"]:
            super()._line_received(line)
            return
        option = option_of(line)
        if option is None:
            return
        self.options[option.name] = option
        with contextlib.suppress(chess.engine.EngineError, TypeError):
            self.config[option.name] = option.parse(option.default)


MANAGED = {"ponder": "check", "uci_analysemode": "check", "uci_chess960": "check", "multipv": "spin"}
"""Options that python-chess sets, and their types."""


def option_of(line: str) -> chess.engine.Option | None:
    """The option that a line announces; None if the line makes no sense. A number or default that makes no
    sense counts as missing."""
    found = OPTION.match(line)
    if found is None or MANAGED.get(found["name"].lower(), found["kind"]) != found["kind"]:
        return None
    name, kind, rest = found["name"], found["kind"], found["rest"] or ""
    low = high = None
    default: str | int | bool | None = None
    values: list[str] = []
    if kind == "spin":
        low, high, default = (_whole(rest, word) for word in ("min", "max", "default"))
        if low is not None and high is not None and low > high:
            low = high = None
        if name.lower() == "multipv":  # python-chess sets it to its default
            default = 1 if default is None else default
    elif kind == "combo":
        first, *values = re.split(r"(?:^|\s+)var\s+", rest)
        default = first.removeprefix("default").strip()
    elif kind == "check":
        default = rest.split()[:2] == ["default", "true"]
    elif kind == "string":
        default = rest.removeprefix("default").strip()
    return chess.engine.Option(name, kind, default, low, high, values)


def _whole(text: str, word: str) -> int | None:
    """The whole number after `word`, if there is one."""
    found = re.search(rf"\b{word}\s+(-?[0-9]{{1,18}})(?!\S)", text)
    return int(found[1]) if found else None


class UciConnection:
    """One engine process."""

    def __init__(
        self, spec: EngineSpec, transport: asyncio.SubprocessTransport, protocol: chess.engine.UciProtocol
    ) -> None:
        self._spec = spec
        self._transport = transport
        self._protocol = protocol

    async def begin(self) -> None:
        try:
            await self._protocol.initialize()
            await self._protocol.configure(dict(self._spec.options))
        except chess.engine.EngineError as error:
            raise EngineError(str(error)) from error

    async def begin_game(self, game_history: GameHistory, clock: Clock | None, game: EngineGame) -> None:
        protocol = self._protocol
        protocol.send_line("ucinewgame")
        protocol.game, protocol.first_game = (
            game,
            False,
        )  # else python-chess sends it again, while a clock runs
        try:
            await protocol.ping()
        except chess.engine.EngineError as error:
            raise EngineError(str(error)) from error

    async def choose(self, game_history: GameHistory, clock: Clock | None) -> Choice:
        board = board_of(game_history)
        wanted = chess.engine.INFO_SCORE | chess.engine.INFO_BASIC
        try:
            played = await self._protocol.play(
                board, self._limit(clock, board.turn), game=self._protocol.game, info=wanted
            )
        except chess.engine.EngineError as error:
            raise EngineError(str(error)) from error
        if played.move is None:
            raise EngineError(f"gave no move in {board.fen()}")
        action = game_history.game.notation.action_from_text(game_history.state, played.move.uci())
        score = played.info.get("score")
        value = None if score is None else 2.0 * score.relative.wdl().expectation() - 1.0
        return Choice(action, value, int(played.info.get("nodes", 0)))

    def _limit(self, clock: Clock | None, turn: chess.Color) -> chess.engine.Limit:
        spec = self._spec
        limit = chess.engine.Limit(nodes=spec.nodes, depth=spec.depth, time=spec.movetime)
        if clock is not None:
            mine, other = ("white", "black") if turn == chess.WHITE else ("black", "white")
            setattr(limit, f"{mine}_clock", clock.remaining)
            setattr(limit, f"{other}_clock", clock.opponent or clock.remaining)
            limit.white_inc = limit.black_inc = clock.increment
        elif not spec.has_limit:
            limit.nodes = USUAL_NODES  # without any limit an engine would think forever
        return limit

    async def quit(self) -> None:
        try:
            await self._protocol.quit()
        except chess.engine.EngineError as error:
            raise EngineError(str(error)) from error

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._transport.kill()
        self._transport.close()


def board_of(game_history: GameHistory) -> chess.Board:
    """A chess game as a board of python-chess with all its moves."""
    board = chess.Board(game_history.start or chess.STARTING_FEN)
    for move in game_history.moves_text():
        board.push_uci(move)
    return board
