"""Any UCI engine as a player, through python-chess. One process per game in progress, kept for the next game.

An engine that fails (dies, does not answer, plays an illegal move) loses its game. Its process is killed, and
the next game gets a new one.
"""
# ruff: noqa: ARG002

from __future__ import annotations

import asyncio
import contextlib
import shlex
import shutil
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

import chess
import chess.engine

from evaluation.match.player import Choice, Clock, PlayerFailed, Seat
from games.game_history import GameHistory
from runtime.exits import Exit, Fatal

START_SECONDS = 30.0
"""An engine that has not said `uciok` and `readyok` after this time counts as dead."""
GRACE_SECONDS = 5.0
"""Time after `movetime` or the clock until an engine that does not answer counts as hung."""
PATIENCE_SECONDS = 120.0
"""Time until an engine without `movetime` and clock counts as hung. `timeout=` in the spec overrides both."""

Engine = tuple[asyncio.SubprocessTransport, chess.engine.UciProtocol]


@dataclass(frozen=True)
class UciSpec:
    """The text behind `uci:`: COMMAND[?nodes=..&depth=..&movetime=..&timeout=..&Option Name=value]."""

    command: tuple[str, ...]
    nodes: int | None = None
    depth: int | None = None
    movetime: float | None = None
    """Seconds; milliseconds in the spec, as in UCI."""
    timeout: float = 0.0
    """Seconds of silence that count as a hang; 0: see GRACE_SECONDS."""
    options: dict[str, str] = field(default_factory=dict)


def parse_uci(text: str) -> UciSpec:
    """The spec behind `uci:`. Fatal(CONFIG) if the program is not installed or a number cannot be read."""
    command, _, query = text.partition("?")
    words = shlex.split(command)
    found = shutil.which(words[0]) if words else None
    if found is None:
        raise Fatal(
            f"there is no engine {command!r} to run; give the path of a UCI engine, such as "
            "uci:/usr/games/stockfish?nodes=1000 (Debian: apt-get install stockfish)",
            Exit.CONFIG,
        )
    values = dict(parse_qsl(query.replace("+", "%2B"), keep_blank_values=True))
    try:
        numbers = {name: int(values.pop(name)) for name in ("nodes", "depth", "movetime") if name in values}
        timeout = float(values.pop("timeout", 0))
    except ValueError as error:
        raise Fatal(
            f"uci:{text}: {error}; nodes, depth, movetime and timeout are numbers", Exit.CONFIG
        ) from error
    movetime = numbers["movetime"] / 1000 if "movetime" in numbers else None
    return UciSpec((found, *words[1:]), numbers.get("nodes"), numbers.get("depth"), movetime, timeout, values)


class UciPlayer:
    """Engines of one spec: a process for each game at once."""

    def __init__(self, name: str, spec: UciSpec) -> None:
        self.name = name
        self.spec = spec
        self._idle: list[Engine] = []
        self._games = 0

    async def sit_down(self, seed: int) -> Seat:
        """A seat with an engine of its own. Raises PlayerFailed if none starts."""
        self._games += 1
        engine = self._idle.pop() if self._idle else await self._start()
        return UciSeat(self, engine, self._games)

    async def prepare(self) -> None:
        """Start one engine ahead of the games. Fatal(CONFIG) if it is no UCI engine or refuses an option."""
        try:
            self._idle.append(await self._start())
        except PlayerFailed as error:
            raise Fatal(f"{error}; try the command and its options by hand", Exit.CONFIG) from error

    async def _start(self) -> Engine:
        transport: asyncio.SubprocessTransport | None = None
        try:
            async with asyncio.timeout(START_SECONDS):
                loop = asyncio.get_running_loop()
                transport, protocol = await loop.subprocess_exec(
                    chess.engine.UciProtocol, *self.spec.command, stderr=asyncio.subprocess.DEVNULL
                )
                await protocol.initialize()
                await protocol.configure(dict(self.spec.options))
        except asyncio.CancelledError:
            if transport is not None:
                kill(transport)
            raise
        except (TimeoutError, OSError, chess.engine.EngineError) as error:
            if transport is not None:
                kill(transport)
            raise PlayerFailed(f"{self.name} did not start: {error or 'it says nothing'}") from error
        return transport, protocol

    def give_back(self, engine: Engine) -> None:
        """The game is over and the engine may play another one."""
        self._idle.append(engine)

    async def close(self) -> None:
        for transport, protocol in self._idle:
            with contextlib.suppress(TimeoutError, chess.engine.EngineError):
                async with asyncio.timeout(GRACE_SECONDS):
                    await protocol.quit()
            kill(transport)
        self._idle.clear()


