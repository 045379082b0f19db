"""The engine's side of UCI as a pure state machine, `(event, now) -> actions`.

Events are lines from the GUI, "the set-up is ready" and "the search has ended". Actions are lines to print
and orders to `engine.uci.driver`, which owns network, tree and clock. No line, however wrong, raises an
exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.uci.options import Options, Setup, announced, changed
from engine.uci.position import Board
from engine.uci.protocol import BadCommand, Go, Position, SetOption, Simple, parse
from engine.uci.timing import SideClock, seconds_for_move, seconds_of_movetime
from games.spec import Game


@dataclass(frozen=True)
class Request:
    """One search. 0, None and () are no limit."""

    start: str
    actions: tuple[int, ...]
    """The moves from `start` to the position to search."""
    options: Options
    began: float
    """When `go` came; seconds of the clock of `now`."""
    new_game: bool = False
    """The tree of the last search is dropped."""
    allowed: tuple[int, ...] = ()
    simulations: int = 0
    seconds: float | None = None
    """Counted from `began`, when pondering from the ponderhit."""
    depth: int = 0
    is_pondering: bool = False
    seeks_mate: bool = False
    """Ends with a proven mate, or when the tree is full."""
    stop_when_proven: bool = False
    may_move_early: bool = False
    """May end before the time is over: later moves can use the rest."""


@dataclass(frozen=True)
class Say:
    text: str


@dataclass(frozen=True)
class Prepare:
    """Load the network and make the tree; then call `prepared` or `preparation_failed`."""

    setup: Setup


@dataclass(frozen=True)
class Start:
    request: Request


@dataclass(frozen=True)
class StopSearch:
    pass


@dataclass(frozen=True)
class SetDeadline:
    """The running search no longer ponders; it ends at `until` (the clock of `now`), if that is given."""

    until: float | None


@dataclass(frozen=True)
class Quit:
    pass


Action = Say | Prepare | Start | StopSearch | SetDeadline | Quit


class UciEngine:
    """The engine's side of the protocol. `most_nodes` bounds searches without a limit (0: no bound)."""

    def __init__(self, game: Game, name: str, options: Options, most_nodes: int = 0) -> None:
        self.name = name
        self.options = options
        self.board = Board(game)
        self.searching: Request | None = None
        self._most_nodes = most_nodes
        self.first_setup = options.setup
        self._loaded: Setup | None = None
        self._preparing: Setup | None = None
        self._readyok_owed = 0
        self._pending: Request | None = None
        self._is_stopping = False
        self._is_quitting = False
        self._new_game = False
        self._held: str | None = None

    # ---- Events -------------------------------------------------------------------------------

    def feed(self, line: str, now: float) -> list[Action]:
        """A line came. After `quit`, lines are ignored, and `Quit` follows the last answer that is due."""
        if self._is_quitting:
            return []
        try:
            command = parse(line)
            if command is None:
                return []
            if isinstance(command, Simple):
                return self._simple(command.name, now)
            if isinstance(command, SetOption):
                self.options = changed(self.options, command.name, command.value)
                return []
            if isinstance(command, Position):
                self.board.set(command)
                return []
            return self._go(command, now)
        except ValueError as error:  # BadCommand is one
            return [_note(str(error))]

    def prepared(self, setup: Setup) -> list[Action]:
        """Network and tree are ready."""
        self._loaded, self._preparing = setup, None
        if setup != self.options.setup:
            return self._prepare()
        return self._go_on()

    def preparation_failed(self, reason: str) -> list[Action]:
        """They cannot be used, so the former ones stay. (If the first set-up fails, the driver ends.)"""
        self._preparing = None
        self.options = replace(self.options, setup=self._loaded or self.first_setup)
        actions: list[Action] = [_note(f"{reason}; the former settings are used")]
        return actions + (self._go_on() if self._loaded else self._prepare())

    def searched(self, best: str) -> list[Action]:
        """The search has ended. Its `bestmove` line `best` is held back while the GUI decides when it
        ends."""
        if self.searching is not None and self._is_held() and not self._is_stopping:
            self._held = best
            return []
        return self._finish(best)

    # ---- Commands -----------------------------------------------------------------------------

    def _simple(self, name: str, now: float) -> list[Action]:
        if name == "uci":
            head = [f"id name {self.name}", "id author the azselfplay authors"]
            return [Say(text) for text in [*head, *announced(self.options), "uciok"]]
        if name == "isready":
            return self._is_ready()
        if name == "ucinewgame":
            self._new_game = True
            return []
        if name == "stop":
            return self._stop()
        if name == "ponderhit":
            return self._ponder_hit(now)
        if name == "d":
            return [Say(text) for text in self._drawing()]
        return self._quit() if name == "quit" else []

    def _is_ready(self) -> list[Action]:
        if self.searching is not None:
            return [Say("readyok")]
        self._readyok_owed += 1
        if self._preparing is not None:
            return []
        return self._go_on() if self._loaded == self.options.setup else self._prepare()

    def _drawing(self) -> Sequence[str]:
        game_history = self.board.game_history
        notation = game_history.game.notation
        return [
            *notation.render(game_history.state).splitlines(),
            f"Fen: {notation.state_to_text(game_history.state)}",
        ]

    def _go(self, go: Go, now: float) -> list[Action]:
        if self._pending is not None or (self.searching is not None and not self._is_stopping):
            raise BadCommand("a search is running already; send stop first")
        self._pending = self._request(go, now)
        self._new_game = False
        if self.searching is not None or self._preparing is not None:
            return []
        return self._go_on() if self._loaded == self.options.setup else self._prepare()

    def _stop(self) -> list[Action]:
        if self._pending is not None:  # it has not begun yet, but a bestmove is owed
            self._pending = replace(self._pending, simulations=1, is_pondering=False, seconds=0.0)
            return []
        if self.searching is None:
            return [_note("stop: no search is running")]
        return self._stop_running()

    def _stop_running(self) -> list[Action]:
        if self._held is not None:
            return self._finish(self._held)
        self._is_stopping = True
        return [StopSearch()]

    def _quit(self) -> list[Action]:
        """Stop a running search, as other engines do, but answer the commands that came before: a script in a
        pipe is read while the network is still loading."""
        self._is_quitting = True
        if self.searching is not None:
            return self._stop_running()
        if self._pending is not None and (self._pending.is_pondering or _has_no_limit(self._pending)):
            self._stop()
        return [] if self._pending is not None or self._readyok_owed else [Quit()]

    def _ponder_hit(self, now: float) -> list[Action]:
        if self._pending is not None and self._pending.is_pondering:
            self._pending = replace(self._pending, is_pondering=False, began=now)
            return []
        if self.searching is None or not self.searching.is_pondering:
            return [_note("ponderhit: no search is pondering")]
        self.searching = replace(self.searching, is_pondering=False)
        if self._held is not None and not self._is_held():
            return self._finish(self._held)
        seconds = self.searching.seconds
        return [SetDeadline(None if seconds is None else now + seconds)]

    # ---- Inside -------------------------------------------------------------------------------

    def _request(self, go: Go, now: float) -> Request:
        game_history, options = self.board.game_history, self.options
        allowed = tuple(dict.fromkeys(self._action(move) for move in go.searchmoves))
        is_free = options.analyse_mode or go.infinite or go.ponder
        simulations = go.nodes
        seconds = self._seconds(go)
        if not (simulations or go.infinite or go.ponder):
            simulations = self._most_nodes
        if len(game_history.legal_actions()) == 1 and not is_free and not go.nodes:
            simulations = 1
        return Request(
            game_history.start,
            tuple(game_history.actions),
            options,
            now,
            self._new_game,
            allowed,
            simulations,
            seconds,
            go.depth,
            go.ponder,
            go.mate > 0,
            stop_when_proven=not is_free,
            may_move_early=not is_free and go.movetime is None,
        )

    def _action(self, move: str) -> int:
        game_history = self.board.game_history
        return int(game_history.game.notation.action_from_text(game_history.state, move))

    def _seconds(self, go: Go) -> float | None:
        overhead = self.options.overhead_ms / 1000
        if go.infinite:
            return None
        if go.movetime is not None:
            return seconds_of_movetime(go.movetime / 1000, overhead)
        first = self.board.game_history.side_to_move == 0
        left, increment = (go.wtime, go.winc) if first else (go.btime, go.binc)
        if left is None:
            return None
        return seconds_for_move(SideClock(left / 1000, increment / 1000, go.movestogo), overhead)

    def _is_held(self) -> bool:
        """Whether the GUI decides when the running search ends."""
        request = self.searching
        return request is not None and (request.is_pondering or _has_no_limit(request))

    def _prepare(self) -> list[Action]:
        self._preparing = self.options.setup
        return [Prepare(self.options.setup)]

    def _go_on(self) -> list[Action]:
        """Print each readyok that is due, then begin the search that waits, or quit."""
        actions: list[Action] = [Say("readyok")] * self._readyok_owed
        self._readyok_owed = 0
        if self._pending is not None:
            self.searching, self._pending = self._pending, None
            self._is_stopping, self._held = False, None
            actions.append(Start(self.searching))
        elif self._is_quitting:
            actions.append(Quit())
        return actions

    def _finish(self, best: str) -> list[Action]:
        self.searching, self._held, self._is_stopping = None, None, False
        actions: list[Action] = [Say(best)]
        if self._pending is None and not self._is_quitting:
            return actions
        is_loaded = self._pending is None or self._loaded == self.options.setup
        return actions + (self._go_on() if is_loaded else self._prepare())


def _has_no_limit(request: Request) -> bool:
    limits = (request.simulations, request.depth, request.seeks_mate)
    return not any(limits) and request.seconds is None


def _note(text: str) -> Say:
    """An `info string`, on one line."""
    return Say("info string " + " ".join(text.split()))
