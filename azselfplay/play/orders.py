"""The data that a protocol and the driver exchange: options, orders, searches and their results, and the
clock.

A protocol (UCI, USI, GTP, the terminal) is a pure state machine, an `Engine`: it receives events with the
time at which they happened, and returns orders. The driver owns network, tree and clock, and carries out the
orders. So every dialogue with a GUI can be tested line by line without a search, and no protocol needs to
know about threads. Everything here is plain data: a command can import this module to print its `--help`
without loading numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from azselfplay.games.names import DEFAULT_GAME


@dataclass(frozen=True)
class Setup:
    """Options that take a while to change, because the network must be loaded and the tree made again."""

    weights: str = ""
    """Weights file; empty: an untrained network."""
    backend: str = "cpu"
    threads: int = 0
    """CPU threads of the network; 0: one per core."""
    hash_mib: int = 256
    """Memory of the tree, in MiB."""
    leaves: int = 0
    """Most positions evaluated together; 0: as many as suit the device."""
    search: str = ""
    """A selection, or a selection with settings (`play.nets`); empty: FOR_PLAY."""
    game: str = DEFAULT_GAME
    """Name of the game played. The network may be for another variant with the same board."""
    syzygy_path: str = ""
    """Folders of Syzygy tables, separated as in PATH; empty: none."""


@dataclass(frozen=True)
class Options:
    setup: Setup = Setup()
    multi_pv: int = 1
    show_wdl: bool = False
    analyse_mode: bool = False
    ponder: bool = False
    """Whether the GUI may ponder. This has no effect on the engine."""
    overhead_ms: int = 30
    """Milliseconds lost between engine and GUI on each move."""
    temperature: int = 0
    """Percent. Moves are drawn from visits ** (100 / temperature); 0 plays the best move."""
    resign_percent: int = 0
    """The engine resigns when its chances (half for a draw) are below this many percent; 0: never."""
    limit_strength: bool = False
    """Whether the engine plays with the simulations that have the strength `elo` (`play.strength`)."""
    elo: int = 0
    chess960: bool = False
    """Whether castling is written in the game's own notation instead of as in chess
    (`Notation.action_to_chess`)."""

    def resigns_at(self, value: float) -> bool:
        """Return whether to resign at a position of `value` in [-1, 1] for the side to move."""
        return 50 * (value + 1) < self.resign_percent


def shown(text: str, length: int = 60) -> str:
    """Return text from outside, shortened and escaped for one line of output."""
    # `ascii`, because a terminal may misrender other characters, or interpret them as commands.
    return ascii(text if len(text) <= length else text[:length] + "...")


def chances(value: float) -> str:
    """Return a value in [-1, 1] as a share of points in percent, where a draw is half a point."""
    return f"{50 * (value + 1):.0f} %"


TOO_LONG = "line-of-too-many-bytes"
"""Text that a protocol receives instead of a line that was too long to keep."""

REPORT_SECONDS = 0.9
"""Seconds between two reports: GUIs expect one a second."""


@dataclass(frozen=True)
class Request:
    """One search. 0, None and () mean no limit."""

    start: str
    actions: tuple[int, ...]
    """The moves from `start` to the position to search."""
    began: float
    """When the search was requested; seconds of the clock of `now`."""
    new_game: bool = False
    """Whether the tree of the last search must be dropped."""
    allowed: tuple[int, ...] = ()
    simulations: int = 0
    seconds: float | None = None
    """Limit in seconds, counted from `began`, or from the ponderhit when pondering."""
    depth: int = 0
    is_pondering: bool = False
    seeks_mate: bool = False
    """Whether the search looks for a mate. It ends by itself with a proven mate, or when the tree is full."""
    stop_when_proven: bool = False
    may_move_early: bool = False
    """Whether to stop once the move is clear. This is allowed if later moves can use the saved time and the
    move is not drawn at random."""
    from_start: bool = False
    """Whether `seconds` count from the start of the search, which may come later than `began`."""
    claims: frozenset[str] = frozenset()
    """End reasons by which the side to move claims a win instead of moving."""
    temperature: float = 0.0
    """The move is drawn from visits ** (1 / temperature); 0: the best move."""
    lines: int = 1
    """Most moves in a report."""
    as_in_chess: bool = False
    """Whether moves are written by `Notation.action_to_chess`, which the game must then have."""
    show_draw: bool = False
    """Whether reports include the network's draw probability at the root."""
    ownership: bool = False
    """Whether the reports and the result include who will own each cell, if the network knows."""
    report_seconds: float = REPORT_SECONDS
    """Seconds between two reports."""
    refusal: str = ""
    """Why nothing can be searched, as text for people. Such a request is never started."""


@dataclass(frozen=True)
class Say:
    """Print the text and a newline."""

    text: str


@dataclass(frozen=True)
class Prepare:
    """Load the network and make the tree; then call `prepared` or `preparation_failed`."""

    setup: Setup


@dataclass(frozen=True)
class Start:
    """Begin a search; `reported` is called while it runs, and `searched` when it has ended."""

    request: Request


@dataclass(frozen=True)
class StopSearch:
    """Stop the running search now."""


