"""UCI and USI as lines: commands, the position that they set, and results in their words. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from engine.core.open_game import MOST_PLIES, OpenGame
from engine.core.orders import shown
from engine.core.report import Found, Line, Report
from engine.uci.dialect import UCI, Dialect
from games.spec import Game

MOST = 10**12
"""Largest number that is accepted."""


class BadCommand(ValueError):
    """A line that cannot be understood; the text says why."""


@dataclass(frozen=True)
class Simple:
    """A command whose arguments, if any, do not matter here.

    Names are as in the protocol, except `hello` for `uci` and `usi`, `new game` for `ucinewgame` and
    `usinewgame`, and `no mate` for an unsupported search for mates.
    """

    name: str


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
    """What is ignored, and why."""

    @property
    def is_limited(self) -> bool:
        """Whether a limit ends the search."""
        counted = self.depth or self.nodes or self.mate or self.byoyomi
        return bool(counted) or not (self.wtime is None and self.btime is None and self.movetime is None)


Command = Simple | SetOption | Position | Go

_SIMPLE = frozenset({"isready", "stop", "ponderhit", "gameover", "quit", "d", "debug", "register"})
_CLOCKS = frozenset({"wtime", "btime", "winc", "binc"})
_TIMES = _CLOCKS | {"movetime", "byoyomi"}
_FLAGS = frozenset({"infinite", "ponder"})


def parse(line: str, dialect: Dialect = UCI) -> Command | None:
    """The command in a line, None for an empty one. Raises BadCommand."""
    words = line.split()
    if not words:
        return None
    name, arguments = words[0], words[1:]
    simple = {dialect.name: "hello", f"{dialect.name}newgame": "new game"} | {one: one for one in _SIMPLE}
    if name in simple:
        return Simple(simple[name])
    if name == "setoption":
        return _set_option(arguments)
    if name == "position":
        return _position(arguments, dialect)
    if name != "go":
        raise BadCommand(f"unknown command {shown(name)}")
    if arguments[:1] == ["mate"] and not dialect.solves_mates:
        return Simple("no mate")
    return _go(arguments, dialect.counts)


def _set_option(words: list[str]) -> SetOption:
    if not words or words[0] != "name":
        raise BadCommand("setoption is written: setoption name NAME [value VALUE]")
    rest = words[1:]
    cut = rest.index("value") if "value" in rest else len(rest)
    if cut == 0:
        raise BadCommand("setoption without a name")
    return SetOption(" ".join(rest[:cut]), " ".join(rest[cut + 1 :]))


def _position(words: list[str], dialect: Dialect) -> Position:
    cut = words.index("moves") if "moves" in words else len(words)
    head, moves = words[:cut], tuple(words[cut + 1 :])
    if head == ["startpos"]:
        return Position("", moves)
    if len(head) > 1 and head[0] == dialect.position:
        return Position(" ".join(head[1:]), moves)
    text = f"{dialect.position} {dialect.position.upper()}"
    raise BadCommand(f"position is written: position startpos|{text} [moves MOVE ...]")


def _go(words: list[str], counts: frozenset[str]) -> Go:
    """The command, without the words that mean nothing: for each of them there is a note."""
    go, notes, names = Go(), [], set()
    for name, values in _groups(words, _CLOCKS | counts | _FLAGS | {"searchmoves"}):
        names.add(name)
        rest = values
        if name in _FLAGS:
            go = _with(go, name, True)
        elif name == "searchmoves":
            go, rest = replace(go, searchmoves=tuple(values)), []
        elif name:
            rest = values[1:]
            try:
                go = _with(go, name, _number(name, values[0] if values else ""))
            except BadCommand as error:
                notes.append(str(error))
        if rest:
            notes.append(f"unknown in go: {shown(' '.join(rest))}")
    has_words = bool(notes or names - _FLAGS - {"searchmoves"})
    if has_words and not go.is_limited and not go.infinite:
        notes.append("no limit is left in go: the move is given after one simulation, or after --nodes")
    return replace(go, notes=tuple(notes))


def _groups(words: list[str], known: frozenset[str]) -> Iterator[tuple[str, list[str]]]:
    """Each known word with the words up to the next one; first "" with those before the first, if any."""
    group: tuple[str, list[str]] = ("", [])
    for word in words:
        if word not in known:
            group[1].append(word)
            continue
        if group != ("", []):
            yield group
        group = (word, [])
    if group != ("", []):
        yield group


def _with(go: Go, field: str, value: int | bool) -> Go:
    change: dict[str, Any] = {field: value}
    return replace(go, **change)


def _number(name: str, text: str) -> int:
    """The number after a word of `go`. Times may have a fraction of a millisecond, which is dropped."""
    found = re.fullmatch(r"(-?)([0-9]{1,15})(\.[0-9]{0,15})?", text)
    if found is None or (found[3] and name not in _TIMES):
        raise BadCommand(f"go {name} needs a whole number, not {shown(text)}")
    value = int(found[2])
    if value > MOST or (found[1] and value and name not in _CLOCKS):
        raise BadCommand(f"go {name} {text} is out of range")
    return 0 if found[1] else value  # some GUIs send negative times


# The position that the GUI has set. If the new moves extend the old ones, it is extended rather than
# replayed.


class Board:
    """The last valid position, and why a later one was refused."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.game_history = OpenGame(game)
        self.refusal = ""
        """Why the GUI's position is unknown; empty: it is that of `game_history`."""
        self._moves: tuple[str, ...] = ()

    def set(self, position: Position) -> None:
        """Set a position. Raises ValueError, and keeps the old one, if it is impossible or a move is not
        legal."""
        if len(position.moves) > MOST_PLIES:
            raise ValueError(f"a game of {len(position.moves)} moves; at most {MOST_PLIES} are taken")
        known = len(self._moves)
        if position.start == self.game_history.start and position.moves[:known] == self._moves:
            self._extend(self.game_history, position.moves, known)
        else:
            game_history = OpenGame(self.game, position.start)
            self._extend(game_history, position.moves, 0)
            self.game_history = game_history
        self._moves = position.moves
        self.refusal = ""

    def _extend(self, game_history: OpenGame, moves: tuple[str, ...], known: int) -> None:
        try:
            for number in range(known, len(moves)):
                game_history.play_text(moves[number])
        except ValueError as error:
            game_history.take_back(known)
            raise ValueError(f"move {number + 1}, {shown(moves[number])}: {error}") from error


