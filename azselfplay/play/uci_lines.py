"""The lines of UCI and of its sibling USI: the differences between the two, options, commands, positions and
results.

A `Dialect` lists the differences between the two protocols, among them their options. `parse` turns a line
into a command or says what is wrong with it. As in other engines, words of `go` that make no sense are noted
and ignored, because a GUI that sends them still waits for a move. Pure. Values are converted to centipawns
with lc0's formula.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from azselfplay.play.orders import Found, Options, Report, Setup, shown

if TYPE_CHECKING:
    from azselfplay.games.spec import Game
    from azselfplay.play.thinker import OpenGame


@dataclass(frozen=True)
class Spec:
    """One option that a GUI can set: the field of Options or Setup that it sets, and its range."""

    name: str
    field: str
    kind: str
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()

    def parsed(self, text: str) -> Any:
        """Return the value that a GUI has set. Raises ValueError saying what is wrong with the text."""
        if self.kind == "string":
            return "" if text == "<empty>" else text
        if self.kind == "check":
            if text.lower() not in ("true", "false"):
                raise ValueError(f"option {self.name} is true or false, not {shown(text)}")
            return text.lower() == "true"
        if self.kind == "combo":
            if text not in self.choices:
                raise ValueError(f"option {self.name} is one of {', '.join(self.choices)}, not {shown(text)}")
            return text
        # `isdigit` alone would accept digits of other scripts, and numbers of any length.
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 12):
            raise ValueError(f"option {self.name} is a whole number, not {shown(text)}")
        if not self.low <= int(text) <= self.high:
            raise ValueError(f"option {self.name} lies between {self.low} and {self.high}, not {int(text)}")
        return int(text)


_IN_SETUP = frozenset(Setup.__dataclass_fields__)

SEARCHING = (
    Spec("WeightsFile", "weights", "string"),
    Spec("Backend", "backend", "combo", choices=("cpu", "cuda")),
    Spec("Threads", "threads", "spin", 0, 512),
)
"""Options that both protocols have under the same name."""


def _announced(options: Options, spec: Spec) -> str:
    """Return the present value of an option, as it is announced."""
    value = getattr(options.setup if spec.field in _IN_SETUP else options, spec.field)
    if spec.kind == "check":
        return str(value).lower()
    return str(value) or "<empty>"


_LEAVES = Spec("MinibatchSize", "leaves", "spin", 0, 1024)

_TEMPERATURE = Spec("Temperature", "temperature", "spin", 0, 1000)


@dataclass(frozen=True)
class Dialect:
    """One protocol of the family."""

    name: str
    """The word that begins a dialogue: `uci`. `uciok` and `ucinewgame` are derived from it."""
    position: str
    """The word for a position's notation: `fen`."""
    first: str
    """Letter of the first player's clock: `w` for White."""
    options: tuple[Spec, ...]
    counts: frozenset[str]
    """Words of `go` that are followed by a number, besides clocks."""
    no_move: str
    """The answer if there is no legal move."""
    null_move: str
    """The answer if nothing can be searched. No GUI mistakes it for a move, for resigning or for a claim."""
    claims: Mapping[str, str] = field(default_factory=dict)
    """The answer at end reasons by which the side to move claims a win."""
    resignation: str = ""
    """The answer that resigns; empty: the protocol has none."""
    mate_in_plies: bool = False
    """Whether mates are counted in plies instead of moves."""
    solves_mates: bool = True
    """Whether `go mate` searches; if not, it is answered as not implemented."""

    def with_options(self, *more: Spec) -> Dialect:
        """Return the dialect with further options."""
        return replace(self, options=(*self.options, *more))

    def announced(self, options: Options) -> list[str]:
        """Return the `option` lines, with the present values as defaults."""
        lines = []
        for spec in self.options:
            line = f"option name {spec.name} type {spec.kind} default {_announced(options, spec)}"
            if spec.kind == "spin":
                line += f" min {spec.low} max {spec.high}"
            if spec.kind == "combo":  # the present value may be one more, such as cuda:1
                choices = dict.fromkeys((*spec.choices, _announced(options, spec)))
                line += "".join(f" var {choice}" for choice in choices)
            lines.append(line)
        return lines

    def changed(self, options: Options, name: str, text: str) -> Options:
        """Return the options after a setoption. Raises ValueError saying what is wrong with it."""
        spec = next((spec for spec in self.options if spec.name.lower() == name.lower()), None)
        if spec is None:
            known = ", ".join(spec.name for spec in self.options)
            raise ValueError(f"unknown option {shown(name)}; known: {known}")
        if text == _announced(options, spec):  # a GUI may send back what was announced
            return options
        change: dict[str, Any] = {spec.field: spec.parsed(text)}
        if spec.field in _IN_SETUP:
            return replace(options, setup=replace(options.setup, **change))
        return replace(options, **change)


