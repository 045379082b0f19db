"""UCI, USI and GTP as spoken to other programs' engines: chess, shogi, Go.

Each protocol is an `EngineConnection` to one process, with which it exchanges lines. An engine without any
limit would think forever, so it gets USUAL_NODES if the protocol can count nodes.
"""
# ruff: noqa: ARG002

from __future__ import annotations

import re
from functools import partial

from azselfplay.games.game_history import GameHistory
from azselfplay.host.exits import Exit, Fatal
from azselfplay.play.engine_player import (
    EngineConnection,
    EngineError,
    EnginePlayer,
    EngineSpec,
    LineProcess,
    parse_spec,
)
from azselfplay.play.gtp_board import as_json, rules_of, stones_of
from azselfplay.play.gtp_lines import NAMES
from azselfplay.play.player import PlayerResigned

EXAMPLES = {
    "uci": "uci:/usr/games/stockfish?nodes=1000 (Debian: apt-get install stockfish)",
    "usi": "usi:/usr/games/fairy-stockfish?nodes=1000 (Debian: apt-get install fairy-stockfish)",
    "gtp": "'gtp:gnugo --mode gtp?level=1' (Debian: apt-get install gnugo)",
}


def engine_player(name: str, kind: str, text: str) -> EnginePlayer:
    """Return a player for the engine that `text`, after `kind:`, describes.

    Raises Fatal(CONFIG) if it is not installed, or for limits that the protocol does not have.
    """
    spec = parse_spec(kind, text, EXAMPLES[kind])
    if kind == "gtp" and (spec.nodes is not None or spec.depth is not None):
        raise Fatal(
            f"gtp:{text}: GTP has neither nodes nor depth; give movetime=MS, or a command of the engine's, "
            "such as level=1",
            Exit.CONFIG,
        )
    return EnginePlayer(name, spec, partial(connect, kind))


async def connect(kind: str, spec: EngineSpec) -> EngineConnection:
    """Start an engine and set its options. If this fails or is cancelled, no process is left behind. Raises
    EngineError or OSError."""
    process = await LineProcess.start(spec.command)
    connection: EngineConnection
    connection = GtpConnection(spec, process) if kind == "gtp" else UciConnection(spec, process, kind)
    try:
        await connection.begin()
    # Kill the process also on cancellation, because nobody else knows it yet.
    except BaseException:
        process.kill()
        raise
    return connection


USUAL_NODES = 1000
"""Default number of nodes, if the protocol can count nodes and nothing else limits a move."""


OPTION = re.compile(r"\s*option\s+name\s+(\S.*?)\s+type\s+(\S+)(.*)")
"""An option that an engine announces."""
MANAGED = ("uci_chess960", "uci_variant", "multipv", "ponder", "usi_ponder")
"""Options that decide what is played, and how the engine answers: users must not change them."""


class UciConnection:
    """One engine process that speaks UCI, or its sibling USI."""

    def __init__(self, spec: EngineSpec, process: LineProcess, kind: str) -> None:
        """`kind`: uci or usi."""
        self._spec = spec
        self.process = process
        self._kind = kind
        self._known: dict[str, tuple[str, str]] = {}
        """Type of the options that the engine announces, and what the type's values are, by name."""

    async def begin(self) -> None:
        await self.process.send(self._kind)
        while (line := await self.process.line()).strip() != f"{self._kind}ok":
            if option := OPTION.match(line):
                self._known[option[1].lower()] = option[2], option[3]
        for name, value in self._spec.options.items():
            if name.lower() in MANAGED and value.lower() not in ("false", "1"):
                raise EngineError(f"the option {name!r} is set for it: leave it out")
            await self._set_option(name, value)
        await self._be_ready()

    async def _set_option(self, name: str, value: str) -> None:
        # The engine would silently ignore an option that it does not announce, or a value that it does not
        # take, and the match would be meaningless.
        if name.lower() not in self._known:
            raise EngineError(f"it has no option {name!r}")
        kind, values = self._known[name.lower()]
        if kind == "check" and value.lower() not in ("true", "false"):
            raise EngineError(f"its option {name!r} is true or false, not {value!r}")
        if kind == "spin":
            limits = [re.search(rf"\b{limit}\s+(-?\d+)", values) for limit in ("min", "max")]
            low, high = (None if one is None else int(one[1]) for one in limits)
            number = int(value) if re.fullmatch(r"-?\d+", value) else None
            if number is None or (low is not None and number < low) or (high is not None and number > high):
                raise EngineError(f"its option {name!r} is a number from {low} to {high}, not {value!r}")
        texts = re.findall(r"\bvar\s+(.*?)(?=\s+(?:var|default)\s|\s*$)", values)
        if kind == "combo" and value.lower() not in (text.lower() for text in texts):
            raise EngineError(f"its option {name!r} is one of {', '.join(texts)}, not {value!r}")
        said = value.lower() if kind == "check" else value
        await self.process.send(f"setoption name {name}" + (f" value {said}" if kind != "button" else ""))

    async def _be_ready(self) -> None:
        await self.process.send("isready")
        while (await self.process.line()).strip() != "readyok":
            pass

    async def begin_game(self, game_history: GameHistory, seed: int) -> None:
        if game_history.game.notation.action_to_chess is not None:
            await self._set_option("UCI_Chess960", "true")
        await self.process.send(f"{self._kind}newgame")
        await self._be_ready()

    async def choose(self, game_history: GameHistory) -> int:
        notation, moves = game_history.game.notation, game_history.moves_text()
        word, start = "fen" if self._kind == "uci" else "sfen", notation.state_to_text(game_history.states[0])
        place = [word, start] if game_history.start else ["startpos"]
        await self.process.send(" ".join(["position", *place, *(["moves", *moves] if moves else [])]))
        await self.process.send(go_line(self._spec, self._kind))
        while not (line := await self.process.line()).startswith("bestmove"):
            pass
        move = [*line.split(), ""][1]
        if move == "resign":
            raise PlayerResigned
        if move == "win":
            raise EngineError("declares that it has won, which these rules do not know")
        return notation.action_from_text(game_history.state, move)