@dataclass(frozen=True)
class SetDeadline:
    """End pondering: the running search now ends at `until` (on the clock of `now`), if given."""

    until: float | None


@dataclass(frozen=True)
class Quit:
    """End the process."""


Order = Say | Prepare | Start | StopSearch | SetDeadline | Quit


@dataclass(frozen=True)
class Progress:
    """Figures of one search."""

    seconds: float
    simulations: int
    depth: int
    """Mean depth of its simulations, in plies."""
    deepest: int
    hashfull: int = 0
    """Used share of the tree's memory, per mille."""


@dataclass(frozen=True)
class Line:
    """A legal move and what is known about it. All values are for the side to move at the root."""

    moves: tuple[str, ...]
    """The principal variation, this move first, in the game's notation."""
    visits: int
    value: float
    """Value in [-1, 1]; the root's if the move was not visited."""
    prior: float
    proof: int = 0
    """Positive: plies to a proven win. Negative: minus the plies to a proven loss. 0: no proof."""


@dataclass(frozen=True)
class Report:
    """What a search has found so far."""

    lines: tuple[Line, ...] = ()
    """Lines, the best first."""
    progress: Progress = Progress(0.0, 0, 0, 0)
    draw: float | None = None
    """The network's draw probability at the root, if requested."""
    ownership: tuple[float, ...] = ()
    """[cells] in [-1, 1], 1 where the side to move will own the cell, if requested and known."""
    outcome: int | None = None
    """+1, 0 or -1 for the side to move, if the game is over; then there are no lines."""
    note: str = ""
    """A sentence for people."""


@dataclass(frozen=True)
class Found:
    """The result of a search."""

    moves: tuple[str, ...]
    """The move to play and the expected continuation, in the game's notation; () if the game is over."""
    action: int = -1
    """The move to play."""
    value: float = 0.0
    """Value of this move for the side to move; if the game is over, the game's result."""
    claim: str = ""
    """The end reason by which the side to move has won, if a claim was requested."""
    ownership: tuple[float, ...] = ()
    """As in the reports."""


class Engine(Protocol):
    """The engine's side of a protocol. No event raises an exception; `now` is in seconds."""

    @property
    def first_setup(self) -> Setup:
        """The set-up of the command line. If it cannot be used, the process ends."""

    @property
    def takes_input(self) -> bool:
        """Whether the engine takes further lines now; otherwise they stay unread."""

    def feed(self, line: str, now: float) -> list[Order]:
        """Handle a line, given without its newline. The end of the input comes as a line `quit`."""

    def reported(self, report: Report) -> list[Order]:
        """Handle an interim report of the running search."""

    def searched(self, found: Found, now: float) -> list[Order]:
        """Handle the end of the search."""

    def still_preparing(self) -> list[Order]:
        """Note that the preparation takes longer than a second."""

    def prepared(self, setup: Setup, now: float) -> list[Order]:
        """Note that network and tree are ready."""

    def preparation_failed(self, reason: str, now: float) -> list[Order]:
        """Note that network and tree cannot be used. The previous ones, if any, are still there."""


EXPECTED_MOVES = 30
"""Number of moves still expected, if the GUI does not say."""

LARGEST_SHARE = 0.4
"""Largest share of the remaining time for one move among several."""

LAST_MOVE_SHARE = 0.9
"""Largest share of the remaining time for the last move before the next time control."""

INCREMENT_SHARE = 0.8
"""Share of the increment used for each move."""


@dataclass(frozen=True)
class SideClock:
    """The clock of the side to move, seconds."""

    remaining: float
    increment: float = 0.0
    moves_to_go: int = 0
    """Moves until the next time control; 0: the time is for the whole game."""
    byoyomi: float = 0.0
    """Seconds for each move once `remaining` is used up; time that a move does not use is lost."""
    loses_rest: bool = False
    """Whether the rest of `remaining` is lost after this move."""

    @property
    def keeps_rest(self) -> bool:
        """Whether later moves can use the time that this move saves."""
        return self.remaining > 0 and not self.loses_rest


def seconds_for_move(clock: SideClock, overhead: float) -> float:
    """Return the seconds to think: at most the clock minus `overhead` (time lost on the way to the GUI), and
    at least 0."""
    # The answer must arrive before the flag falls, so the overhead is subtracted first.
    usable = max(0.0, clock.remaining - overhead)
    moves = clock.moves_to_go or EXPECTED_MOVES
    # Each remaining move costs its overhead, too, and the next time control does not give it back.
    spread = max(0.0, usable - overhead * (moves - 1)) / moves
    most = usable * (LARGEST_SHARE if moves > 1 else LAST_MOVE_SHARE)
    main = min(spread + INCREMENT_SHARE * clock.increment, most)
    return main + max(0.0, clock.byoyomi - overhead)


def seconds_of_movetime(movetime: float, overhead: float) -> float:
    """Return the seconds to think when the GUI wants an answer after `movetime` seconds."""
    # Use at least half of `movetime`: if the overhead were larger than the time, nothing would be searched.
    return max(movetime - overhead, movetime / 2)
