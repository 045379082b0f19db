"""GTP engines: Go."""

from __future__ import annotations

from engine.gtp.board import rules_of, stones_of
from engine.gtp.rule_names import as_json
from evaluation.match.engine_player import EngineError, EngineGame, EngineSpec, LineProcess, begun
from evaluation.match.player import Choice, Clock, PlayerResigned
from games.game_history import GameHistory
from runtime.exits import Exit, Fatal

EXAMPLE = "'gtp:gnugo --mode gtp?level=1' (Debian: apt-get install gnugo)"
SEEDS = 2**31
"""gnugo only accepts smaller numbers."""
COLOURS = ("black", "white")
RULES = "kata-set-rules"
SEED = "set_random_seed"
"""Command of gnugo. Without it, engines that start in the same second all play the same game."""


async def connect(spec: EngineSpec) -> GtpConnection:
    """A running engine with its options set. Raises EngineError or OSError if there is none."""
    return await begun(GtpConnection(spec, await LineProcess.start(spec.command)))


def check_limits(text: str, spec: EngineSpec) -> None:
    """Raise Fatal(CONFIG) for limits that the protocol does not have."""
    if spec.nodes is not None or spec.depth is not None:
        raise Fatal(
            f"gtp:{text}: GTP has neither nodes nor depth; give movetime=MS, or a command of the engine's, "
            "such as level=1",
            Exit.CONFIG,
        )


class GtpConnection:
    """One engine process. Options of the spec are commands: `level=10` is sent as `level 10`."""

    def __init__(self, spec: EngineSpec, process: LineProcess) -> None:
        self._spec = spec
        self._process = process
        self._knows: set[str] = set()
        """Commands that the engine has beyond those that every engine has."""
        self._played: list[int] = []
        """Actions on the engine's board."""

    async def begin(self) -> None:
        """Check that it is a GTP engine, and send the options."""
        if await self.command("protocol_version") != "2":
            raise EngineError("it does not speak version 2 of GTP")
        for name in (RULES, SEED):
            if await self.command(f"known_command {name}") == "true":
                self._knows.add(name)
        for name, value in self._spec.options.items():
            await self.command(f"{name} {value}".strip())

    async def command(self, text: str) -> str:
        """The answer to a command. Raises EngineError if it is refused, or the answer is invalid."""
        await self._process.send(text)
        while not (head := await self._process.line()).strip():
            pass
        if head[:1] not in ("=", "?"):
            raise EngineError(f"answers {text!r} with {head[:60]!r}, which is not GTP")
        lines = [head[1:].strip()]
        while (line := await self._process.line()).strip():
            lines.append(line)
        if head[0] == "?":
            raise EngineError(f"refuses {text!r}: {lines[0]}")
        return "\n".join(lines)

    async def choose(self, game_history: GameHistory, clock: Clock | None) -> Choice:
        await self._follow(game_history)
        side = game_history.side_to_move
        if clock is not None:
            await self.command(f"time_left {COLOURS[side]} {max(0, int(clock.remaining))} 0")
        move = await self.command(f"genmove {COLOURS[side]}")
        if move.lower() == "resign":
            raise PlayerResigned
        action = game_history.game.notation.action_from_text(game_history.state, move)
        self._played.append(action)
        return Choice(action)

    async def begin_game(self, game_history: GameHistory, clock: Clock | None, game: EngineGame) -> None:
        """Set up the board and the clock. An engine that loads its network late, such as ours, does so before
        it answers `time_settings`."""
        rules = rules_of(game_history.game)
        await self.command(f"boardsize {rules.size}")
        await self.command("clear_board")
        await self.command(f"komi {rules.komi:g}")
        if SEED in self._knows:
            await self.command(f"{SEED} {game.seed % SEEDS}")
        if RULES in self._knows:
            await self.command(f"{RULES} {as_json(rules)}")
        for colour, vertices in zip(
            COLOURS, stones_of(game_history.game, game_history.states[0]), strict=True
        ):
            for vertex in vertices:
                await self.command(f"play {colour} {vertex}")
        self._played.clear()
        if clock is not None:
            await self.command(f"time_settings {int(clock.remaining)} 0 0")
        elif self._spec.movetime is not None:
            await self.command(f"time_settings 0 {max(1, int(self._spec.movetime))} 1")

    async def _follow(self, game_history: GameHistory) -> None:
        """Send the moves played since. The engine's own moves are already on its board."""
        game = game_history.game
        for ply in range(len(self._played), game_history.ply):
            action, state = game_history.actions[ply], game_history.states[ply]
            colour = COLOURS[game.rules.side_to_move(state)]
            await self.command(f"play {colour} {game.notation.action_to_text(state, action)}")
            self._played.append(action)

    async def quit(self) -> None:
        await self.command("quit")
        await self._process.ended()

    def kill(self) -> None:
        self._process.kill()
