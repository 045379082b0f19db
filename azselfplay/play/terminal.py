"""`azplay play RUN`: a person against a network in the terminal, in any game. docs/use_a_network.md.

The dialogue is a pure state machine (`play.orders.Engine`), like the other protocols. Lines are handled one
after the other. While the network thinks, new lines wait, so the lines of a whole session can come from a
file.
"""

from __future__ import annotations

import textwrap
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from azselfplay.host import config
from azselfplay.host.exits import Exit, Fatal, require
from azselfplay.play.driver import EngineConfig, serve
from azselfplay.play.orders import (
    Found,
    Order,
    Prepare,
    Quit,
    Report,
    Request,
    Say,
    Setup,
    Start,
    chances,
    shown,
)

if TYPE_CHECKING:
    from azselfplay.games.spec import Game
    from azselfplay.play.thinker import OpenGame

EXAMPLES = (
    "azplay play connect_four-tiny",
    "azplay play chess-tiny --side second --nodes 800     # the network begins, 800 simulations per move",
    "azplay play --game tic_tac_toe                       # an untrained network, to try the commands",
)


@dataclass(frozen=True)
class PlayConfig(EngineConfig):
    """You play against a network. Moves are written in the game's notation; `help` lists the commands."""

    nodes: Annotated[int, Meta(ge=1, le=1_000_000)] = 200
    """Simulations of the network for each move."""
    game: str = ""
    """The game of an untrained network; empty: that of the weights file, else chess."""
    side: Literal["first", "second"] = "first"
    """Which side you play."""
    start: str = ""
    """The position to begin from, in the game's notation; empty: the usual start."""


def main() -> int:
    """Play on standard input and output until `quit`."""
    settings = config.load(PlayConfig, command="azplay play", examples=EXAMPLES).resolved()
    require("train", "azplay play")
    from azselfplay.games.names import DEFAULT_GAME
    from azselfplay.play.nets import game_for

    game = game_for(settings.game, settings.weights, DEFAULT_GAME)
    try:
        engine = PlayEngine(
            game,
            settings.setup(game.name),
            simulations=settings.nodes,
            person=int(settings.side == "second"),
            start=settings.start,
        )
    except ValueError as error:
        raise Fatal(str(error), Exit.CONFIG) from error
    return serve(lambda: engine, settings, engine.begin(settings.network_name))


SIDES = ("first", "second")
"""Names of the players by side."""

WIDTH = 100

LINE_LENGTH = 8
"""Number of moves that are shown of an expected line."""

HELP = """\
A move is written in the game's notation: `moves` shows those that are legal.
  moves             the legal moves
  hint              the moves that the network would consider for you
  undo              take your last move back, and the answer to it
  go                let the network move for you
  board             show the board again
  nodes N           simulations of the network for each move from now on
  new [first|second]  begin again, and choose your side
  help              this text
  quit              end"""

MOST_SIMULATIONS = 1_000_000

HINTS = 3
"""Number of moves that a hint shows."""