def go_line(spec: EngineSpec, kind: str) -> str:
    """Return the `go` command of UCI or USI (`kind`) with the limits of the spec."""
    words = ["go"]
    if spec.movetime is not None:
        # USI has no time per move, but a byoyomi without main time has the same effect.
        time = ["movetime"] if kind == "uci" else ["btime", "0", "wtime", "0", "byoyomi"]
        words += [*time, str(round(1000 * spec.movetime))]
    if spec.depth is not None:
        words += ["depth", str(spec.depth)]
    if spec.nodes is not None or not spec.has_limit:
        words += ["nodes", str(spec.nodes or USUAL_NODES)]
    return " ".join(words)


SEEDS = 2**31
"""gnugo only accepts smaller numbers."""

RULES = "kata-set-rules"

SEED = "set_random_seed"
"""Command of gnugo. Without it, engines that start in the same second all play the same game."""


class GtpConnection:
    """One engine process. Options of the spec are commands: `level=10` is sent as `level 10`."""

    def __init__(self, spec: EngineSpec, process: LineProcess) -> None:
        self._spec = spec
        self.process = process
        self._knows: set[str] = set()
        """Optional commands that the engine knows."""
        self._played: list[int] = []
        """Actions on the engine's board."""

    async def begin(self) -> None:
        """Check that the process is a GTP engine, and send the options."""
        if await self.command("protocol_version") != "2":
            raise EngineError("it does not speak version 2 of GTP")
        # Ask once, because sending an unknown command would be an error in every game.
        for name in (RULES, SEED):
            if await self.command(f"known_command {name}") == "true":
                self._knows.add(name)
        for name, value in self._spec.options.items():
            await self.command(f"{name} {value}".strip())

    async def command(self, text: str) -> str:
        """Send a command and return its answer. Raises EngineError if the command is refused or the answer is
        invalid."""
        await self.process.send(text)
        # Empty lines before an answer are allowed; an empty line after the answer ends it.
        while not (head := await self.process.line()).strip():
            pass
        if head[:1] not in ("=", "?"):
            raise EngineError(f"answers {text!r} with {head[:60]!r}, which is not GTP")
        lines = [head[1:].strip()]
        while (line := await self.process.line()).strip():
            lines.append(line)
        if head[0] == "?":
            raise EngineError(f"refuses {text!r}: {lines[0]}")
        return "\n".join(lines)

    async def choose(self, game_history: GameHistory) -> int:
        game = game_history.game
        for ply in range(len(self._played), game_history.ply):  # its own moves are already on its board
            action, state = game_history.actions[ply], game_history.states[ply]
            colour = NAMES[game.rules.side_to_move(state)]
            await self.command(f"play {colour} {game.notation.action_to_text(state, action)}")
            self._played.append(action)
        move = await self.command(f"genmove {NAMES[game_history.side_to_move]}")
        if move.lower() == "resign":
            raise PlayerResigned
        action = game.notation.action_from_text(game_history.state, move)
        self._played.append(action)
        return action

    async def begin_game(self, game_history: GameHistory, seed: int) -> None:
        """Set up the board and the time per move. An engine that loads its network late, such as ours, loads
        it before it answers `time_settings`."""
        rules = rules_of(game_history.game)
        await self.command(f"boardsize {rules.size}")
        await self.command("clear_board")
        await self.command(f"komi {rules.komi:g}")
        # Engines that start in the same second would otherwise all play the same game.
        if SEED in self._knows:
            await self.command(f"{SEED} {seed % SEEDS}")
        if RULES in self._knows:
            await self.command(f"{RULES} {as_json(rules)}")
        for colour, vertices in zip(NAMES, stones_of(game_history.game, game_history.states[0]), strict=True):
            for vertex in vertices:
                await self.command(f"play {colour} {vertex}")
        self._played.clear()
        if self._spec.movetime is not None:
            # GTP can only express a time per move as no main time and a period of whole seconds for one
            # stone.
            await self.command(f"time_settings 0 {max(1, int(self._spec.movetime))} 1")
