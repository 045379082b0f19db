"""What is known about a game beyond its rules: for players without a network, judges, exports and pages.

Each game defines it in `games/GAME/knowledge.py`, as KNOWLEDGE: a `Knowledge`, or for a game with variants a
function that returns the one of a game. `Game.knowledge` names this module, which is imported on request:
self-play needs none of it. A game without one can still be played, trained, matched and judged.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from azselfplay.games.boards import Clicks
from azselfplay.games.drawn import SIDES, clicks_of, look_of, svg
from azselfplay.games.jit import jit
from azselfplay.games.spec import Game, Positions, State

Say = Callable[[str], None]
"""Called with a line of progress."""


@jit
def nothing(state: State) -> int:
    """The evaluation of a game that has none."""
    return 0


@jit
def nothing_of_action(state: State, action: int) -> int:
    """The ordering score of a game that has none: all actions are equal."""
    return 0


@jit
def never(state: State, action: int) -> bool:
    """No action is noisy: the quiescence search stands pat at once."""
    return False


Mark = Literal["", "?!", "?", "??"]
"""How bad a move is, as chess players write it; "": not bad."""


class WrittenMove(NamedTuple):
    """A move as it is written into a file, in the game's notation."""

    move: str
    comment: str = ""
    others: Sequence[tuple[Sequence[str], str]] = ()
    """(line, comment) of lines that could have been played instead, of one move or more."""
    value: float | None = None
    """Expected result after the move, for the first player, in [-1, 1]; each format writes it as its programs
    show it. None: unknown."""
    mark: Mark = ""


class ReadGame(NamedTuple):
    """The main line of a game of a file, in the game's notation. Nobody has checked its moves yet."""

    start: str
    """"" is the usual start."""
    moves: Sequence[str]
    outcome: int | None = None
    """The result that the file gives, for the first player: +1, 0 or -1. None: it gives none."""
    tags: Mapping[str, str] = MappingProxyType({})
    """Who played, when and where, as the format's `write` takes it."""
    other_rules: str = ""
    """How the file's rules differ from this game's (`komi 6.5`), so that its result says little of ours."""
    agreed: int = 0
    """The last moves that only say that the game is over (passes of Go). People then take dead stones off, so
    the result may be another than the board's."""


GameWriter = Callable[[Mapping[str, str], str, Sequence[WrittenMove], str], str]
"""(tags of PGN, whose White is the first player; start; the moves; last comment) -> the game as text. Raises
ValueError if a move is not legal."""


RESULTS = {1: "1-0", 0: "1/2-1/2", -1: "0-1"}
"""Outcomes for the first player, written as in chess."""


@dataclass(frozen=True)
class GameFormat:
    """A format of game files that programs for the game use."""

    name: str
    """`PGN`"""
    suffixes: tuple[str, ...]
    """Of its files: `.pgn`"""
    begins: re.Pattern[str]
    """How a file begins, after blanks. No position and no move of the game does."""
    write: GameWriter
    read: Callable[[bytes], Iterator[ReadGame | ValueError]]
    """The games of a file, one after the other. One that cannot be read is the error that says why."""
    between: str = ""
    """What separates the games of a file."""


@dataclass(frozen=True)
class Heuristic:
    """Jitted functions that give positions a value without search, for alpha-beta and greedy players.

    All of them are from the point of view of the side to move; `evaluate` and `material` have the same unit
    (chess: centipawns). Without them, these players only see the ends of games.
    """

    evaluate: Callable[..., Any] = nothing
    """(state) -> int, the value at which alpha-beta stops searching."""
    material: Callable[..., Any] = nothing
    """(state) -> int, the material that the greedy player counts."""
    order_score: Callable[..., Any] = nothing_of_action
    """(state, action) -> int; larger is searched first."""
    is_noisy: Callable[..., Any] = never
    """(state, action) -> bool, whether the quiescence search continues with it."""
    sees_reply: bool = True
    """Whether the greedy player avoids moves after which the other side wins at once."""


class Judged:
    """The common part of `Known` and `Row`."""

    keeps: frozenset[int]
    legal: int

    @property
    def matters(self) -> bool:
        """Whether some legal action loses the best result."""
        return len(self.keeps) < self.legal


