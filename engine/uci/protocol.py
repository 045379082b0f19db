"""Lines of UCI and USI as commands. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
