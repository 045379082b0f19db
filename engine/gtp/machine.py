"""The engine's side of GTP as a pure state machine (`engine.core.orders.Engine`).

Commands are answered one after the other. While a search runs, new input waits, except that any input ends a
stream of analysis.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from engine.core.orders import Options, Order, Prepare, Quit, Request, Say, Setup, Start, StopSearch, shown
from engine.core.report import Found, Report
from engine.core.timing import SideClock, seconds_for_move
from engine.gtp.analysis import FORMATS, GENMOVE_FORMATS, Format, Wanted, wanted_of
from engine.gtp.commands import COMMANDS, Desk, answer
from engine.gtp.protocol import Command, GtpError, begun, colour_of, expect, failure, parse, success

USUAL_SIMULATIONS = 800
"""Simulations of a move without a clock and without --nodes."""
ABOUT = ("protocol_version", "name", "version", "known_command", "list_commands", "stop", "quit")
"""Commands about the engine itself. `stop` ends a stream, as any input does."""
GENMOVES = ("genmove", "reg_genmove")
NEED_NETWORK = frozenset({*GENMOVES, *FORMATS, *GENMOVE_FORMATS, "time_settings", "time_left"})
"""Commands that wait for the network. Clocks start after the commands that set them."""


@dataclass(frozen=True)
class Task:
    """The command that a search answers."""

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
        self._first_setup = options.setup
        self._loaded: Setup | None = None
        self._preparing: Setup | None = None
        self._waiting: deque[str] = deque()
        self._held: Command | None = None
        """The command that waits for the network."""
        self._task: Task | None = None
        self._has_ended = False
        """Whether the search of a stream has ended by itself."""
        self._is_quitting = False

    @property
    def first_setup(self) -> Setup:
        return self._first_setup

    @property
    def takes_input(self) -> bool:
        return not self._waiting

    # ---- Events -------------------------------------------------------------------------------

    def feed(self, line: str, now: float) -> list[Order]:
        if self._is_quitting:
            return []
        self._waiting.append(line)
        task = self._task
        if task is None or task.format is None:
            return self._go_on(now)
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
        if not self._task.has_move and not self._waiting:
            self._has_ended = True
            return []
        return self._finish(self._task, found, now)

    def still_preparing(self) -> list[Order]:
        return []

    def prepared(self, setup: Setup, now: float) -> list[Order]:
        self._loaded, self._preparing = setup, None
        held, self._held = self._held, None
        orders = [] if held is None else self._answer(held, now)
        return orders + self._go_on(now)

    def preparation_failed(self, reason: str, now: float) -> list[Order]:
        self._preparing = None
        held, self._held = self._held, None
        orders: list[Order] = [] if held is None else [Say(failure(held, reason))]
        return orders + self._go_on(now)

    # ---- Commands -----------------------------------------------------------------------------

    def _go_on(self, now: float) -> list[Order]:
        """Answer waiting commands, up to the first one that takes time."""
        orders: list[Order] = []
        while self._waiting and self._task is None and self._held is None and not self._is_quitting:
            command = parse(self._waiting.popleft())
            if command is not None:
                orders += self._answer(command, now)
        if self._waiting and self._task is not None and self._task.format is not None:
            orders.append(StopSearch())  # as in a script, the line that ends this stream came before it began
        return orders

    def _answer(self, command: Command, now: float) -> list[Order]:
        if command.name in NEED_NETWORK and (self._loaded != self._setup or self._preparing is not None):
            self._held = command  # also while another set-up is being prepared, which this one replaces
            return self._prepare()
        try:
            if command.name in GENMOVES or command.name in GENMOVE_FORMATS:
                return self._genmove(command, now)
            if command.name in FORMATS:
                return self._analyse(command, now)
            return self._answer_at_once(command)
        except GtpError as error:
            return [Say(failure(command, str(error)))]

    def _answer_at_once(self, command: Command) -> list[Order]:
        if command.name in COMMANDS:
            text = answer(self.desk, command.name, command.arguments)
            begins = command.name == "clear_board" and self._loaded != self._setup
            return [Say(success(command, text)), *(self._prepare() if begins else [])]
        if command.name not in ABOUT:
            raise GtpError(f"unknown command: {shown(command.name)}" if command.name else "syntax error")
        if command.name != "quit":
            return [Say(success(command, self._about(command)))]
        self._is_quitting = True
        return [Say(success(command)), Quit()]

    def _about(self, command: Command) -> str:
        if command.name == "known_command":
            expect(command.arguments, "known_command NAME")
            return str(command.arguments[0] in _names()).lower()
        if command.name == "list_commands":
            return "\n".join(_names())
        return {"protocol_version": "2", "name": "azselfplay", "version": self.version}.get(command.name, "")

    # ---- Searches -----------------------------------------------------------------------------

    def _genmove(self, command: Command, now: float) -> list[Order]:
        stream = GENMOVE_FORMATS.get(command.name)
        if stream is None:
            expect(command.arguments, f"{command.name} COLOUR")
            wanted = Wanted(colour_of(command.arguments[0]))
        else:
            wanted = wanted_of(command.arguments)
        colour = self.desk.board.to_move if wanted.colour is None else wanted.colour
        task = Task(command, colour, now, wanted, stream, plays=command.name != "reg_genmove")
        if self.desk.board.is_over:  # the other side has passed, and this one passed before that
            begin: list[Order] = [] if stream is None else [Say(begun(command))]
            return begin + self._play(task, "pass")
        clock = self.desk.clocks[colour]
        simulations = self._most_nodes or (USUAL_SIMULATIONS if clock is None else 0)
        return self._start(task, simulations, None if clock is None else clock.for_move())

    def _analyse(self, command: Command, now: float) -> list[Order]:
        wanted = wanted_of(command.arguments)
        if self.desk.board.is_over:
            raise GtpError("the game is over: both sides have passed")
        colour = self.desk.board.to_move if wanted.colour is None else wanted.colour
        task = Task(command, colour, now, wanted, FORMATS[command.name], has_move=False)
        return self._start(task, 0, None)

    def _start(self, task: Task, simulations: int, clock: SideClock | None) -> list[Order]:
        actions, legal = self.desk.board.turned_to(task.colour)
        allowed = _allowed(legal, self.desk, task)
        is_move = task.has_move
        if len(allowed) == 1 and is_move:
            simulations = 1
        request = Request(
            self.desk.board.game_history.start,
            actions,
            task.began,
            new_game=self.desk.is_new_game,
            allowed=tuple(allowed) if len(allowed) < len(legal) else (),
            simulations=simulations,
            seconds=None if clock is None else seconds_for_move(clock, self.options.overhead_ms / 1000),
            stop_when_proven=is_move,
            may_move_early=clock is not None and clock.keeps_rest and not self.options.temperature,
            temperature=self.options.temperature / 100,
            lines=1 if task.format is None else task.wanted.most,
            report_seconds=task.wanted.interval,
        )
        self.desk.is_new_game = False
        self._task, self._has_ended = task, False
        begin: list[Order] = [] if task.format is None else [Say(begun(task.command))]
        return [*begin, Start(request)]

    def _finish(self, task: Task, found: Found | None, now: float) -> list[Order]:
        """Handle the end of the search: answer its command, then those that wait."""
        self._task = None
        if found is None or not task.has_move:
            return [Say(""), *self._go_on(now)]
        clock = self.desk.clocks[task.colour]
        if clock is not None and task.plays:
            self.desk.clocks[task.colour] = clock.after(now - task.began)
        move = found.moves[0] if found.moves else "pass"
        if found.moves and self.options.resigns_at(found.value):
            move = "resign"
        return self._play(task, move) + self._go_on(now)

    def _play(self, task: Task, move: str) -> list[Order]:
        if task.plays and move != "resign":
            self.desk.board.play(task.colour, move)
        text = success(task.command, move) if task.format is None else f"play {move}\n"
        return [Say(text)]

    # ---- Inside -------------------------------------------------------------------------------

    @property
    def _setup(self) -> Setup:
        """The set-up that the network and the tree should be made for."""
        return replace(self.options.setup, game=self.desk.board.rules.name)

    def _prepare(self) -> list[Order]:
        if self._preparing is not None:
            return []
        self._preparing = self._setup
        return [Prepare(self._preparing)]


def _allowed(legal: list[int], desk: Desk, task: Task) -> list[int]:
    """The legal actions that `allow` and `avoid` permit. Raises GtpError if none are left."""
    for one in task.wanted.restrictions:
        if one.colour == task.colour:
            named = {desk.board.action(vertex) for vertex in one.vertices}
            legal = [action for action in legal if (action in named) == one.allows]
    if not legal:
        raise GtpError("no legal move is left by allow and avoid")
    return legal


def _names() -> list[str]:
    return sorted({*COMMANDS, *ABOUT, *NEED_NETWORK})
