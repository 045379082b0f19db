"""`azplay uci` and `azplay usi`: the network as an engine for chess and shogi GUIs and match runners.

The engine's side of both protocols is one pure state machine (`play.orders.Engine`). It answers each `go`
with exactly one `bestmove`, in order. So searches wait in a queue. While the network is prepared, commands
are accepted, but `go` and `isready` are answered only when it is ready. A search that the GUI must end (`go
infinite`, pondering) holds back its bestmove until then. A wrong line changes nothing and is reported by an
`info string`. `play.uci_lines` parses and writes the lines.
"""
# ruff: noqa: ARG002

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from azselfplay.host import config
from azselfplay.host.exits import Exit, Fatal
from azselfplay.play.driver import EngineConfig, serve
from azselfplay.play.orders import (
    TOO_LONG,
    Found,
    Options,
    Order,
    Prepare,
    Quit,
    Report,
    Request,
    Say,
    SetDeadline,
    Setup,
    SideClock,
    Start,
    StopSearch,
    seconds_for_move,
    seconds_of_movetime,
    shown,
)
from azselfplay.play.uci_lines import (
    MAX_NUMBER,
    UCI,
    USI,
    Dialect,
    Go,
    LastPosition,
    Position,
    SetOption,
    Spec,
    Word,
    best_move_line,
    info_lines,
    parse,
)

if TYPE_CHECKING:
    from azselfplay.games.spec import Game
    from azselfplay.play.strength import Strength

USI_EXAMPLES = (
    "azplay usi shogi-small",
    "azplay usi FILE --nodes 800 --resign-percent 2   # 800 simulations; resigns when lost",
    "azplay usi                                                 # an untrained network, to try the GUI",
)

UCI_EXAMPLES = (
    "azplay uci chess-tiny",
    "azplay uci FILE --search gumbel --nodes 800   # sequential halving, 800 simulations per move",
    "azplay uci                                              # an untrained network, to try the GUI",
)


@dataclass(frozen=True)
class UciConfig(EngineConfig):
    """A chess engine that speaks UCI on standard input and output."""

    game: str = ""
    """chess or chess960. Empty: that of the network, else chess."""
    syzygy_path: str = ""
    """Folders of Syzygy endgame tables, separated as in PATH; the engine plays what they know."""


@dataclass(frozen=True)
class UsiConfig(EngineConfig):
    """A shogi engine that speaks USI on standard input and output."""

    game: str = ""
    """shogi, or a variant of its rules. Empty: that of the network, else shogi."""
    resign_percent: Annotated[int, Meta(ge=0, le=50)] = 0
    """The engine resigns when its chances are below this many percent; 0: never (option ResignPercent)."""


def uci() -> int:
    """Speak UCI on standard input and output until `quit`."""
    settings = config.load(UciConfig, command="azplay uci", examples=UCI_EXAMPLES).resolved()
    from azselfplay.play.nets import game_for
    from azselfplay.play.strength import measured

    game = game_for(settings.game, settings.weights, "chess")
    if game.notation.engine_protocol != UCI.name:
        raise Fatal(f"{game.name} is not chess: UCI plays chess or chess960", Exit.CONFIG)
    options = Options(replace(settings.setup(game.name), syzygy_path=settings.syzygy_path))
    strength = measured(settings.weights, settings.search, game) if settings.weights else None

    name = f"azselfplay {settings.network_name}"
    return serve(lambda: UciEngine(game, name, options, settings.nodes, strength=strength), settings)


def usi() -> int:
    """Speak USI on standard input and output until `quit`."""
    settings = config.load(UsiConfig, command="azplay usi", examples=USI_EXAMPLES).resolved()
    from azselfplay.play.nets import game_for

    game = game_for(settings.game, settings.weights, "shogi")
    if game.notation.engine_protocol != USI.name:
        raise Fatal(f"{game.name} is not shogi: USI plays shogi or shogi_declaration", Exit.CONFIG)

    options = Options(settings.setup(game.name), resign_percent=settings.resign_percent)
    name = f"azselfplay {settings.network_name}"
    return serve(lambda: UciEngine(game, name, options, settings.nodes, USI), settings)


PREPARING = "info string loading the network and compiling rules and search: up to a minute the first time"


