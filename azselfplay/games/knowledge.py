"""Knowledge about a game beyond its rules, for players without a network, judges, exports and web pages.

Each game defines KNOWLEDGE in `games/GAME/knowledge.py`: a `Knowledge`, or for a game with variants a
function that returns the `Knowledge` of a variant. `Game.knowledge` names this module. It is imported on
request, because self-play does not need it. A game without such a module can still be played, trained,
matched and judged.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from azselfplay.games.boards import Clicks
from azselfplay.games.drawn import SIDES, clicks_of, look_of, names_of_cells, svg
from azselfplay.games.jit import jit
from azselfplay.games.spec import Game, State


@jit
def nothing(state: State) -> int:
    """Return 0: the default evaluation of a game without a heuristic."""
    return 0


@jit
def nothing_of_action(state: State, action: int) -> int:
    """Return 0: the default ordering score, for which all actions are equal."""
    return 0


@jit
def never(state: State, action: int) -> bool:
    """Return False: by default no action is noisy, and the quiescence search stands pat at once."""
    return False


Mark = Literal["", "?!", "?", "??"]
"""How bad a move is, as in chess annotations; "": not bad."""


class WrittenMove(NamedTuple):
    """A move as it is written into a file, in the game's notation."""

    move: str
    comment: str = ""
    others: Sequence[tuple[Sequence[str], str]] = ()
    """(line, comment) of alternative lines, each of one move or more."""
    value: float | None = None
    """Expected result after the move, for the first player, in [-1, 1]; each format writes it in its own
    unit. None: unknown."""
    mark: Mark = ""


class ReadGame(NamedTuple):
    """The main line of a game in a file, in the game's notation. Its moves have not been checked yet."""

    start: str
    """"" is the usual start."""
    moves: Sequence[str]
    outcome: int | None = None
    """The result given in the file, for the first player: +1, 0 or -1. None: the file gives none."""
    tags: Mapping[str, str] = MappingProxyType({})
    """Players, date, place and so on, as the format's `write` takes them."""
    other_rules: str = ""
    """How the file's rules differ from this game's (`komi 6.5`), in which case its result says little about
    this game."""
    agreed: int = 0
    """Number of last moves that only agree that the game is over (passes in Go). People then remove dead
    stones, so the result may differ from that of the final board."""


GameWriter = Callable[[Mapping[str, str], str, Sequence[WrittenMove], str], str]
"""(tags as in PGN, where White is the first player; start; the moves; last comment) -> the game as text.
Raises ValueError if a move is not legal."""


def tag_value(text: str) -> str:
    """Return a text as the value of a PGN tag, which is in quotation marks: not every reader knows escaped
    ones."""
    return text.replace('"', "'")


RESULTS = {1: "1-0", 0: "1/2-1/2", -1: "0-1"}
"""Outcomes for the first player, written as in chess."""


@dataclass(frozen=True)
class GameFormat:
    """A file format that programs for the game use."""

    name: str
    """Such as `PGN`."""
    suffixes: tuple[str, ...]
    """Of its files, such as `.pgn`."""
    begins: re.Pattern[str]
    """Matches the beginning of a file, after blanks. No position and no move of the game begins like that."""
    write: GameWriter
    read: Callable[[bytes], Iterator[ReadGame | ValueError]]
    """Yields the games of a file. For a game that cannot be read, it yields the error that says why."""
    between: str = ""
    """What separates the games of a file."""


@dataclass(frozen=True)
class Heuristic:
    """Jitted functions that evaluate positions without search, for the alpha-beta and greedy players.

    All values are from the point of view of the side to move; `evaluate` and `material` have the same unit
    (chess: centipawns). Without these functions, the players only see the ends of games.
    """

    evaluate: Callable[..., Any] = nothing
    """(state) -> int, the static evaluation at the leaves of alpha-beta."""
    material: Callable[..., Any] = nothing
    """(state) -> int, the material that the greedy player counts."""
    order_score: Callable[..., Any] = nothing_of_action
    """(state, action) -> int; larger is searched first."""
    is_noisy: Callable[..., Any] = never
    """(state, action) -> bool, whether the quiescence search tries the action."""
    sees_reply: bool = True
    """Whether the greedy player avoids moves that let the other side win at once."""


