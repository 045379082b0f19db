"""Lines of UCI and USI as commands. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from engine.core.options import shown
from engine.uci.dialect import UCI, Dialect

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
    byoyomi: int = 0
    infinite: bool = False
    ponder: bool = False


Command = Simple | SetOption | Position | Go

_SIMPLE = frozenset({"isready", "stop", "ponderhit", "gameover", "quit", "d", "debug", "register"})
_CLOCKS = frozenset({"wtime", "btime", "winc", "binc"})
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
    go, index = Go(), 0
    known = _CLOCKS | counts | _FLAGS | {"searchmoves"}
    while index < len(words):
        word = words[index]
        index += 1
        if word in _FLAGS:
            go = _with(go, word, True)
        elif word == "searchmoves":
            end = index
            while end < len(words) and words[end] not in known:
                end += 1
            go = replace(go, searchmoves=tuple(words[index:end]))
            index = end
        elif word in known:
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