class UciSeat:
    """One game with one engine process."""

    def __init__(self, player: UciPlayer, engine: Engine, game_id: int) -> None:
        self._player = player
        self._engine: Engine | None = engine
        self._game_id = game_id

    async def choose(self, game_history: GameHistory, clock: Clock | None = None) -> Choice:
        if self._engine is None:
            raise PlayerFailed(f"{self._player.name} has failed in this game before")
        board = board_of(game_history)
        limit, patience = self._limit(clock, board.turn)
        try:
            async with asyncio.timeout(patience):
                played = await self._engine[1].play(
                    board, limit, game=self._game_id, info=chess.engine.INFO_SCORE | chess.engine.INFO_BASIC
                )
            if played.move is None:
                raise PlayerFailed(f"{self._player.name} gave no move in {board.fen()}")
            action = game_history.game.notation.action_from_text(game_history.state, played.move.uci())
        except asyncio.CancelledError:
            self._drop()  # the match ends early, in the middle of a search
            raise
        except TimeoutError as error:
            self._drop()
            raise PlayerFailed(
                f"{self._player.name} said nothing for {patience:g} s and was killed"
            ) from error
        except (chess.engine.EngineError, PlayerFailed, ValueError, OSError) as error:
            self._drop()
            raise PlayerFailed(f"{self._player.name}: {error}") from error
        score = played.info.get("score")
        value = None if score is None else 2.0 * score.relative.wdl().expectation() - 1.0
        return Choice(action, value, int(played.info.get("nodes", 0)))

    def _limit(self, clock: Clock | None, turn: chess.Color) -> tuple[chess.engine.Limit, float]:
        """The engine's limit, and the seconds that we wait for its move."""
        spec = self._player.spec
        limit = chess.engine.Limit(nodes=spec.nodes, depth=spec.depth, time=spec.movetime)
        patience = PATIENCE_SECONDS if spec.movetime is None else spec.movetime + GRACE_SECONDS
        if clock is not None:
            patience = max(0.0, clock.remaining) + GRACE_SECONDS
            mine, other = ("white", "black") if turn == chess.WHITE else ("black", "white")
            setattr(limit, f"{mine}_clock", clock.remaining)
            setattr(limit, f"{other}_clock", clock.opponent or clock.remaining)
            limit.white_inc = limit.black_inc = clock.increment
        if limit == chess.engine.Limit():
            limit.nodes = 1000  # without any limit an engine would think for ever
        return limit, spec.timeout or patience

    def _drop(self) -> None:
        """Kill the engine, which has failed. The seat has none from now on."""
        if self._engine is not None:
            kill(self._engine[0])
            self._engine = None

    async def close(self) -> None:
        if self._engine is not None:
            self._player.give_back(self._engine)
            self._engine = None


def kill(transport: asyncio.SubprocessTransport) -> None:
    """End the process at once, if it has not ended."""
    with contextlib.suppress(ProcessLookupError):
        transport.kill()
    transport.close()


def board_of(game_history: GameHistory) -> chess.Board:
    """A chess game as a board of python-chess with all its moves."""
    board = chess.Board(game_history.start or chess.STARTING_FEN)
    for move in game_history.moves_text():
        board.push_uci(move)
    return board
