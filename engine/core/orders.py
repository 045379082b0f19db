"""What a protocol and the driver tell each other.

A protocol is a pure state machine (`Engine`): events come with the time, orders go back. The driver owns
network, tree and clock, and carries the orders out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.core.options import Setup
from engine.core.report import Found, Report

REPORT_SECONDS = 0.9
"""Between two reports: GUIs expect one a second."""


@dataclass(frozen=True)
class Request:
    """One search. 0, None and () are no limit."""

    start: str
    actions: tuple[int, ...]
    """The moves from `start` to the position to search."""
    began: float
    """When the search was asked for; seconds of the clock of `now`."""
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
    claims: frozenset[str] = frozenset()
    """End reasons of the game at which the side to move says that it has won, instead of moving."""
    temperature: float = 0.0
    """The move is drawn from visits ** (1 / temperature); 0: the best move."""
    lines: int = 1
    """Moves in a report at most."""
    show_draw: bool = False
    """Reports tell the network's share of draws at the root."""
    report_seconds: float = REPORT_SECONDS
    """Between two reports."""


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
    """Begin a search; `reported` is called meanwhile, and `searched` when it has ended."""

    request: Request


@dataclass(frozen=True)
class StopSearch:
    """The running search ends now."""


@dataclass(frozen=True)
class SetDeadline:
    """The running search no longer ponders; it ends at `until` (the clock of `now`), if that is given."""

    until: float | None


@dataclass(frozen=True)
class Quit:
    """The process ends."""


Order = Say | Prepare | Start | StopSearch | SetDeadline | Quit


class Engine(Protocol):
    """The engine's side of a protocol. No event raises an exception; `now` is in seconds."""

    @property
    def first_setup(self) -> Setup:
        """That of the command line: the process ends if it cannot be used."""
        ...

    @property
    def takes_input(self) -> bool:
        """Whether further lines are wanted now; if not, they are left unread."""
        ...

    def feed(self, line: str, now: float) -> list[Order]:
        """A line came, without its newline. At the end of the input it is `quit`."""
        ...

    def reported(self, report: Report) -> list[Order]:
        """The running search tells what it has found so far."""
        ...

    def searched(self, found: Found, now: float) -> list[Order]:
        """The search has ended."""
        ...

    def still_preparing(self) -> list[Order]:
        """The preparation takes longer than a second."""
        ...

    def prepared(self, setup: Setup, now: float) -> list[Order]:
        """Network and tree are ready."""
        ...

    def preparation_failed(self, reason: str, now: float) -> list[Order]:
        """They cannot be used; those of before, if there are any, are still there."""
        ...