@dataclass(frozen=True)
class Known(Judged):
    """The truth about a position in which the game continues."""

    group: str
    """The group in reports that it counts for."""
    value: int
    """Result with best play, for the side to move: +1, 0 or -1."""
    keeps: frozenset[int]
    """Actions that keep it."""
    legal: int
    """Number of legal actions."""
    plies: int | None = None
    """Plies to the end with best play; None where they are not counted."""
    best: frozenset[int] = frozenset()
    """Those of `keeps` that win soonest or lose latest; empty where plies are not counted."""

    def row(self, start: str = "", moves: Sequence[int] = (), longer: dict[int, int] | None = None) -> Row:
        """The position as a question: it is reached by `moves` from `start`."""
        return Row(self.group, start, tuple(moves), self.value, self.keeps, self.legal, longer or {})


@dataclass(frozen=True)
class Row(Judged):
    """A position of known truth with its past, used as a question to a network."""

    group: str
    """The group in reports that it counts for."""
    start: str
    """In the game's notation; "" is the usual start."""
    moves: tuple[int, ...]
    """Actions from there, so that the network sees the same history as in a game."""
    value: int
    """Result with best play, for the side to move."""
    keeps: frozenset[int]
    """Actions that keep it."""
    legal: int
    """Number of legal actions."""
    longer: dict[int, int]
    """For actions that keep a won position: plies lost compared with the quickest win. Empty if not
    counted."""


AnyRow = TypeVar("AnyRow")


class Drawn(Generic[AnyRow]):
    """Positions that are drawn until each group has `wanted`, at most `most_quiet` of them such that every
    move keeps the result."""

    def __init__(self, groups: Iterable[str], wanted: int, most_quiet: int) -> None:
        self._taken: dict[str, list[AnyRow]] = {group: [] for group in groups}
        self._quiet = dict.fromkeys(self._taken, 0)
        self._wanted, self._most_quiet = wanted, most_quiet

    def count(self, group: str) -> int:
        return len(self._taken[group])

    def has_room(self, group: str, *, matters: bool = True) -> bool:
        """Whether the group needs more positions in which the move matters, or does not."""
        return self.count(group) < self._wanted and (matters or self._quiet[group] < self._most_quiet)

    def take(self, group: str, row: AnyRow, *, matters: bool) -> None:
        self._taken[group].append(row)
        self._quiet[group] += not matters

    @property
    def is_full(self) -> bool:
        return not any(map(self.has_room, self._taken))

    @property
    def rows(self) -> list[AnyRow]:
        """All that were taken, in the order of the groups."""
        return [row for rows in self._taken.values() for row in rows]


class BadTruth(ValueError):
    """A file of known positions cannot be read; the text says what to do."""


class Check(NamedTuple):
    """A fact about the truth that is known from another source."""

    what: str
    found: object
    expected: object


@dataclass(frozen=True)
class Labels:
    """The input from which `azplay known` makes a file of labelled positions."""

    seed: int
    per_group: int
    """Positions of each group."""
    apart_from: Path | None = None
    """A file whose positions, and their mirror images, are excluded."""


WonRows = Callable[[int, int, Collection[Row]], list[Row]]
"""(count, seed, apart from these) -> positions."""


@dataclass(frozen=True)
class Solution:
    """What is solved of a game. `probe`, `rows` and `checks` may take seconds when they are first called."""

    covers: str
    """For people: which positions are known."""
    probe: Callable[[State], Known | None]
    """Returns the truth about a position in which the game continues; None where it is unknown, or takes too
    long."""
    rows: Callable[[int, int], list[Row]]
    """(seed, most of each group, 0: all) -> positions to ask a network about. Raises BadTruth."""
    checks: Callable[[Path | None, Say], Iterator[Check]]
    """(a file that `label` made, None: those of the program; progress) -> the checks."""
    groups: tuple[str, ...] = ()
    """Names of the groups, in the order of a game."""
    final_rows: Callable[[], list[Row]] | None = None
    """Other positions, for final judgements: nobody tunes on them. None: there are no others than `rows`."""
    label: Callable[[Labels, Say], bytes] | None = None
    """Draws and labels positions anew. Returns the contents of a file."""
    probe_with_past: Callable[[Positions], Known | None] | None = None
    """The truth about the newest of these positions, a whole history, where the result depends on that
    (superko); None: `probe` is enough."""
    watched_rows: Callable[[], list[Row]] | None = None
    """Positions that trainers watch in a game that is not solved from near its start (there, `rows` serve).
    Raises BadTruth. None: they watch none."""
    final_watched_rows: Callable[[], list[Row]] | None = None
    """Others of their kind, for final judgements. Raises BadTruth. None: `watched_rows` serve."""
    plays_whole_games: bool = True
    """Whether enough is known for a player that never errs."""
    depth: int = 0
    """Plies of alpha-beta with which that player chooses where nothing is known; 0: everything is known."""
    counts_plies: bool = False
    """Whether `Known.plies` and `Known.best` are known: the tables of endgames."""
    endings: Mapping[str, WonRows] = field(default_factory=dict)
    """Endings with tables, by name: they return different won positions, with the winning side to move."""

    def known(self, positions: Positions) -> Known | None:
        """The truth about the newest of `positions` [n, state_words], the history of a game that
        continues."""
        # Only superko makes the past matter.
        return self.probe(positions[-1]) if self.probe_with_past is None else self.probe_with_past(positions)


