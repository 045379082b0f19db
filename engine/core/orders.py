"""What a protocol and the driver say to each other: options, events and orders.

A protocol is a pure state machine (`Engine`): events come with the time, and orders are returned. The driver
owns network, tree and clock, and carries out the orders. Options are frozen dataclasses, and a table by which
a protocol announces and sets them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from engine.core.report import Found, Report
from games.names import DEFAULT_GAME


@dataclass(frozen=True)
class Setup:
    """Options that take a while to change, because the network is loaded and the tree is made again."""

    weights: str = ""
    """Weights file; empty: an untrained network."""
    backend: str = "cpu"
    threads: int = 0
    """CPU threads of the network; 0: one per core."""
    hash_mib: int = 256
    """Memory of the tree, in MiB."""
    leaves: int = 0
    """Most positions evaluated together; 0: what suits the device."""
    search: str = "puct"
    """A selection, or a selection with settings (`engine.search_choice`). The option sets only the
    selection."""
    game: str = DEFAULT_GAME
    """Name of the game played. The network may be for another variant with the same board."""


@dataclass(frozen=True)
class Options:
    setup: Setup = Setup()
    multi_pv: int = 1
    show_wdl: bool = False
    analyse_mode: bool = False
    ponder: bool = False
    """Whether the GUI may ponder. It changes nothing here."""
    overhead_ms: int = 30
    """Milliseconds lost between engine and GUI on each move."""
    temperature: int = 0
    """Percent. Moves are drawn from visits ** (100 / temperature); 0 plays the best move."""
    resign_percent: int = 0
    """The engine resigns when its chances (half for a draw) are below this many percent; 0: never."""

    def resigns_at(self, value: float) -> bool:
        """Whether to resign at a position of `value` in [-1, 1] for the side to move."""
        return 50 * (value + 1) < self.resign_percent


@dataclass(frozen=True)
class Spec:
    """One option that a GUI can set: the field of Options or Setup that it sets, and its range."""

    name: str
    field: str
    kind: str
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()


_IN_SETUP = frozenset(Setup.__dataclass_fields__)


@dataclass(frozen=True)
class OptionTable:
    """The options of one protocol."""

    specs: Sequence[Spec]

    def announced(self, options: Options) -> list[str]:
        """The `option` lines, with the present values as defaults."""
        return [_line(spec, _value(options, spec)) for spec in self.specs]

    def changed(self, options: Options, name: str, text: str) -> Options:
        """The options after a setoption. Raises ValueError saying what is wrong with it."""
        spec = next((spec for spec in self.specs if spec.name.lower() == name.lower()), None)
        if spec is None:
            known = ", ".join(spec.name for spec in self.specs)
            raise ValueError(f"unknown option {shown(name)}; known: {known}")
        change: dict[str, Any] = {spec.field: _parsed(spec, text)}
        if spec.field in _IN_SETUP:
            return replace(options, setup=replace(options.setup, **change))
        return replace(options, **change)


def shown(text: str, length: int = 60) -> str:
    """Foreign text, shortened and escaped for one line of output."""
    return ascii(text if len(text) <= length else text[:length] + "...")


def _value(options: Options, spec: Spec) -> Any:
    return getattr(options.setup if spec.field in _IN_SETUP else options, spec.field)


def _line(spec: Spec, value: Any) -> str:
    default = str(value).lower() if spec.kind == "check" else str(value) or "<empty>"
    if spec.kind == "combo":
        default = default.partition("?")[0]  # the option's choices have no settings
    line = f"option name {spec.name} type {spec.kind} default {default}"
    if spec.kind == "spin":
        line += f" min {spec.low} max {spec.high}"
    return line + "".join(f" var {choice}" for choice in spec.choices)


def _parsed(spec: Spec, text: str) -> Any:
    if spec.kind == "string":
        return "" if text == "<empty>" else text
    if spec.kind == "check":
        if text.lower() not in ("true", "false"):
            raise ValueError(f"option {spec.name} is true or false, not {shown(text)}")
        return text.lower() == "true"
    if spec.kind == "combo":
        if text not in spec.choices:
            raise ValueError(f"option {spec.name} is one of {', '.join(spec.choices)}, not {shown(text)}")
        return text
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 12):
        raise ValueError(f"option {spec.name} is a whole number, not {shown(text)}")
    if not spec.low <= int(text) <= spec.high:
        raise ValueError(f"option {spec.name} lies between {spec.low} and {spec.high}, not {int(text)}")
    return int(text)


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