# A search's results in the words of UCI and USI.

CENTIPAWN_SCALE, CENTIPAWN_BEND = 90.0, 1.5637541897
"""lc0's formula of versions 0.20 to 0.29: 90 tan(1.5637541897 value); a value of 0.5 is 89 centipawns."""


def centipawns(value: float) -> int:
    """A value in [-1, 1] in centipawns; +-12,780 at the ends."""
    return round(CENTIPAWN_SCALE * math.tan(CENTIPAWN_BEND * max(-1.0, min(1.0, value))))


def score_text(value: float, proof: int, *, in_plies: bool = False) -> str:
    """`cp N`, or `mate N` if `proof` (plies to the win or minus plies to the loss) is known.

    N counts moves, or plies with `in_plies`.
    """
    if proof and in_plies:
        return f"mate {proof}"
    if proof:
        return f"mate {(proof + 1) // 2 if proof > 0 else -(-proof // 2)}"
    return f"cp {centipawns(value)}"


def wdl_per_mille(value: float, draw: float, proof: int = 0) -> tuple[int, int, int]:
    """Per mille of win, draw and loss, for a searched `value`.

    A tree stores one value per move, not win/draw/loss. So the draw share is the network's at the root, or
    less where the value does not allow that much.
    """
    if proof:
        return (1000, 0, 0) if proof > 0 else (0, 0, 1000)
    drawn = max(0.0, min(draw, 1.0 - abs(value)))
    win = round(1000 * (1.0 - drawn + value) / 2)
    loss = round(1000 * (1.0 - drawn - value) / 2)
    return win, 1000 - win - loss, loss


def wdl_text(value: float, draw: float, proof: int = 0) -> str:
    """`wdl_per_mille` as UCI writes it."""
    return " ".join(map(str, wdl_per_mille(value, draw, proof)))


def info_lines(report: Report, dialect: Dialect) -> Iterable[str]:
    """The `info` lines of a report: one for each move."""
    if report.note:
        yield f"info string {report.note}"
    if report.outcome is not None:
        yield f"info depth 0 score {'cp 0' if report.outcome == 0 else 'mate 0'}"
    progress = report.progress
    speed = round(progress.simulations / progress.seconds) if progress.seconds > 0 else 0
    for number, line in enumerate(report.lines, 1):
        yield (
            f"info depth {max(1, progress.depth)} seldepth {max(1, progress.deepest)} multipv {number} "
            f"score {_score(line, report, dialect)} nodes {progress.simulations} nps {speed} "
            f"hashfull {progress.hashfull} tbhits 0 "
            f"time {round(1000 * progress.seconds)} pv {' '.join(line.moves)}"
        )


def _score(line: Line, report: Report, dialect: Dialect) -> str:
    score = score_text(line.value, line.proof, in_plies=dialect.mate_in_plies)
    return score if report.draw is None else f"{score} wdl {wdl_text(line.value, report.draw, line.proof)}"


def best_move_line(found: Found, dialect: Dialect, *, gives_up: bool) -> str:
    """The `bestmove` line; `gives_up`: resign, if the protocol has a word for it."""
    if not found.moves:
        return f"bestmove {dialect.claims.get(found.claim, dialect.no_move)}"
    if gives_up and dialect.resignation:
        return f"bestmove {dialect.resignation}"
    return f"bestmove {found.moves[0]}" + (f" ponder {found.moves[1]}" if len(found.moves) > 1 else "")