UCI = Dialect(
    name="uci",
    position="fen",
    first="w",
    options=(
        *SEARCHING,
        Spec("Hash", "hash_mib", "spin", 1, 262_144),
        _LEAVES,
        Spec("MultiPV", "multi_pv", "spin", 1, 218),
        Spec("SyzygyPath", "syzygy_path", "string"),
        Spec("UCI_ShowWDL", "show_wdl", "check"),
        Spec("UCI_AnalyseMode", "analyse_mode", "check"),
        Spec("Ponder", "ponder", "check"),
        Spec("Move Overhead", "overhead_ms", "spin", 0, 10_000),
        _TEMPERATURE,
    ),
    counts=frozenset({"movestogo", "depth", "nodes", "mate", "movetime"}),
    no_move="(none)",
    null_move="(none)",
)

USI = Dialect(
    name="usi",
    position="sfen",
    first="b",
    options=(
        *SEARCHING,
        Spec("USI_Hash", "hash_mib", "spin", 1, 262_144),
        _LEAVES,
        Spec("MultiPV", "multi_pv", "spin", 1, 593),
        Spec("AnalyseMode", "analyse_mode", "check"),
        Spec("USI_Ponder", "ponder", "check"),
        Spec("MoveOverhead", "overhead_ms", "spin", 0, 10_000),
        Spec("ResignPercent", "resign_percent", "spin", 0, 50),
        _TEMPERATURE,
    ),
    counts=frozenset({"depth", "nodes", "movetime", "byoyomi"}),
    no_move="resign",
    null_move="none",
    claims={"declaration": "win"},
    resignation="resign",
    mate_in_plies=True,
    solves_mates=False,
)


MAX_NUMBER = 10**12
"""Largest number that is accepted."""


class BadCommand(ValueError):
    """A line that cannot be understood; the text says why."""


@dataclass(frozen=True)
class SetOption:
    name: str
    value: str


@dataclass(frozen=True)
class Position:
    start: str
    """FEN or SFEN; empty: the usual start."""
    moves: tuple[str, ...]


@dataclass(frozen=True)
class Go:
    """Times are in milliseconds, as in the protocol; None: not given. Without any limit, and without `notes`,
    the search ends at `stop`."""

    searchmoves: tuple[str, ...] = ()
    wtime: int | None = None
    btime: int | None = None
    winc: int = 0
    binc: int = 0
    movestogo: int = 0
    depth: int = 0
    nodes: int = 0
    mate: int = 0
    movetime: int | None = None
    byoyomi: int = 0
    infinite: bool = False
    ponder: bool = False
    notes: tuple[str, ...] = ()
    """Ignored words, and why they are ignored."""

    @property
    def is_limited(self) -> bool:
        """Whether a limit ends the search."""
        counted = self.depth or self.nodes or self.mate or self.byoyomi
        return bool(counted) or not (self.wtime is None and self.btime is None and self.movetime is None)


class Word(Enum):
    """A command whose arguments, if any, do not matter here."""

    HELLO = auto()
    """`uci` or `usi`."""
    IS_READY = auto()
    NEW_GAME = auto()
    """`ucinewgame` or `usinewgame`."""
    STOP = auto()
    PONDER_HIT = auto()
    GAME_OVER = auto()
    NO_MATE = auto()
    """`go mate` in a dialect that does not search for mates."""
    SHOW_BOARD = auto()
    QUIT = auto()
    IGNORED = auto()


Command = Word | SetOption | Position | Go

_WORDS = {
    "isready": Word.IS_READY,
    "stop": Word.STOP,
    "ponderhit": Word.PONDER_HIT,
    "gameover": Word.GAME_OVER,
    "d": Word.SHOW_BOARD,
    "quit": Word.QUIT,
    "debug": Word.IGNORED,
    "register": Word.IGNORED,
}
"""Words that both protocols have."""