@dataclass(frozen=True)
class Odds:
    """Positions in which one side has so much more material that it should win."""

    name: str
    """What the extra material is, for people: `an extra queen`."""
    starts: tuple[str, ...]
    """Positions in the game's notation; each side is ahead equally often."""
    lead: int
    """Least lead by `Heuristic.material` that must remain after a few random moves."""


@dataclass(frozen=True)
class Matches:
    """How networks are judged by matches (`lab.experiments.judges.matches`)."""

    opponents: tuple[str, ...] = ("random", "rollouts:100")
    """Player specs, weak to strong. The learning curve is measured against the first two."""
    opening_plies: int = 0
    """Random plies that begin a game; 0: `play.openings.usual_plies`."""
    max_plies: int = 0
    """Plies after which a game is drawn; 0: only the rules end it."""
    mate: str = ""
    """The name of the end reason that is a mate, in games that have one: such wins are counted separately."""
    odds: Odds | None = None


@dataclass(frozen=True)
class Words:
    """How people speak of a game."""

    sides: tuple[str, str] = ("the first player", "the second player")
    move: Callable[[State, int, int | None], str] | None = None
    """(state, a legal action, the action before it or None) -> the move as people write it (SAN in chess).
    None: as in the game's notation."""
    number: Callable[[State], int] | None = None
    """(state) -> the number of its move, for games like chess in which a move of each side has the same.
    None: every move has its own."""


@dataclass(frozen=True)
class Knowledge:
    """Everything about a game that workers do not need."""

    heuristic: Heuristic = Heuristic()
    anchors: Mapping[str, float] = field(default_factory=dict)
    """Elo over `random` of players that never change, weak to strong; measured by
    `play.ladder` and then fixed. Empty: not measured yet."""
    book: Mapping[str, str] = field(default_factory=dict)
    """Openings for matches by name: moves from the usual start, in the game's notation."""
    read_start: Callable[[str], str] = str.strip
    """Converts a start position of an openings file to the game's notation."""
    svg: Callable[[State, str], bytes] | None = None
    """(state, the move that led to it, "" at the start) -> picture of a board. None: one that is drawn from
    the planes (`picture_of`)."""
    clicks: Clicks | None = None
    """Where to click on that picture. None: moves are chosen by their text, or as the drawn picture has it.
    Clicks of one's own on that one: `replace(games.drawn.clicks_of(game), clicked=...)`."""
    words: Words = Words()
    formats: tuple[GameFormat, ...] = ()
    """The formats of its game files, the usual one first."""
    solution: Solution | None = None
    matches: Matches = Matches()


_known: dict[tuple[str, str], Knowledge] = {}
"""What is known about games, by name and module: made once."""


def knowledge_of(game: Game) -> Knowledge:
    """What is known about a game: at least where its drawn picture is clicked."""
    key = game.name, game.knowledge
    if key not in _known:
        found = importlib.import_module(game.knowledge).KNOWLEDGE if game.knowledge else Knowledge()
        # A game with variants has a function instead.
        known: Knowledge = found if isinstance(found, Knowledge) else found(game)
        if known.svg is None and known.clicks is None:
            known = replace(known, clicks=clicks_of(game))
        _known[key] = known
    return _known[key]


def picture_of(game: Game) -> Callable[[State, str], bytes]:
    """The picture of a game's board (`Knowledge.svg`), its own or a drawn one."""
    return knowledge_of(game).svg or partial(svg, game)


def sides_on_picture(game: Game) -> tuple[str, str]:
    """How people call the sides beside that picture: in a drawn one by the colour of their men, too."""
    known = knowledge_of(game)
    first, second = known.words.sides
    if known.svg is not None or not look_of(game).kinds:
        return first, second
    if known.words.sides == Words.sides:
        return SIDES
    return f"{first} ({SIDES[0].lower()})", f"{second} ({SIDES[1].lower()})"
