"""The events and orders exchanged by a protocol and the driver.

A protocol is a pure state machine (`Engine`): events come with the time, and orders are returned. The driver
owns network, tree and clock, and carries out the orders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.core.options import Setup
from engine.core.report import Found, Report

TOO_LONG = "line-of-too-many-bytes"
"""What a protocol is fed instead of a line that was too long to keep."""
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
    """Whether the tree of the last search is dropped."""
    allowed: tuple[int, ...] = ()
    simulations: int = 0
    seconds: float | None = None
    """Limit in seconds, counted from `began`, or when pondering from the ponderhit."""
    depth: int = 0
    is_pondering: bool = False
    seeks_mate: bool = False
    """Whether the search ends by itself: with a proven mate, or when the tree is full."""
    stop_when_proven: bool = False
    may_move_early: bool = False
    """Whether to stop once no other move can become the most visited: later moves can use the time that is
    left, and the move is not drawn."""
    claims: frozenset[str] = frozenset()
    """End reasons by which the side to move claims a win instead of moving."""
    temperature: float = 0.0
    """The move is drawn from visits ** (1 / temperature); 0: the best move."""
    lines: int = 1
    """Most moves in a report."""
    show_draw: bool = False
    """Whether reports include the network's draw probability at the root."""
    report_seconds: float = REPORT_SECONDS
    """Seconds between two reports."""
    refusal: str = ""
    """Why nothing can be searched, for people; such a request is never started."""


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
    """The running search no longer ponders; it ends at `until` (the clock of `now`), if given."""

    until: float | None


@dataclass(frozen=True)
class Quit:
    """End the process."""


Order = Say | Prepare | Start | StopSearch | SetDeadline | Quit


class Engine(Protocol):
    """The engine's side of a protocol. No event raises an exception; `now` is in seconds."""

    @property
    def first_setup(self) -> Setup:
        """The set-up of the command line: the process ends if it cannot be used."""
        ...

    @property
    def takes_input(self) -> bool:
        """Whether further lines are wanted now; otherwise they stay unread."""
        ...

    def feed(self, line: str, now: float) -> list[Order]:
        """Handle a line, without its newline. At the end of the input it is `quit`."""
        ...

    def reported(self, report: Report) -> list[Order]:
        """Handle an interim report of the running search."""
        ...

    def searched(self, found: Found, now: float) -> list[Order]:
        """Handle the end of the search."""
        ...

    def still_preparing(self) -> list[Order]:
        """Note that the preparation takes longer than a second."""
        ...

    def prepared(self, setup: Setup, now: float) -> list[Order]:
        """Note that network and tree are ready."""
        ...

    def preparation_failed(self, reason: str, now: float) -> list[Order]:
        """Note that they cannot be used; the previous ones, if there are any, are still there."""
        ...