@dataclass(frozen=True)
class Known:
    """The exact result of a position in which the game continues, and the actions that keep it."""

    group: str
    """The group in reports that it counts for."""
    value: int
    """Result with best play, for the side to move: +1, 0 or -1."""
    keeps: frozenset[int]
    """Actions that keep it."""
    legal: int
    """Number of legal actions."""
    plies: int | None = None
    """Plies to the end with best play; None if plies are not counted."""
    best: frozenset[int] = frozenset()
    """The actions of `keeps` that win soonest or lose latest; empty if plies are not counted."""

    @property
    def matters(self) -> bool:
        """Whether some legal action gives away the best result."""
        return len(self.keeps) < self.legal

    def row(self, start: str = "", moves: Sequence[int] = (), longer: dict[int, int] | None = None) -> Row:
        """Return the position as a question that `moves` from `start` lead to."""
        return Row(**vars(self), start=start, moves=tuple(moves), longer=longer or {})


@dataclass(frozen=True)
class Row(Known):
    """A position with a known result, and with its past: a question to a network."""

    start: str = ""
    """In the game's notation; "" is the usual start."""
    moves: tuple[int, ...] = ()
    """Actions from there, so that the network sees the same history as in a game."""
    longer: dict[int, int] = field(default_factory=dict)
    """For actions that keep a won position: plies lost compared with the quickest win. Empty if not
    counted."""


class BadTruth(ValueError):
    """A file of known positions cannot be read; the text says what to do."""


WonRows = Callable[[int, int, Collection[Row]], list[Row]]
"""(count, seed, positions to exclude) -> positions."""


@dataclass(frozen=True)
class Solution:
    """The solved part of a game. The first call of `probe` or `rows` may take seconds."""

    covers: str
    """For people: which positions are known."""
    probe: Callable[[State], Known | None]
    """Returns what is known about a position in which the game continues; None if nothing is known, or if
    solving takes too long."""
    rows: Callable[[int, int], list[Row]]
    """(seed, most per group or 0: all) -> positions to ask a network about. Raises BadTruth."""
    groups: tuple[str, ...] = ()
    """Names of the groups, in the order of a game."""
    final_rows: Callable[[], list[Row]] | None = None
    """Other positions, for final judgements: nobody tunes on them. None: there are only those of `rows`."""
    watched_rows: Callable[[], list[Row]] | None = None
    """Positions that trainers watch in a game that is not solved from near its start. (In a game that is,
    they watch `rows`.) Raises BadTruth. None: there are none to watch."""
    final_watched_rows: Callable[[], list[Row]] | None = None
    """Other positions of the same kind, for final judgements. Raises BadTruth. None: `watched_rows` are
    used."""
    plays_whole_games: bool = True
    """Whether enough is known for a perfect player of whole games."""
    depth: int = 0
    """Search depth in plies of alpha-beta, with which the perfect player moves where nothing is known; 0:
    everything is known."""
    counts_plies: bool = False
    """Whether `Known.plies` and `Known.best` are set, as by endgame tables."""
    endings: Mapping[str, WonRows] = field(default_factory=dict)
    """By name of an ending with tables: a function that returns different won positions, with the winning
    side to move."""


@dataclass(frozen=True)
class Matches:
    """How networks are judged by matches (`lab.experiments.judges.matches`)."""

    opponents: tuple[str, ...] = ("random", "rollouts:100")
    """Player specs, weak to strong. The learning curve is measured against the first two."""
    opening_plies: int = 0
    """Random plies at the start of a game; 0: `play.openings.usual_plies`."""
    max_plies: int = 0
    """Plies after which a game is scored as a draw; 0: only the rules end it."""
    mate: str = ""
    """The name of the end reason for mate, in games that have it; wins by mate are counted separately."""


