"""A player that is another program: an engine that runs as a child process, one process for each concurrent
game.

A process is reused for the next game. An engine that fails (dies, does not answer, plays an illegal move)
loses its game; its process is killed, and the next game gets a new one. An `EngineConnection`
(`play.engine_protocols`) covers the differences between UCI, USI and GTP. This module has the spec, the seat
with its time-outs, and a process that speaks in lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
from asyncio.subprocess import DEVNULL, Process, SubprocessStreamProtocol
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar
from urllib.parse import parse_qsl

from azselfplay.games.game_history import GameHistory
from azselfplay.host import aio
from azselfplay.host.exits import Exit, Fatal
from azselfplay.play.player import Player, PlayerFailed, PlayerResigned, Seat

T = TypeVar("T")

START_SECONDS = 120.0
"""An engine that is not ready after this time counts as dead; `timeout=` in the spec may allow more."""

GRACE_SECONDS = 5.0
"""Seconds after `movetime` until an engine that does not answer counts as hung."""

PATIENCE_SECONDS = 120.0
"""Seconds until an engine without `movetime` counts as hung. `timeout=` in the spec overrides this
and GRACE_SECONDS."""

DEBIANS_GAMES = "/usr/games"
"""Where Debian installs engines, which is not on everyone's path."""

MOST_LINE_BYTES = 1 << 20
"""Most bytes in a line."""

DIED = "the engine has ended: its process died"


@dataclass(frozen=True)
class EngineSpec:
    """The text after `uci:`: COMMAND[?nodes=..&depth=..&movetime=..&timeout=..&Option Name=value]."""

    command: tuple[str, ...]
    nodes: int | None = None
    depth: int | None = None
    movetime: float | None = None
    """Seconds; milliseconds in the spec, as in UCI."""
    timeout: float = 0.0
    """Seconds of silence that count as a hang; 0: see GRACE_SECONDS."""
    options: dict[str, str] = field(default_factory=dict)

    @property
    def has_limit(self) -> bool:
        """Whether the spec tells the engine when to stop."""
        return (self.nodes, self.depth, self.movetime) != (None, None, None)


def parse_spec(kind: str, text: str, example: str) -> EngineSpec:
    """Return the spec after `kind:`. Raises Fatal(CONFIG) if the program is not installed or a number is
    invalid."""
    command, _, query = text.partition("?")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Fatal(
            f"{kind}:{text}: {error}; close the quotation marks in the command", Exit.CONFIG
        ) from error
    # The program is looked up now, because an error in the middle of a match would be worse.
    found = (shutil.which(words[0]) or shutil.which(words[0], path=DEBIANS_GAMES)) if words else None
    if found is None:
        raise Fatal(
            f"there is no engine {command!r} to run; give the path of a {kind.upper()} engine, such as "
            f"{example}",
            Exit.CONFIG,
        )
    # In a query string a plus means a blank, but option values such as +1 contain a real plus.
    values = dict(parse_qsl(query.replace("+", "%2B"), keep_blank_values=True))
    try:
        numbers = {name: int(values.pop(name)) for name in ("nodes", "depth", "movetime") if name in values}
        # All remaining values are the engine's own options.
        timeout = float(values.pop("timeout", 0))
        if not timeout >= 0 or min(numbers.values(), default=1) < 1:
            raise ValueError("a number is too small")
    except ValueError as error:
        raise Fatal(
            f"{kind}:{text}: {error}; nodes, depth and movetime are whole numbers from 1 on, timeout is a "
            "number of seconds",
            Exit.CONFIG,
        ) from error
    movetime = numbers["movetime"] / 1000 if "movetime" in numbers else None
    return EngineSpec(
        (found, *words[1:]), numbers.get("nodes"), numbers.get("depth"), movetime, timeout, values
    )


class EngineError(Exception):
    """An engine broke the rules of its protocol, or has ended."""


class EngineConnection(Protocol):
    """One engine process. Raises EngineError, OSError or ValueError when it fails."""

    process: LineProcess

    async def begin(self) -> None:
        """Start the dialogue, set the options, and wait until the engine is ready."""

    async def begin_game(self, game_history: GameHistory, seed: int) -> None:
        """Announce a game, and wait until the engine can move at once, with its network loaded. `seed`: for
        an engine that accepts one."""

    async def choose(self, game_history: GameHistory) -> int:
        """Return the engine's move in the game that was begun last. Raises PlayerResigned if it resigns."""


Connect = Callable[[EngineSpec], Awaitable[EngineConnection]]
"""Starts a process and waits until it is ready; leaves no process behind when it fails or is cancelled."""


