"""Lines of the UCI protocol as commands. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

MOST = 10**12
"""Largest number that is accepted."""


class BadCommand(ValueError):
    """A line that cannot be understood; the text says why."""


@dataclass(frozen=True)
class Simple:
    """uci, isready, ucinewgame, stop, ponderhit, quit, d, debug, register."""

    name: str


@dataclass(frozen=True)
class SetOption:
    name: str
    value: str


@dataclass(frozen=True)
class Position:
    fen: str
    """Empty: the usual start."""
    moves: tuple[str, ...]


@dataclass(frozen=True)
class Go:
    """Times are in milliseconds, as in the protocol; None: not given."""

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
    infinite: bool = False
    ponder: bool = False


Command = Simple | SetOption | Position | Go

_SIMPLE = frozenset({"uci", "isready", "ucinewgame", "stop", "ponderhit", "quit", "d", "debug", "register"})
_CLOCKS = frozenset({"wtime", "btime", "winc", "binc"})
_COUNTS = frozenset({"movestogo", "depth", "nodes", "mate", "movetime"})
_FLAGS = frozenset({"infinite", "ponder"})
_GO_WORDS = _CLOCKS | _COUNTS | _FLAGS | {"searchmoves"}


def parse(line: str) -> Command | None:
    """The command in a line, None for an empty one. Raises BadCommand."""
    words = line.split()
    if not words:
        return None
    name = words[0]
    if name in _SIMPLE:
        return Simple(name)
    if name not in _WITH_ARGUMENTS:
        raise BadCommand(f"unknown command {shown(name)}")
    return _WITH_ARGUMENTS[name](words[1:])


def shown(text: str, length: int = 60) -> str:
    """Foreign text, shortened and escaped for one line of output."""
    return ascii(text if len(text) <= length else text[:length] + "...")


def _set_option(words: list[str]) -> SetOption:
    if not words or words[0] != "name":
        raise BadCommand("setoption is written: setoption name NAME [value VALUE]")
    rest = words[1:]
    cut = rest.index("value") if "value" in rest else len(rest)
    if cut == 0:
        raise BadCommand("setoption without a name")
    return SetOption(" ".join(rest[:cut]), " ".join(rest[cut + 1 :]))


def _position(words: list[str]) -> Position:
    cut = words.index("moves") if "moves" in words else len(words)
    head, moves = words[:cut], tuple(words[cut + 1 :])
    if head == ["startpos"]:
        return Position("", moves)
    if len(head) > 1 and head[0] == "fen":
        return Position(" ".join(head[1:]), moves)
    raise BadCommand("position is written: position startpos|fen FEN [moves MOVE ...]")


def _go(words: list[str]) -> Go:
    go, index = Go(), 0
    while index < len(words):
        word = words[index]
        index += 1
        if word in _FLAGS:
            go = _with(go, word, True)
        elif word == "searchmoves":
            end = index
            while end < len(words) and words[end] not in _GO_WORDS:
                end += 1
            go = replace(go, searchmoves=tuple(words[index:end]))
            index = end
        elif word in _GO_WORDS:
            go = _with(go, word, _number(word, words[index] if index < len(words) else ""))
            index += 1
        else:
            raise BadCommand(f"unknown word {shown(word)} in go")
    return go


def _with(go: Go, field: str, value: int | bool) -> Go:
    change: dict[str, Any] = {field: value}
    return replace(go, **change)


def _number(name: str, text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 15):
        raise BadCommand(f"go {name} needs a whole number, not {shown(text)}")
    value = int(text)
    if value > MOST or (value < 0 and name not in _CLOCKS):
        raise BadCommand(f"go {name} {value} is out of range")
    return max(0, value)  # some GUIs send negative times


_WITH_ARGUMENTS: dict[str, Callable[[list[str]], Command]] = {
    "setoption": _set_option,
    "position": _position,
    "go": _go,
}