class PlayEngine:
    """Both sides of the board. `person` is the side the person plays, 0 the first player.

    Raises ValueError if `start` is not a position of the game.
    """

    def __init__(
        self, game: Game, setup: Setup, *, simulations: int, person: int = 0, start: str = ""
    ) -> None:
        from azselfplay.play.thinker import OpenGame  # imports numpy: not on the way to --help

        self._game_history = OpenGame(game, start)
        self.first_setup = setup
        self._simulations = simulations
        self._person = person
        self._waiting: deque[str] = deque()
        self._is_ready = False
        self._task: Literal["", "move", "hint"] = ""
        """The purpose of the running search."""
        # The newest report; a hint shows it when the search has ended.
        self._report = Report()
        self._is_quitting = False

    def begin(self, network: str) -> list[Order]:
        """Return the orders before the first line. `network`: the opponent's name."""
        return [Say(greeting(self._game_history.game, network, self._person)), Prepare(self.first_setup)]

    @property
    def takes_input(self) -> bool:
        return not self._waiting

    # ---- Events -------------------------------------------------------------------------------

    def feed(self, line: str, now: float) -> list[Order]:
        self._waiting.append(line)
        return self._go_on(now)

    def reported(self, report: Report) -> list[Order]:
        self._report = report
        return []

    def searched(self, found: Found, now: float) -> list[Order]:
        task, self._task = self._task, ""
        if task == "hint":
            return [Say(hint(self._report)), *self._go_on(now)]
        # After `go`, the network moves for the person.
        mover = self._game_history.side_to_move
        self._game_history.play(found.action)
        said = move_of_network(found, self._report, for_person=mover == self._person)
        return [Say(said), *self._next(now), *self._go_on(now)]

    def still_preparing(self) -> list[Order]:
        return [Say("Loading the network and compiling its search: up to a minute the first time.")]

    def prepared(self, setup: Setup, now: float) -> list[Order]:  # noqa: ARG002 - there is one set-up
        self._is_ready = True
        return [*self._next(now), *self._go_on(now)]

    def preparation_failed(self, reason: str, now: float) -> list[Order]:  # noqa: ARG002
        return [Say(reason), Quit()]

    # ---- Inside -------------------------------------------------------------------------------

    def _go_on(self, now: float) -> list[Order]:
        """Handle waiting lines, up to the first one that makes the network think."""
        from azselfplay.games.game_texts import in_notation  # imports numpy

        orders: list[Order] = []
        # Lines wait until the network is loaded, so that a session can be piped in.
        while self._waiting and self._is_ready and not self._task and not self._is_quitting:
            # A command may start a search or end the session; the lines after it wait then.
            line = self._waiting.popleft().strip()
            if not line:
                continue
            try:
                move = in_notation(self._game_history, line)
                action = self._game_history.game.notation.action_from_text(self._game_history.state, move)
            except ValueError as error:
                orders += self._command(line.split(), now, str(error))
                continue
            if self._game_history.end_reason() is not None:
                orders.append(Say("The game is over; `undo` takes moves back, `new` begins another game."))
                continue
            try:
                self._game_history.play(action)
            except ValueError:  # the notation does not know past positions, which may forbid a move: superko
                orders.append(Say(f"{shown(line)} is not allowed: it repeats an earlier position."))
            else:
                orders += self._next(now)
        return orders

    def _command(self, words: list[str], now: float, why_no_move: str) -> list[Order]:
        name, arguments, game_history = words[0].lower(), words[1:], self._game_history
        if name == "help":
            return [Say(HELP)]
        if name == "board":
            return [Say(board(game_history))]
        if name == "moves":
            return [Say(moves(game_history))]
        if name == "hint":
            return self._think("hint", now)
        if name == "go":
            return self._think("move", now)
        if name == "undo":
            # Go back to the person's last turn; a side may have moved several times in a row.
            movers = [game_history.game.rules.side_to_move(state) for state in game_history.states[:-1]]
            if self._person not in movers:
                return [Say("You have not moved yet: there is no move to take back.")]
            game_history.take_back(len(movers) - 1 - movers[::-1].index(self._person))
            return self._next(now)
        if name == "new":
            if arguments and arguments[0] not in SIDES:
                return [Say("Write new, new first or new second.")]
            if arguments:
                self._person = SIDES.index(arguments[0])
            game_history.take_back(0)
            return self._next(now)
        if name == "nodes":
            text = arguments[0] if arguments else ""
            # `int` accepts text of any length, and is slow for long text.
            number = int(text) if text.isdecimal() and len(text) < 9 else 0
            if not 1 <= number <= MOST_SIMULATIONS:
                return [Say(f"Write nodes N, with a number from 1 to {MOST_SIMULATIONS}.")]
            self._simulations = number
            return [Say(f"The network makes {number} simulations a move from now on.")]
        if name == "quit":
            self._is_quitting = True
            return [Quit()]
        no_command = f"{shown(words[0])} is neither a move ({why_no_move}) nor a command."
        return [Say(f"{no_command} `moves` lists the legal moves, `help` the commands.")]

    def _next(self, now: float) -> list[Order]:
        """Show the board, then ask the person, let the network think, or announce the result."""
        show: list[Order] = [Say(board(self._game_history))]
        if self._game_history.end_reason() is not None:
            return [*show, Say(result(self._game_history, self._person))]
        if self._game_history.side_to_move == self._person:
            return [*show, Say("Your move:")]
        return [*show, *self._think("move", now)]

    def _think(self, task: Literal["move", "hint"], now: float) -> list[Order]:
        if self._game_history.end_reason() is not None:
            return [Say(result(self._game_history, self._person))]
        self._task = task
        request = Request(
            self._game_history.start,
            tuple(self._game_history.actions),
            now,
            simulations=self._simulations,
            stop_when_proven=task == "move",
            lines=HINTS if task == "hint" else 1,
        )
        return [Start(request)]


def greeting(game: Game, network: str, person: int) -> str:
    """Return the first lines of a session."""
    from azselfplay.games.knowledge import knowledge_of  # imports numpy

    you = knowledge_of(game).words.sides[person]
    return f"{game.name}: you are {you}, against {network}. `help` lists the commands."


def board(game_history: OpenGame) -> str:
    """Return the board as text, with an empty line before and after it."""
    from azselfplay.games.game_history import board_text  # imports numpy

    is_over = game_history.end_reason() is not None
    return f"\n{board_text(game_history.game, game_history.state, is_over=is_over)}\n"


def moves(game_history: OpenGame) -> str:
    """Return the legal moves as text."""
    if game_history.end_reason() is not None:
        return "The game is over."
    notation = game_history.game.notation
    legal = [
        notation.action_to_text(game_history.state, int(action)) for action in game_history.legal_actions()
    ]
    return textwrap.fill(" ".join(legal), WIDTH)


def move_of_network(found: Found, report: Report, *, for_person: bool) -> str:
    """Return text about the network's move and its judgement. `for_person`: the network moved for the
    person."""
    who = "The network moves for you" if for_person else "The network plays"
    side = "your" if for_person else "its own"
    after = f" It expects {' '.join(found.moves[1:LINE_LENGTH])}." if len(found.moves) > 1 else ""
    # A search may make fewer simulations than requested, when nothing could change the move any more. The
    # tree keeps simulations of the last search.
    simulations = report.progress.simulations or "no new"
    return (
        f"{who}: {found.moves[0]}  ({side} chances {chances(found.value)}, {simulations} simulations).{after}"
    )


def hint(report: Report) -> str:
    """Return the best moves of a search as text, the best first."""
    shown = [
        f"  {line.moves[0]:8} your chances {chances(line.value):>5}, {line.visits} visits, then "
        f"{' '.join(line.moves[1:LINE_LENGTH]) or '-'}"
        for line in report.lines
    ]
    return "\n".join(shown)


def result(game_history: OpenGame, person: int) -> str:
    """Return text about how the game ended, from the person's view."""
    # Convert the outcome from the first player's view to the person's.
    outcome = game_history.outcome() * (1 if person == 0 else -1)
    text = {1: "You win", 0: "A draw", -1: "The network wins"}[outcome]
    reason = str(game_history.end_reason()).replace("_", " ")
    score = game_history.score()
    by = "" if not score else f", by {abs(score):g}"
    return f"{text} ({reason}{by}). `undo` takes moves back, `new` begins another game, `quit` ends."