class UciEngine:
    """The engine's side of the protocol. `most_nodes` bounds searches without a limit (0: no bound).
    `strength`: the strength of the network and the search in `options`, if it is known."""

    takes_input = True

    def __init__(
        self,
        game: Game,
        name: str,
        options: Options,
        most_nodes: int = 0,
        dialect: Dialect = UCI,
        strength: Strength | None = None,
    ) -> None:
        self.name = name
        self.options = options
        self.dialect = dialect
        self._strength = strength
        # Such a game writes castling as the king's move onto its rook.
        if game.notation.action_to_chess is not None:
            self.dialect = self.dialect.with_options(Spec("UCI_Chess960", "chess960", "check"))
        if strength is not None:
            self.options = replace(options, elo=strength.highest)
            self.dialect = self.dialect.with_options(
                Spec("UCI_LimitStrength", "limit_strength", "check"),
                Spec("UCI_Elo", "elo", "spin", strength.lowest, strength.highest),
            )
        self.position = LastPosition(game)
        self.searching: Request | None = None
        self._most_nodes = most_nodes
        self.first_setup = options.setup
        self._loaded: Setup | None = None
        self._preparing: Setup | None = None
        self._pending_readyok = 0
        self._pending: deque[Request] = deque()
        """Searches that were requested and have not begun. Each still needs a bestmove."""
        self._is_stopping = False
        self._is_quitting = False
        self._new_game = False
        self._move_held_back: Found | None = None

    # ---- Events -------------------------------------------------------------------------------

    def feed(self, line: str, now: float) -> list[Order]:
        """Handle a line. After `quit`, lines are ignored, and `Quit` follows the last answer that is due."""
        if self._is_quitting:
            return []
        try:
            command = parse(line, self.dialect)
            if isinstance(command, Word):
                return self._obey_word(command, now)
            # The option is stored at once, and prepared when a search needs it (`_go_on`).
            if isinstance(command, SetOption):
                self.options = self.dialect.changed(self.options, command.name, command.value)
            if isinstance(command, Position):
                self.position.set(command)
            return self._go(command, now) if isinstance(command, Go) else []
        except ValueError as error:  # BadCommand is one
            # The GUI assumes a position that we do not have, so no search may answer for the old position.
            if line.split()[:1] in (["position"], [TOO_LONG]):  # only `position` lines become so long
                self.position.refusal = str(error)
            return [_note(str(error))]

    def prepared(self, setup: Setup, now: float) -> list[Order]:
        """Note that network and tree are ready."""
        self._loaded, self._preparing = setup, None
        return self._go_on()

    def preparation_failed(self, reason: str, now: float) -> list[Order]:
        """Keep the former network and tree. (If the first set-up fails, the driver ends the process.)"""
        self._preparing = None
        # Otherwise each further search would try the wrong settings again.
        self.options = replace(self.options, setup=self._loaded or self.first_setup)
        return [_note(f"{reason}; the former settings are used"), *self._go_on()]

    def reported(self, report: Report) -> list[Order]:
        """Turn the interim result into `info` lines."""
        return [Say(text) for text in info_lines(report, self.dialect)]

    def searched(self, found: Found, now: float) -> list[Order]:
        """Handle the end of the search. Its `bestmove` is held back while the GUI decides when it ends."""
        # `go infinite` and `go ponder` may not answer by themselves, even if nothing is left to search.
        if self._gui_decides_end() and not self._is_stopping:
            self._move_held_back = found
            return []
        return self._finish(found)

    def still_preparing(self) -> list[Order]:
        return [Say(PREPARING)]

    # ---- Commands -----------------------------------------------------------------------------

    def _obey_word(self, word: Word, now: float) -> list[Order]:
        match word:
            case Word.HELLO:
                # Answer before anything is loaded: a GUI waits only a few seconds for this answer.
                head = [f"id name {self.name}", "id author the azselfplay authors"]
                announced = self.dialect.announced(self.options)
                return [Say(text) for text in [*head, *announced, f"{self.dialect.name}ok"]]
            case Word.IS_READY:
                # While the engine thinks, it is ready. Otherwise the answer waits for the network, because it
                # tells the GUI that clocks may start.
                if self.searching is not None and not self.searching.refusal:
                    return [Say("readyok")]
                self._pending_readyok += 1
                return self._go_on()
            case Word.NEW_GAME:
                self._new_game = True
            case Word.NO_MATE:
                return [Say("checkmate notimplemented")]
            case Word.PONDER_HIT:
                return self._ponder_hit(now)
            case Word.STOP | Word.GAME_OVER:
                if not self._pending and self.searching is None:
                    return [_note("stop: no search is running")] if word is Word.STOP else []
                # All searches requested so far end; each still gets its bestmove.
                self._pending = deque(_at_once(request) for request in self._pending)
                return self._stop_running() if self.searching is not None else []
            case Word.SHOW_BOARD:
                game_history = self.position.game_history
                state, notation = game_history.state, game_history.game.notation
                text = f"{self.dialect.position.capitalize()}: {notation.state_to_text(state)}"
                return [Say(line) for line in [*notation.render(state).splitlines(), text]]
            case Word.QUIT:
                # A running search stops, as in other engines, but earlier commands are still answered: `quit`
                # from a script in a pipe is read while the network is still loading.
                self._is_quitting = True
                self._pending = deque(_ended(request) for request in self._pending)
                return self._stop_running() if self.searching is not None else self._go_on()
            case Word.IGNORED:
                pass
        return []

    def _ponder_hit(self, now: float) -> list[Order]:
        # The pondering search has not begun yet; its time counts from now on.
        if self._pending and self._pending[-1].is_pondering:
            self._pending[-1] = replace(self._pending[-1], is_pondering=False, began=now)
            return []
        if self._pending or self.searching is None or not self.searching.is_pondering:
            return [_note("ponderhit: no search is pondering")]
        self.searching = replace(self.searching, is_pondering=False)
        if self._move_held_back is not None and not self._gui_decides_end():
            return self._finish(self._move_held_back)
        seconds = self.searching.seconds
        return [SetDeadline(None if seconds is None else now + seconds)]

    def _go(self, go: Go, now: float) -> list[Order]:
        """Search now, or after the searches that were requested before. Earlier searches without a limit end
        now, as if `stop` had come first."""
        orders: list[Order] = [_note(text) for text in go.notes]
        setup, first = self.options.setup, self.first_setup
        if self.options.limit_strength and setup.weights != first.weights:
            orders.append(_note("UCI_Elo was measured with another network: now it is a guess"))
        if self._pending:  # earlier ones were ended in this way already
            self._pending[-1] = _ended(self._pending[-1])
        game_history, allowed = self.position.game_history, list[int]()
        legal = set(game_history.legal_actions().tolist())
        # After a refused position, the moves must not be read in the old position. Each counts once.
        for move in () if self.position.refusal else dict.fromkeys(go.searchmoves):
            try:
                action = int(game_history.game.notation.action_from_text(game_history.state, move))
            except ValueError:
                action = -1
            if action in legal:
                allowed.append(action)
            else:
                orders.append(_note(f"searchmoves: {shown(move)} is not legal here"))
        if self.position.refusal:
            request = _refused(go, now, f"the position is unknown: {self.position.refusal}")
        elif go.searchmoves and not allowed and legal:
            request = _refused(go, now, "none of the searchmoves is legal")
        else:
            request = self._request(go, now, tuple(allowed))
            self._new_game = False
        self._pending.append(request)
        if self.searching is None or self._is_stopping:
            return orders + self._go_on()
        ends_at_stop = self._gui_decides_end()
        what = "stopped" if ends_at_stop else "finished"
        orders.append(_note(f"a search is running already: it is {what} before this one begins"))
        return orders + (self._stop_running() if ends_at_stop else [])

    def _stop_running(self) -> list[Order]:
        if self._move_held_back is not None:
            return self._finish(self._move_held_back)
        self._is_stopping = True
        return [StopSearch()]

    # ---- Inside -------------------------------------------------------------------------------

    def _request(self, go: Go, now: float, allowed: tuple[int, ...]) -> Request:
        game_history, options = self.position.game_history, self.options
        # Whether the user wants the search to go on even if the move is clear. Pondering only holds back the
        # move until the ponderhit.
        is_free = options.analyse_mode or go.infinite
        simulations, overhead = go.nodes, options.overhead_ms / 1000
        clock: SideClock | None = None
        seconds: float | None = None
        if go.movetime is not None and not go.infinite:
            seconds = seconds_of_movetime(go.movetime / 1000, overhead)
        # A clock for only one side is a limit, too: if only the other side has one, this side has no time
        # left.
        elif not go.infinite and (go.wtime is not None or go.btime is not None or go.byoyomi):
            # In USI the first player's clock is called btime.
            is_white = (game_history.side_to_move == 0) == (self.dialect.first == "w")
            left, increment = (go.wtime, go.winc) if is_white else (go.btime, go.binc)
            clock = SideClock((left or 0) / 1000, increment / 1000, go.movestogo, go.byoyomi / 1000)
            seconds = seconds_for_move(clock, overhead)
        # A move may be made early only if later moves can use the saved time.
        keeps_rest = go.movetime is None if clock is None else clock.keeps_rest
        if not (simulations or go.infinite):
            simulations = self._most_nodes
        # The ignored words may have been the limit; without a limit the search would never end.
        if go.notes and not (simulations or go.infinite or go.is_limited):
            simulations = 1
        # Limit the strength in games, which includes pondering, but not in analysis.
        if options.limit_strength and not (options.analyse_mode or go.infinite):
            assert self._strength is not None  # otherwise the option does not exist
            simulations = min(simulations or MAX_NUMBER, self._strength.simulations_for(options.elo))
        # An only move needs no thought, except for the moves after it while the opponent thinks; one
        # simulation still gives it a value.
        if len(game_history.legal_actions()) == 1 and not (is_free or go.ponder or go.nodes):
            simulations = 1
        return Request(
            game_history.start,
            tuple(game_history.actions),
            now,
            self._new_game,
            allowed,
            simulations,
            seconds,
            go.depth,
            go.ponder,
            go.mate > 0,
            from_start=seconds is not None and clock is None,
            stop_when_proven=not is_free or go.mate > 0,
            may_move_early=not (is_free or options.temperature) and keeps_rest,
            claims=frozenset(self.dialect.claims),
            temperature=options.temperature / 100,
            lines=options.multi_pv,
            as_in_chess=game_history.game.notation.action_to_chess is not None and not options.chess960,
            show_draw=options.show_wdl,
        )

    def _gui_decides_end(self) -> bool:
        """Return whether the GUI decides when the running search ends."""
        request = self.searching
        return request is not None and (request.is_pondering or _has_no_limit(request))

    def _go_on(self) -> list[Order]:
        """Do everything that is due, in order: each readyok, the waiting searches, the end."""
        orders: list[Order] = []
        # Options may have changed during the last preparation; then prepare again.
        is_ready = self._preparing is None and self._loaded == self.options.setup
        if is_ready:
            orders += [Say("readyok")] * self._pending_readyok
            self._pending_readyok = 0
        while self._pending and self.searching is None and not self._pending_readyok:
            # A refusal needs no network.
            if not (is_ready or self._pending[0].refusal):
                break
            request = self._pending.popleft()
            self.searching, self._move_held_back, self._is_stopping = request, None, False
            if not request.refusal:
                orders.append(Start(request))
                continue
            orders.append(_note(f"{request.refusal}; no move is given"))
            nothing = Found((self.dialect.null_move,))
            if self._gui_decides_end():  # its bestmove is due at `stop`, as for any other search
                self._move_held_back = nothing
            else:
                self.searching = None
                orders.append(Say(best_move_line(nothing, self.dialect, gives_up=False)))
        # Load nothing before it is needed, because a GUI first sets its options, one by one.
        waits = self._pending_readyok > 0 or (bool(self._pending) and self.searching is None)
        if waits and not is_ready and self._preparing is None:
            self._preparing = self.options.setup
            orders.append(Prepare(self.options.setup))
        if self._is_quitting and not waits and self.searching is None:
            orders.append(Quit())
        return orders

    def _finish(self, found: Found) -> list[Order]:
        # In analysis, the user wants a move instead of a resignation.
        gives_up = not self.options.analyse_mode and self.options.resigns_at(found.value)
        best = best_move_line(found, self.dialect, gives_up=gives_up)
        self.searching, self._move_held_back, self._is_stopping = None, None, False
        return [Say(best), *self._go_on()]


def _refused(go: Go, now: float, reason: str) -> Request:
    """Return a request that is answered by the null move at the time when `go` would be answered."""
    return Request("", (), now, simulations=int(not go.infinite), is_pondering=go.ponder, refusal=reason)


def _at_once(request: Request) -> Request:
    """Return the request, changed to be answered as soon as it begins."""
    # One simulation remains, because an answer needs a move; a deadline could end the search before it.
    return replace(request, simulations=1, is_pondering=False, seconds=None)


def _ended(request: Request) -> Request:
    """Return the request, with a limit if it had none: otherwise it would never end."""
    return _at_once(request) if request.is_pondering or _has_no_limit(request) else request


def _has_no_limit(request: Request) -> bool:
    limits = (request.simulations, request.depth, request.seeks_mate)
    return not any(limits) and request.seconds is None


def _note(text: str) -> Say:
    """Return an `info string` on one line."""
    # A newline would begin another line of the protocol.
    return Say("info string " + " ".join(text.split()))