_CLOCKS = frozenset({"wtime", "btime", "winc", "binc"})

_TIMES = _CLOCKS | {"movetime", "byoyomi"}

_FLAGS = frozenset({"infinite", "ponder"})


def parse(line: str, dialect: Dialect = UCI) -> Command | None:
    """Return the command in a line, None for an empty line. Raises BadCommand."""
    words = line.split()
    if not words:
        return None
    name, arguments = words[0], words[1:]
    words_of_dialect = {dialect.name: Word.HELLO, f"{dialect.name}newgame": Word.NEW_GAME, **_WORDS}
    if name in words_of_dialect:
        return words_of_dialect[name]
    if name == "setoption":
        if arguments[:1] != ["name"]:
            raise BadCommand("setoption is written: setoption name NAME [value VALUE]")
        rest = arguments[1:]
        # Names and values may contain blanks; only the word `value` separates them.
        cut = rest.index("value") if "value" in rest else len(rest)
        if cut == 0:
            raise BadCommand("setoption without a name")
        return SetOption(" ".join(rest[:cut]), " ".join(rest[cut + 1 :]))
    if name == "position":
        cut = arguments.index("moves") if "moves" in arguments else len(arguments)
        head, moves = arguments[:cut], tuple(arguments[cut + 1 :])
        if head == ["startpos"]:
            return Position("", moves)
        if len(head) > 1 and head[0] == dialect.position:
            return Position(" ".join(head[1:]), moves)
        text = f"{dialect.position} {dialect.position.upper()}"
        raise BadCommand(f"position is written: position startpos|{text} [moves MOVE ...]")
    if name != "go":
        raise BadCommand(f"unknown command {shown(name)}")
    # The protocol has a special answer to it.
    if arguments[:1] == ["mate"] and not dialect.solves_mates:
        return Word.NO_MATE
    return _go(arguments, dialect.counts)


def _go(words: list[str], counts: frozenset[str]) -> Go:
    """Return the command without the words that make no sense; each of these gets a note."""
    # Collect the words first: if a word comes twice, the second one counts, as in other engines.
    found: dict[str, Any] = {}
    notes, names = [], set()
    known = _CLOCKS | counts | _FLAGS | {"searchmoves"}
    groups: list[tuple[str, list[str]]] = [("", [])]  # each known word with the words up to the next one
    for word in words:
        if word in known:
            groups.append((word, []))
        else:
            groups[-1][1].append(word)
    for name, values in groups:
        if name:
            names.add(name)
        rest = values
        if name in _FLAGS:
            found[name] = True
        elif name == "searchmoves":
            found[name], rest = tuple(values), []
        elif name:
            text, *rest = values or [""]
            number = re.fullmatch(r"(-?)([0-9]{1,15})(\.[0-9]{0,15})?", text)
            # A time may have a fraction of a millisecond, which is dropped. Some GUIs send negative times.
            if number is None or (number[3] and name not in _TIMES):
                notes.append(f"go {name} needs a whole number, not {shown(text)}")
            elif int(number[2]) > MAX_NUMBER or (number[1] and int(number[2]) and name not in _CLOCKS):
                notes.append(f"go {name} {text} is out of range")
            else:
                found[name] = 0 if number[1] else int(number[2])
        if rest:
            notes.append(f"unknown in go: {shown(' '.join(rest))}")
    go = Go(**found)
    # A GUI that sends only meaningless words still waits for a move; a bare `go` is infinite.
    has_words = bool(notes or names - _FLAGS - {"searchmoves"})
    if has_words and not go.is_limited and not go.infinite:
        notes.append("no limit is left in go: the move is given after one simulation, or after --nodes")
    return replace(go, notes=tuple(notes))