@dataclass(frozen=True)
class Words:
    """How people speak of a game."""

    sides: tuple[str, str] = ("the first player", "the second player")
    move: Callable[[State, int, int | None], str] | None = None
    """(state, a legal action, the action before it or None) -> the move as people write it (SAN in chess).
    None: the game's notation is used."""
    number: Callable[[State], int] | None = None
    """(state) -> the number of the next move, for games like chess in which one number covers a move of each
    side. None: every move has its own number."""
    read: Callable[[State, str], str] | None = None
    """(state, a move as people may write it) -> the move in the game's notation. Raises ValueError. None:
    only moves exactly as in `move` are read."""


@dataclass(frozen=True)
class Knowledge:
    """Everything about a game that self-play workers do not need."""

    heuristic: Heuristic = Heuristic()
    anchors: Mapping[str, float] = field(default_factory=dict)
    """Elo relative to `random` of fixed players, from weak to strong, measured by `play.ladder` and then kept
    constant. Empty: not measured yet."""
    book: Mapping[str, str] = field(default_factory=dict)
    """Openings for matches by name: moves from the usual start, in the game's notation."""
    read_start: Callable[[str], str] = str.strip
    """Converts a start position of an openings file to the game's notation."""
    svg: Callable[[State, str], bytes] | None = None
    """(state, the move that led to it, "" at the start) -> SVG of the board. None: a generic picture is drawn
    from the planes (`picture_of`)."""
    clicks: Clicks | None = None
    """The clickable areas of that picture. None: moves are chosen by their text, or, on the generic picture,
    by its own clicks. To change only the clicks of the generic picture: `replace(games.drawn.clicks_of(game),
    clicked=...)`."""
    words: Words = Words()
    formats: tuple[GameFormat, ...] = ()
    """The formats of its game files, the usual one first."""
    solution: Solution | None = None
    matches: Matches = Matches()


_known: dict[tuple[str, str], Knowledge] = {}
"""Cache of `knowledge_of`, by name and module."""


def knowledge_of(game: Game) -> Knowledge:
    """Return what is known about a game: at least the clickable areas of its generic picture."""
    key = game.name, game.knowledge
    if key not in _known:
        found = importlib.import_module(game.knowledge).KNOWLEDGE if game.knowledge else Knowledge()
        # For a game with variants KNOWLEDGE is a function.
        known: Knowledge = found if isinstance(found, Knowledge) else found(game)
        if known.svg is None and known.clicks is None:
            known = replace(known, clicks=clicks_of(game))
        _known[key] = known
    return _known[key]


def picture_of(game: Game) -> Callable[[State, str], bytes]:
    """Return the function that draws a game's board (`Knowledge.svg`): its own or the generic one."""
    return knowledge_of(game).svg or partial(svg, game)


def spots_of_cells(game: Game, state: State) -> list[str]:
    """Return by cell the name of its clickable area on the game's picture; [] if cells have none there."""
    known = knowledge_of(game)
    if known.clicks is None:
        return []
    if known.svg is None:
        names = names_of_cells(game)
    elif game.policy_planes == 1 or game.actions - game.extra_actions == game.cells:
        # The number of a cell is the number of the action there.
        names = ["".join(known.clicks.clicked(state, cell)[:1]) for cell in range(game.cells)]
    else:
        return []
    return names if {spot.name for spot in known.clicks.spots} >= set(names) else []


def sides_on_picture(game: Game) -> tuple[str, str]:
    """Return the names of the sides to show beside the picture. For a generic picture they include the
    colours of the men."""
    known = knowledge_of(game)
    first, second = known.words.sides
    if known.svg is not None or not look_of(game).kinds:
        return first, second
    if known.words.sides == Words.sides:
        return SIDES
    return f"{first} ({SIDES[0].lower()})", f"{second} ({SIDES[1].lower()})"
