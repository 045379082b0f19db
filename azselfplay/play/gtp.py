"""`azplay gtp`: the network as a Go engine that speaks GTP 2 (Gunnar Farneback's draft 2 of the
specification).

The engine's side is a pure state machine (`play.orders.Engine`). GTP answers one command after the other, so
new lines wait unread while a search runs; any line ends a stream that finds no move. Commands that need no
search are functions in `play.gtp_commands`, which work on a `Desk`. Commands that need the network wait until
it is ready. Commands that set clocks wait, too, so that no clock runs while kernels are compiled.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from azselfplay.host import config
from azselfplay.host.exits import Exit, Fatal
from azselfplay.play.driver import EngineConfig, serve
from azselfplay.play.gtp_lines import (
    FORMATS,
    GENMOVE_FORMATS,
    MOST_MOVES,
    Command,
    Format,
    GtpError,
    Wanted,
    begun,
    colour_of,
    expect,
    failure,
    parse,
    success,
    wanted_of,
)
from azselfplay.play.orders import (
    Found,
    Options,
    Order,
    Prepare,
    Quit,
    Report,
    Request,
    Say,
    Setup,
    Start,
    StopSearch,
    seconds_for_move,
    shown,
)

if TYPE_CHECKING:
    from azselfplay.play.gtp_commands import Desk

EXAMPLES = (
    "azplay gtp go_9x9-small",
    "azplay gtp FILE --nodes 800 --resign-percent 2   # 800 simulations; resigns when lost",
    "azplay gtp --game go_9x9                                   # an untrained network, to try the GUI",
)


@dataclass(frozen=True)
class GtpConfig(EngineConfig):
    """A Go engine that speaks GTP 2 on standard input and output."""

    game: str = ""
    """Board and rules at the start; empty: those of the weights file, else go (19x19)."""
    resign_percent: Annotated[int, Meta(ge=0, le=50)] = 0
    """The engine resigns when its chances are below this many percent; 0: never."""
    temperature: Annotated[int, Meta(ge=0, le=1000)] = 0
    """Percent; moves are drawn from visits ^ (100 / temperature); 0 plays the best."""
    overhead_ms: Annotated[int, Meta(ge=0, le=10_000)] = 100
    """Milliseconds lost between engine and GUI on each move under a clock."""


def main() -> int:
    """Speak GTP on standard input and output until `quit`."""
    settings = config.load(GtpConfig, command="azplay gtp", examples=EXAMPLES).resolved()
    from azselfplay.play.gtp_board import GoBoard, rules_of
    from azselfplay.play.gtp_commands import Desk
    from azselfplay.play.nets import game_for, meta_of

    meta = meta_of(settings.weights) if settings.weights else None
    game = game_for(settings.game or (meta.game if meta else ""), default="go")
    heads = meta.architecture.training_heads if meta else ()
    try:
        # An untrained network can be made for any board size; a trained network has weights for each cell of
        # one size.
        size = game.rows if settings.weights else None
        desk = Desk(GoBoard(rules_of(game)), size, asks_network="ownership" in heads)
    except ValueError as error:
        raise Fatal(str(error), Exit.CONFIG) from error
    options = Options(
        settings.setup(game.name),
        overhead_ms=settings.overhead_ms,
        temperature=settings.temperature,
        resign_percent=settings.resign_percent,
    )
    return serve(lambda: GtpEngine(desk, settings.network_name, options, settings.nodes), settings)


USUAL_SIMULATIONS = 800
"""Simulations of a move without a clock and without --nodes."""

ABOUT = ("protocol_version", "name", "version", "known_command", "list_commands", "stop", "quit")
"""Commands about the engine itself. `stop` only ends a stream, as any input does."""

SEARCHING = frozenset({"genmove", "reg_genmove", *FORMATS, *GENMOVE_FORMATS})

NEED_NETWORK = SEARCHING | {"time_settings", "kgs-time_settings", "time_left"}
"""Commands that wait for the network. Commands that set clocks are among them, because clocks start after
these."""

OF_OWNERSHIP = frozenset({"final_score", "final_status_list"})
"""Commands that ask the network which stones are dead. If the network has no ownership head, all stones are
alive."""


@dataclass(frozen=True)
class Task:
    """A command whose answer needs a search."""

    command: Command
    colour: int
    began: float
    wanted: Wanted = Wanted()
    format: Format | None = None
    """Format of a stream; None: nothing is reported before the end."""
    plays: bool = False
    """Whether the move is played on the board."""
    has_move: bool = True
    """Whether the answer ends with a move."""


class GtpEngine:
    """The engine's side of the protocol. `most_nodes` bounds the simulations of a move (0: no bound)."""

    def __init__(self, desk: Desk, version: str, options: Options, most_nodes: int = 0) -> None:
        self.desk = desk
        self.version = version
        self.options = options
        self._most_nodes = most_nodes
        self.first_setup = options.setup
        self._loaded: Setup | None = None
        self._preparing: Setup | None = None
        self._waiting: deque[str] = deque()
        self._held_command: Command | None = None
        """The command that waits for the network."""
        self._task: Task | None = None
        self._has_ended = False
        """Whether the search behind a stream has ended by itself."""
        self._is_quitting = False

    @property
    def takes_input(self) -> bool:
        return not self._waiting

    # ---- Events -------------------------------------------------------------------------------

    def feed(self, line: str, now: float) -> list[Order]:
        if self._is_quitting:
            return []
        # GTP answers commands in order.
        self._waiting.append(line)
        task = self._task
        # Input ends only a stream that finds no move; a `genmove`, also with analysis, is finished first.
        if task is None or task.format is None or task.has_move:
            return self._go_on(now)
        # The search is over already; only its answer was held back.
        if self._has_ended:
            return self._finish(task, None, now)
        return [StopSearch()]

    def reported(self, report: Report) -> list[Order]:
        task = self._task
        if task is None or task.format is None or not report.lines:
            return []
        return [Say(task.format(report, task.wanted))]

    def searched(self, found: Found, now: float) -> list[Order]:
        assert self._task is not None, "a search has a command"
        if self._task.command.name in OF_OWNERSHIP:
            # Only now the ownership is known. The network gives it for the side to move; the answer needs it
            # for Black.
            task, self._task = self._task, None
            sign = -1 if task.colour else 1
            desk = replace(self.desk, ownership=tuple(sign * one for one in found.ownership))
            try:
                text = success(task.command, desk.answer(task.command.name, task.command.arguments))
            except GtpError as error:
                text = failure(task.command, str(error))
            return [Say(text), *self._go_on(now)]
        # A stream without a move stays open until the controller sends something.
        if not self._task.has_move and not self._waiting:
            self._has_ended = True
            return []
        return self._finish(self._task, found, now)

    def still_preparing(self) -> list[Order]:
        return []  # in GTP, every line belongs to the answer of a command

    def prepared(self, setup: Setup, now: float) -> list[Order]:
        self._loaded, self._preparing = setup, None
        held, self._held_command = self._held_command, None
        orders = [] if held is None else self._answer(held, now)
        return orders + self._go_on(now)

    def preparation_failed(self, reason: str, now: float) -> list[Order]:
        self._preparing = None
        held, self._held_command = self._held_command, None
        orders: list[Order] = [] if held is None else [Say(failure(held, reason))]
        return orders + self._go_on(now)

    # ---- Commands -----------------------------------------------------------------------------

    def _go_on(self, now: float) -> list[Order]:
        """Answer waiting commands, up to the first one that needs a search or a preparation."""
        orders: list[Order] = []
        while self._waiting and self._task is None and self._held_command is None and not self._is_quitting:
            command = parse(self._waiting.popleft())
            if command is not None:
                orders += self._answer(command, now)
        task = self._task
        if self._waiting and task is not None and task.format is not None and not task.has_move:
            orders.append(StopSearch())  # in a script, the line that ends this stream has already come
        return orders

    def _answer(self, command: Command, now: float) -> list[Order]:
        name = command.name
        asks_owners = self.desk.asks_network and name in OF_OWNERSHIP
        is_ready = self._loaded == self._setup and self._preparing is None
        if (name in NEED_NETWORK or asks_owners) and not is_ready:
            self._held_command = command  # also if another set-up is being prepared; this one follows it
            return self._prepare()
        try:
            if name in SEARCHING:
                return self._search(command, now)
            if asks_owners:
                return self._ask_owners(command, now)
            if name in self.desk.commands:
                text = self.desk.answer(name, command.arguments)
                # Load when a new game begins: the controller sets its clocks only afterwards.
                begins = name == "clear_board" and self._loaded != self._setup
                return [Say(success(command, text)), *(self._prepare() if begins else [])]
            return self._answer_about(command)
        except GtpError as error:
            return [Say(failure(command, str(error)))]

    def _answer_about(self, command: Command) -> list[Order]:
        """Answer a command of ABOUT. Raises GtpError for any other command."""
        name = command.name
        names = sorted({*self.desk.commands, *ABOUT, *NEED_NETWORK})
        # The answers to `stop` and `quit` are empty.
        about = dict.fromkeys(ABOUT, "") | {"protocol_version": "2", "name": "azselfplay"}
        about |= {"version": self.version, "list_commands": "\n".join(names)}
        if name not in about:
            raise GtpError(f"unknown command: {shown(name)}" if name else "syntax error")
        if name == "known_command":
            expect(command.arguments, "known_command NAME")
            about[name] = str(command.arguments[0] in names).lower()
        # Lines after `quit` are ignored.
        self._is_quitting = name == "quit"
        return [Say(success(command, about[name])), *([Quit()] if self._is_quitting else [])]

    # ---- Searches -----------------------------------------------------------------------------

    def _ask_owners(self, command: Command, now: float) -> list[Order]:
        """Ask the network who will own each point."""
        # Ask about the position before the passes that ended the game: training has no positions after them.
        game_history, colour = self.desk.board.game_history, self.desk.board.to_move
        actions, pass_ = list(game_history.actions), game_history.game.actions - 1
        while actions and actions[-1] == pass_:
            actions.pop()
            colour = 1 - colour
        self._task = Task(command, colour, now, has_move=False)
        return [Start(Request(game_history.start, tuple(actions), now, simulations=1, ownership=True))]

    def _search(self, command: Command, now: float) -> list[Order]:
        """Begin the search for a move, or for a stream of analysis. Raises GtpError."""
        board, name = self.desk.board, command.name
        stream = FORMATS.get(name) or GENMOVE_FORMATS.get(name)
        if stream is None:
            expect(command.arguments, f"{name} COLOUR")
            wanted = Wanted(colour_of(command.arguments[0]))
        else:
            wanted = wanted_of(command.arguments)
        colour = board.to_move if wanted.colour is None else wanted.colour
        has_move = name not in FORMATS
        plays = has_move and name != "reg_genmove"
        task = Task(command, colour, now, wanted, stream, plays=plays, has_move=has_move)
        begin: list[Order] = [] if stream is None else [Say(begun(command))]
        if board.is_over and has_move:
            return begin + self._play(task, "pass")
        if board.is_over:
            last = board.rules.last_ply
            raise GtpError(f"the game is over: both sides have passed, or {last} moves have been played")
        actions, legal = board.turned_to(colour)
        allowed = legal
        for one in wanted.restrictions:
            if one.colour == colour:
                named = {board.action(vertex) for vertex in one.vertices}
                allowed = [action for action in allowed if (action in named) == one.allows]
        if not allowed:
            raise GtpError("no legal move is left by allow and avoid")
        clock = self.desk.clocks[colour] if has_move else None
        side_clock = None if clock is None else clock.for_move()
        simulations = 0
        if has_move and len(allowed) == 1:
            simulations = 1  # there is no choice; one simulation still gives the move a value
        elif has_move:
            # A move always needs a limit: GTP has no `stop` that would end its search.
            simulations = self._most_nodes or (USUAL_SIMULATIONS if clock is None else 0)
        overhead = self.options.overhead_ms / 1000
        request = Request(
            board.game_history.start,
            actions,
            now,
            new_game=self.desk.is_new_game,
            allowed=tuple(allowed) if len(allowed) < len(legal) else (),
            simulations=simulations,
            seconds=None if side_clock is None else seconds_for_move(side_clock, overhead),
            stop_when_proven=has_move,
            may_move_early=side_clock is not None and side_clock.keeps_rest and not self.options.temperature,
            temperature=self.options.temperature / 100,
            # The sums of rootInfo are over all moves.
            lines=1 if stream is None else MOST_MOVES if wanted.root_info else wanted.most,
            ownership=wanted.ownership,
            report_seconds=wanted.interval,
        )
        self.desk.is_new_game = False
        self._task, self._has_ended = task, False
        return [*begin, Start(request)]

    def _finish(self, task: Task, found: Found | None, now: float) -> list[Order]:
        """Handle the end of the search: answer its command, then the waiting commands."""
        self._task = None
        if found is None or not task.has_move:
            return [Say(""), *self._go_on(now)]
        # A search that does not play its move (reg_genmove) takes no time from the clock.
        clock = self.desk.clocks[task.colour]
        if clock is not None and task.plays:
            # The controller may send no time_left, so the clock is kept here too.
            self.desk.clocks[task.colour] = clock.after(now - task.began)
        move = found.moves[0] if found.moves else "pass"
        if found.moves and self.options.resigns_at(found.value):
            move = "resign"
        try:
            orders = self._play(task, move)
        except GtpError as error:  # the game is too long
            orders = [Say(failure(task.command, str(error)))]
        return orders + self._go_on(now)

    def _play(self, task: Task, move: str) -> list[Order]:
        # reg_genmove only names its move and does not play it.
        if task.plays and move != "resign":
            self.desk.board.play(task.colour, move)
        text = success(task.command, move) if task.format is None else f"play {move}\n"
        return [Say(text)]

    # ---- Inside -------------------------------------------------------------------------------

    @property
    def _setup(self) -> Setup:
        """The set-up that the network and the tree should be made for."""
        # Komi and rules are part of the game's name.
        return replace(self.options.setup, game=self.desk.board.rules.name)

    def _prepare(self) -> list[Order]:
        # Only one preparation runs at a time; `prepared` checks again.
        if self._preparing is not None:
            return []
        self._preparing = self._setup
        return [Prepare(self._preparing)]