class EnginePlayer(Player):
    """Engines of one spec: one process for each concurrent game."""

    def __init__(self, name: str, spec: EngineSpec, connect: Connect) -> None:
        self.name = name
        self.spec = spec
        self._connect = connect
        self._idle: list[EngineConnection] = []

    async def sit_down(self, seed: int) -> Seat:
        """Return a seat with an engine of its own. Raises PlayerFailed if none starts."""
        return EngineSeat(self, self._idle.pop() if self._idle else await self._start(), seed)

    async def prepare(self) -> None:
        """Start one engine before the games. Raises Fatal(CONFIG) if it does not speak the protocol or
        refuses an option."""
        try:
            self._idle.append(await self._start())
        except PlayerFailed as error:
            raise Fatal(f"{error}; try the command and its options by hand", Exit.CONFIG) from error

    async def _start(self) -> EngineConnection:
        try:
            async with aio.patience(max(START_SECONDS, self.spec.timeout)):
                return await self._connect(self.spec)
        except (TimeoutError, OSError, EngineError) as error:
            raise PlayerFailed(f"{self.name} did not start: {str(error) or 'it says nothing'}") from error

    def give_back(self, connection: EngineConnection) -> None:
        """Take back an engine after its game, so that it can play another one."""
        self._idle.append(connection)

    async def close(self) -> None:
        """Ask all engines to end, and kill those that do not, also when this is interrupted."""
        # The list is emptied first, so that a second call, after an interruption, does not end engines twice.
        engines, self._idle = self._idle, []

        async def end(connection: EngineConnection) -> None:
            with contextlib.suppress(TimeoutError, OSError, EngineError):
                async with asyncio.timeout(GRACE_SECONDS):
                    await connection.process.quit()

        try:
            await asyncio.gather(*map(end, engines))
        finally:
            for connection in engines:
                connection.process.kill()


class EngineSeat(Seat):
    """One game with one engine process."""

    def __init__(self, player: EnginePlayer, connection: EngineConnection, seed: int) -> None:
        self._player = player
        self._connection: EngineConnection | None = connection
        self._seed = seed

    async def be_ready(self, game_history: GameHistory) -> None:
        patience = max(START_SECONDS, self._player.spec.timeout)
        await self._answer(lambda engine: engine.begin_game(game_history, self._seed), patience)

    async def choose(self, game_history: GameHistory) -> int:
        spec = self._player.spec
        patience = PATIENCE_SECONDS if spec.movetime is None else spec.movetime + GRACE_SECONDS
        return await self._answer(lambda engine: engine.choose(game_history), spec.timeout or patience)

    async def _answer(self, ask: Callable[[EngineConnection], Awaitable[T]], patience: float) -> T:
        """Return the engine's answer within `patience` seconds. Otherwise kills the engine and raises
        PlayerFailed."""
        if self._connection is None:
            raise PlayerFailed(f"{self._player.name} has failed in this game before")
        try:
            async with aio.patience(patience):
                return await ask(self._connection)
        # The engine works as it should, so its process can play the next game.
        except PlayerResigned:
            raise
        except asyncio.CancelledError:
            # The engine's answer to this search would be taken for the answer to the next one.
            self._drop()  # the match ends early, in the middle of a search
            raise
        except TimeoutError as error:
            self._drop()
            raise PlayerFailed(
                f"{self._player.name} said nothing for {patience:g} s and was killed"
            ) from error
        except (EngineError, ValueError, OSError) as error:
            self._drop()
            raise PlayerFailed(f"{self._player.name}: {error}") from error

    def _drop(self) -> None:
        """Kill the engine, which has failed. From now on the seat has none."""
        if self._connection is not None:
            self._connection.process.kill()
            self._connection = None

    async def close(self) -> None:
        if self._connection is not None:
            self._player.give_back(self._connection)
            self._connection = None


class LineProcess:
    """Lines to and from a process. `kill` it when done."""

    def __init__(self, transport: asyncio.SubprocessTransport, process: Process) -> None:
        assert process.stdin is not None, "started with pipes"
        assert process.stdout is not None, "started with pipes"
        self._transport = transport
        self._process = process
        self._input, self._output = process.stdin, process.stdout

    @classmethod
    async def start(cls, command: Sequence[str]) -> LineProcess:
        """Start a process. Raises OSError if it cannot be run."""
        loop = asyncio.get_running_loop()
        transport, streams = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(MOST_LINE_BYTES, loop),
            *command,
            stderr=DEVNULL,
            # Ctrl-C in the terminal must reach only us: we may play its games to their end.
            start_new_session=True,
        )
        return cls(transport, Process(transport, streams, loop))

    async def send(self, line: str) -> None:
        """Send a line. Raises EngineError or OSError if the process has ended."""
        # uvloop would raise RuntimeError.
        if self._input.is_closing():
            raise EngineError(DIED)
        self._input.write(line.encode() + b"\n")
        await self._input.drain()

    async def line(self) -> str:
        """Return the next line without its newline. Raises EngineError if the process has ended or the line
        is too long."""
        try:
            read = await self._output.readline()
        except ValueError as error:
            raise EngineError(f"a line of more than {MOST_LINE_BYTES} bytes") from error
        if not read:
            raise EngineError(DIED)
        return read.decode(errors="replace").rstrip("\r\n")

    async def quit(self) -> None:
        """Ask the engine to end, and wait until it has. Its remaining output is dropped."""
        await self.send("quit")
        # A full pipe would keep the process from ending.
        while await self._output.read(MOST_LINE_BYTES):
            pass
        await self._process.wait()

    def kill(self) -> None:
        """End the process at once, if it has not ended, and those that it has started: a script may be before
        the engine. Our side of its pipes is closed too: a dead process leaves them open."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._transport.close()