class LastPosition:
    """The last valid position, and why a later one was refused.

    If the new moves extend the old ones, as they do during a game, the game is extended instead of replayed.
    """

    def __init__(self, game: Game) -> None:
        from azselfplay.play.thinker import OpenGame  # imports numpy: not on the way to --help

        self._opened: Callable[[str], OpenGame] = lambda start: OpenGame(game, start)
        self.game_history = self._opened("")
        self.refusal = ""
        """Why the GUI's position is unknown; empty: `game_history` has the GUI's position."""
        self._moves: tuple[str, ...] = ()

    def set(self, position: Position) -> None:
        """Set a position. Raises ValueError, and keeps the old one, if it is impossible or a move is not
        legal."""
        from azselfplay.play.thinker import MOST_MOVES

        if len(position.moves) > MOST_MOVES:
            raise ValueError(f"a game of {len(position.moves)} moves; at most {MOST_MOVES} are taken")
        # A GUI sends all moves each time, and replaying hundreds of moves would cost time on the clock.
        known = len(self._moves)
        if position.start == self.game_history.start and position.moves[:known] == self._moves:
            self._extend(self.game_history, position.moves, known)
        else:
            game_history = self._opened(position.start)
            self._extend(game_history, position.moves, 0)
            self.game_history = game_history
        self._moves = position.moves
        self.refusal = ""

    def _extend(self, game_history: OpenGame, moves: tuple[str, ...], known: int) -> None:
        try:
            for number in range(known, len(moves)):
                game_history.play_text(moves[number])
        except ValueError as error:
            # The old position stays valid, because a command that fails changes nothing.
            game_history.take_back(known)
            raise ValueError(f"move {number + 1}, {shown(moves[number])}: {error}") from error


def score_text(value: float, proof: int, *, in_plies: bool = False) -> str:
    """Return `cp N`, or `mate N` if `proof` (plies to the win or minus plies to the loss) is known.

    N counts moves, or plies with `in_plies`.
    """
    # USI counts plies, UCI counts moves.
    if proof and in_plies:
        return f"mate {proof}"
    if proof:
        # The winner makes the last move, so its plies are odd, and the loser's even.
        return f"mate {(proof + 1) // 2 if proof > 0 else -(-proof // 2)}"
    from azselfplay.games.boards import centipawns  # imports numpy: not on the way to --help

    return f"cp {centipawns(value)}"


def wdl_per_mille(value: float, draw: float, proof: int = 0) -> tuple[int, int, int]:
    """Return the per mille of win, draw and loss for a searched `value`.

    A tree stores one value per move, not win/draw/loss. So the draw share is the network's draw probability
    at the root, or less if the value does not allow that much.
    """
    if proof:
        return (1000, 0, 0) if proof > 0 else (0, 0, 1000)
    # With a value v, the share of draws is at most 1 - |v|.
    drawn = max(0.0, min(draw, 1.0 - abs(value)))
    # These follow from win + loss = 1 - draws and win - loss = value.
    win = round(1000 * (1.0 - drawn + value) / 2)
    loss = round(1000 * (1.0 - drawn - value) / 2)
    # Draws are the rest, so that the three always sum to 1000.
    return win, 1000 - win - loss, loss


def info_lines(report: Report, dialect: Dialect) -> Iterable[str]:
    """Return the `info` lines of a report: one for each move."""
    if report.note:
        yield f"info string {report.note}"
    if report.outcome is not None:
        yield f"info depth 0 score {'cp 0' if report.outcome == 0 else 'mate 0'}"
    progress = report.progress
    speed = round(progress.simulations / progress.seconds) if progress.seconds > 0 else 0
    for number, line in enumerate(report.lines, 1):
        score = score_text(line.value, line.proof, in_plies=dialect.mate_in_plies)
        if report.draw is not None:
            score += " wdl " + " ".join(map(str, wdl_per_mille(line.value, report.draw, line.proof)))
        yield (
            f"info depth {max(1, progress.depth)} seldepth {max(1, progress.deepest)} multipv {number} "
            f"score {score} nodes {progress.simulations} nps {speed} "
            f"hashfull {progress.hashfull} tbhits 0 "
            f"time {round(1000 * progress.seconds)} pv {' '.join(line.moves)}"
        )


def best_move_line(found: Found, dialect: Dialect, *, gives_up: bool) -> str:
    """Return the `bestmove` line; `gives_up`: resign, if the protocol has a word for it."""
    if not found.moves:
        return f"bestmove {dialect.claims.get(found.claim, dialect.no_move)}"
    if gives_up and dialect.resignation:
        return f"bestmove {dialect.resignation}"
    return f"bestmove {found.moves[0]}" + (f" ponder {found.moves[1]}" if len(found.moves) > 1 else "")
